//! The destination that publishes frames to all instances, after the transaction that made them.

use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, Destination, Entry, Error, Receipt, Result, clock};
use postroom_realtime::{Frame, Hub, StreamKey};
use serde_json::value::RawValue;

use crate::events::{Addressed, StreamAppended};
use crate::stream::{key, number, rendered};

/// Frames that one call publishes.
const FRAMES_MAX: usize = 1_000;
/// Older frames are not published: connections have read them from the journal long since. So a backlog is gone at once when what
/// the instances share comes back.
const AGE_MAX: Duration = Duration::from_secs(30);

/// Publishes frames. It takes every entry: a frame that is not published is read from the journal by those who miss it.
#[derive(Debug)]
pub(super) struct Publisher {
    hub: Hub,
}

impl Publisher {
    pub(super) fn new(hub: Hub) -> Self {
        Self { hub }
    }

    async fn publish(&self, entries: &[&Entry]) -> Result<()> {
        let mut frames = Vec::new();
        for entry in entries.iter().filter(|entry| is_new(entry)) {
            match frames_of(entry) {
                Ok(these) => frames.extend(these),
                Err(error) => tracing::error!(event = %entry.event.id, error = error.report(), "frames cannot be read"),
            }
        }
        for frames in frames.chunks(FRAMES_MAX) {
            self.hub.publish(frames).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        if let Err(error) = self.publish(batch.entries).await {
            tracing::warn!(
                error = error.report(),
                "frames were not published; connections read them later"
            );
        }
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

fn is_new(entry: &Entry) -> bool {
    clock::now() - entry.event.occurred_at < AGE_MAX
}

fn frames_of(entry: &Entry) -> Result<Vec<(StreamKey, Frame)>> {
    let appended: StreamAppended = entry.event.decode()?;
    let frame = |addressed: &Addressed| Ok((key(addressed.member_id), frame(&appended, addressed)?));
    appended.frames.iter().map(frame).collect()
}

fn frame(appended: &StreamAppended, addressed: &Addressed) -> Result<Frame> {
    let seq = number(addressed.seq);
    let Some(place) = addressed.content else {
        return Ok(Frame::silent(seq));
    };
    let content = appended.contents.get(place);
    let content = content.ok_or_else(|| Error::invalid("a frame names a content that is not there"))?;
    let data: Box<RawValue> = rendered(&content.data, addressed.seq, addressed.unread)?;
    Ok(Frame::new(seq, &content.event_id.to_string(), &content.name, &data))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::events::Content;

    #[test]
    fn a_frame_has_the_form_of_the_specification() {
        let event_id = Uuid::nil();
        let appended = StreamAppended {
            contents: vec![Content {
                event_id,
                name: "notification".to_owned(),
                data: r#"{"id":1,"type":"POST_LIKE","message":"…","refId":100,"actorId":2}"#.to_owned(),
            }],
            frames: Vec::new(),
        };
        let addressed = |content| Addressed {
            member_id: 42,
            seq: 17,
            unread: 3,
            content,
        };
        let shown = frame(&appended, &addressed(Some(0))).unwrap();
        let expected = format!(
            "id: {event_id}\nevent: notification\ndata: {}\n\n",
            r#"{"id":1,"type":"POST_LIKE","message":"…","refId":100,"actorId":2,"seq":17,"unread":3}"#
        );
        assert_eq!(std::str::from_utf8(shown.sse()).unwrap(), expected);
        assert!(frame(&appended, &addressed(None)).unwrap().is_silent());
        assert!(frame(&appended, &addressed(Some(1))).is_err());
    }
}
