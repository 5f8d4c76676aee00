//! A client of server-sent events: what its member is told, in one stream.

use std::io;

use postroom_testkit::event_stream::{EventStream, ServerEvent};
use tokio::time::timeout;

use super::{CONNECT_MAX, Connect, End, Log, SILENCE_MAX, Stream, keep_connected, rand};

/// The client of one member.
pub(in crate::chaos) struct Notifications {
    pub(in crate::chaos) url: String,
    pub(in crate::chaos) token: String,
    pub(in crate::chaos) log: Log,
    /// The `id` after which the next connection goes on.
    cursor: Option<String>,
    retry_ms: Option<f64>,
}

impl Notifications {
    pub(in crate::chaos) fn new(url: String, token: String, log: Log) -> Self {
        Self {
            url,
            token,
            log,
            cursor: None,
            retry_ms: None,
        }
    }

    pub(in crate::chaos) async fn run(self) {
        keep_connected(self).await;
    }

    async fn open(&self) -> io::Result<EventStream> {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(self.cursor.as_deref().map(|cursor| ("last-event-id", cursor)));
        let opening = EventStream::try_open(&self.url, "/api/notifications/stream?tab=a", &headers);
        timeout(CONNECT_MAX, opening).await.map_err(io::Error::other)?
    }

    /// Takes an event; answers how the connection ends, if the event ends it.
    fn take(&mut self, event: &ServerEvent) -> Option<End> {
        self.retry_ms = event.retry.map(|ms| ms as f64).or(self.retry_ms);
        let was_first = self.cursor.is_none();
        if let Some(id) = event.id.as_deref().filter(|id| !id.is_empty()) {
            self.cursor = Some(id.to_owned());
        }
        match &*event.event {
            "" | "ping" => {}
            "reset" if was_first => {} // it had no cursor yet
            "notification" | "chat" => {
                let seq = event.json().get("seq").and_then(serde_json::Value::as_i64);
                let (seq, id) = (seq.unwrap_or_default(), event.id.as_deref().unwrap_or_default());
                self.log.add(Stream::Member, seq, id);
            }
            "end" => {
                let retry_ms = event.json().get("retryMs").and_then(serde_json::Value::as_f64);
                return Some(End {
                    was_open: true,
                    retry_ms,
                });
            }
            _ => self.log.surprise(format!("{event:?}")),
        }
        None
    }

    /// What becomes of a client whom the server refuses.
    fn refused(&self, stream: &EventStream) -> End {
        if stream.status < 500 {
            self.log.surprise(format!("an answer {}", stream.status));
        }
        let after = stream.header("retry-after").and_then(|after| after.parse::<f64>().ok());
        End {
            was_open: false,
            retry_ms: after.map(|seconds| seconds * 1_000.0 * (1.0 + rand())),
        }
    }
}

impl Connect for Notifications {
    fn log(&self) -> &Log {
        &self.log
    }

    async fn connect(&mut self) -> End {
        let mut stream = match self.open().await {
            Ok(stream) if stream.status == 200 => stream,
            Ok(refused) => return self.refused(&refused),
            Err(_broken) => return End::default(),
        };
        self.log.seen().is_open = true;
        while let Ok(Ok(Some(event))) = timeout(SILENCE_MAX, stream.try_next()).await {
            if let Some(end) = self.take(&event) {
                return end;
            }
        }
        End {
            was_open: true,
            retry_ms: None,
        }
    }

    fn retry_ms(&self) -> Option<f64> {
        self.retry_ms
    }
}
