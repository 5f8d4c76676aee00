//! A fan-out that loses frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use postroom::Result;
use postroom_shared::{FanOut, Listener, Message};

/// The channels of frames begin with this. Other messages, such as those that end connections, are never lost.
const FRAMES: &str = "realtime:";

/// How many frames will be lost.
#[derive(Debug, Default)]
pub(super) struct Faults {
    left: AtomicU32,
    /// Whether a fan-out asks here.
    is_used: AtomicBool,
}

impl Faults {
    /// Loses so many of the next frames, instead of those that are left from an earlier call. Answers whether that is possible here.
    pub(super) fn lose(&self, frames: u32) -> bool {
        self.left.store(frames, Ordering::Relaxed);
        self.is_used.load(Ordering::Relaxed)
    }

    /// Whether the next frame is lost.
    fn strikes(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let struck = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        struck.is_ok()
    }
}

/// Passes everything on, except for frames that are to be lost.
#[derive(Debug)]
pub(super) struct LossyFanOut {
    inner: Arc<dyn FanOut>,
    faults: Arc<Faults>,
}

impl LossyFanOut {
    pub(super) fn new(inner: Arc<dyn FanOut>, faults: Arc<Faults>) -> Self {
        faults.is_used.store(true, Ordering::Relaxed);
        Self { inner, faults }
    }
}

#[async_trait]
impl FanOut for LossyFanOut {
    async fn publish(&self, messages: &[Message]) -> Result<()> {
        let is_lost = |message: &&Message| message.channel.starts_with(FRAMES) && self.faults.strikes();
        let kept: Vec<Message> = messages.iter().filter(|message| !is_lost(message)).cloned().collect();
        self.inner.publish(&kept).await
    }

    async fn listen(&self, channels: &[&str]) -> Result<Box<dyn Listener>> {
        self.inner.listen(channels).await
    }
}

#[cfg(test)]
mod tests {
    use postroom_shared::SharedState;

    use super::*;

    #[tokio::test]
    async fn frames_are_lost_as_often_as_asked_and_other_messages_never() {
        let faults = Arc::new(Faults::default());
        let fan_out = LossyFanOut::new(SharedState::local().fan_out, Arc::clone(&faults));
        let channels = ["realtime:notification", "sse:notification:disconnect"];
        let mut listener = fan_out.listen(&channels).await.unwrap();
        let [frame, other] = channels.map(|channel| move |body: &str| Message::new(channel, body));
        assert!(faults.lose(2));
        assert!(!Faults::default().lose(2), "no fan-out loses them");
        let sent = [frame("1"), other("2"), frame("3"), frame("4"), other("5")];
        fan_out.publish(&sent).await.unwrap();
        for expected in [other("2"), frame("4"), other("5")] {
            assert_eq!(listener.next().await.unwrap(), expected);
        }
    }
}
