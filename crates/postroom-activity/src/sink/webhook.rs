//! Posts activity events to a receiver of Standard Webhooks.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use postroom::{Error, ErrorKind, Result};
use postroom_http::{Answer, Endpoint, Secret, signed_headers};
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

use super::{ActivitySink, SinkAnswer};
use crate::event::ActivityEvent;

/// Requests at a time.
const REQUESTS_MAX: usize = 16;

/// A receiver that gets one signed request per event. The header `webhook-id` is the id of the event, equal in all attempts, so that the
/// receiver can drop duplicates.
///
/// The address may contain a secret: `Debug` output and answers do not contain it.
pub struct WebhookSink {
    endpoint: Endpoint,
    secrets: Vec<Secret>,
}

/// The body of a request.
#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    #[serde(with = "rfc3339")]
    timestamp: OffsetDateTime,
    data: Value,
}

impl WebhookSink {
    /// Posts to this address, signed with each secret. `timeout` limits each request.
    pub fn new(url: &str, secrets: Vec<Secret>, timeout: Duration) -> Result<Self> {
        if secrets.is_empty() {
            return Err(Error::invalid("a webhook sink has no secret; set at least one"));
        }
        Ok(Self {
            endpoint: Endpoint::new(url, timeout)?,
            secrets,
        })
    }

    async fn post(&self, event: &ActivityEvent) -> SinkAnswer {
        let body = match body(event) {
            Ok(body) => body,
            Err(error) => return SinkAnswer::Rejected(error.report()),
        };
        let signed = signed_headers(&self.secrets, &webhook_id(&event.event_id), &body);
        let signed = signed.iter().map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<_> = signed.chain([("content-type", "application/json")]).collect();
        match self.endpoint.post(&headers, body).await {
            Ok(answer) => read(&answer),
            Err(says) => SinkAnswer::Unavailable { says, after: None },
        }
    }
}

impl fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSink(…)")
    }
}

#[async_trait]
impl ActivitySink for WebhookSink {
    fn sink_type(&self) -> &'static str {
        "webhook"
    }

    /// Posts some events at a time. When all of them find the receiver unavailable, no further event is posted. (One of them alone may be
    /// an event that the receiver fails on: it costs no other event an attempt.)
    async fn sink_batch(&self, events: &[ActivityEvent]) -> Vec<SinkAnswer> {
        let mut answers: Vec<SinkAnswer> = Vec::with_capacity(events.len());
        for some in events.chunks(REQUESTS_MAX) {
            let posted = join_all(some.iter().map(|event| self.post(event))).await;
            let is_outage = posted
                .iter()
                .all(|answer| matches!(answer, SinkAnswer::Unavailable { .. }));
            answers.extend(posted);
            if is_outage {
                break;
            }
        }
        if let Some(last) = answers.last().cloned() {
            answers.resize(events.len(), last);
        }
        answers
    }
}

/// The id of the event, or one that is derived from it if it cannot be a `webhook-id`.
fn webhook_id(event_id: &str) -> String {
    match event_id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    {
        true => event_id.to_owned(),
        false => Uuid::new_v5(&Uuid::NAMESPACE_OID, event_id.as_bytes()).to_string(),
    }
}

fn body(event: &ActivityEvent) -> Result<Vec<u8>> {
    let body = serde_json::to_value(event).and_then(|data| {
        serde_json::to_vec(&Body {
            r#type: &event.event_name,
            timestamp: event.occurred_at,
            data,
        })
    });
    body.map_err(|source| Error::caused(ErrorKind::Failed, "write the event", source))
}

/// The answer to an event. A status that concerns the receiver as a whole keeps the event; other errors of the client may
/// concern the event.
fn read(answer: &Answer) -> SinkAnswer {
    let says = answer.status_text();
    let unavailable = |says: String| SinkAnswer::Unavailable {
        says,
        after: answer.retry_after,
    };
    match answer.status {
        200..=299 => SinkAnswer::Taken,
        300..=399 => unavailable(format!("{says}; redirects are not followed, set the new address")),
        410 => unavailable(format!(
            "{says}; the receiver wants no more events: remove the sink or set a new address"
        )),
        401 | 403 | 404 | 405 | 408 | 429 | 500.. => unavailable(says),
        413 => SinkAnswer::Rejected(says),
        _ => SinkAnswer::Refused(says),
    }
}
