//! Messengers over HTTP: a Slack-compatible incoming webhook, and PagerDuty's Events API v2.
//!
//! Slack's address and PagerDuty's key are secrets: `Debug` output, logs and replies do not contain them.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use postroom::alert::{Messenger, Notice, Reply, Turn};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::client::{address, client, error_text, read_body};
use crate::response::{read_retry_after, reply};

/// Timeout of a request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// PagerDuty's limit of a summary.
const SUMMARY_CHARS_MAX: usize = 1024;

/// Posts a text message to an incoming webhook of Slack or a compatible service.
#[derive(Clone)]
pub struct Slack {
    client: Client,
    url: Url,
}

impl Slack {
    /// Posts to this secret address.
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self {
            client: client(RESPONSE_TIMEOUT)?,
            url: address(url)?,
        })
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slack(…)")
    }
}

#[async_trait]
impl Messenger for Slack {
    async fn tell(&self, notice: &Notice) -> Reply {
        let body = json!({ "text": text(notice) });
        post(&self.client, &self.url, &body, self.url.path()).await
    }
}

/// Triggers and resolves incidents of a PagerDuty service, one for each rule.
#[derive(Clone)]
pub struct PagerDuty {
    client: Client,
    url: Url,
    routing_key: String,
    source: String,
}

impl PagerDuty {
    /// The default address; other regions have other ones.
    pub const URL: &str = "https://events.pagerduty.com/v2/enqueue";

    /// Posts to this address with the secret key of an integration; `source` names the affected machine.
    pub fn new(url: &str, routing_key: impl Into<String>, source: impl Into<String>) -> Result<Self> {
        Ok(Self {
            client: client(RESPONSE_TIMEOUT)?,
            url: address(url)?,
            routing_key: routing_key.into(),
            source: source.into(),
        })
    }

    fn event(&self, notice: &Notice) -> Value {
        let Self {
            routing_key, source, ..
        } = self;
        let Notice { rule, next, .. } = notice;
        if notice.turn == Turn::Ended {
            return json!({ "routing_key": routing_key, "event_action": "resolve", "dedup_key": rule });
        }
        let summary = format!("{rule}: {}", notice.says);
        let summary: String = summary.chars().take(SUMMARY_CHARS_MAX).collect();
        json!({
            "routing_key": routing_key,
            "event_action": "trigger",
            "dedup_key": rule,
            "payload": {
                "summary": summary,
                "source": source,
                "severity": "critical",
                "timestamp": rfc3339(notice.since),
                "custom_details": { "next": next },
            },
        })
    }
}

impl fmt::Debug for PagerDuty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PagerDuty({}, …)", self.url)
    }
}

#[async_trait]
impl Messenger for PagerDuty {
    async fn tell(&self, notice: &Notice) -> Reply {
        post(&self.client, &self.url, &self.event(notice), &self.routing_key).await
    }
}

/// Posts a notice. The reply does not contain the `secret`.
async fn post(client: &Client, url: &Url, body: &Value, secret: &str) -> Reply {
    let request = client
        .post(url.clone())
        .header(CONTENT_TYPE, "application/json")
        .body(body.to_string());
    match request.send().await {
        Ok(response) => {
            let (status, after) = (response.status(), read_retry_after(&response));
            reply(status, after, &read_body(response, &[secret]).await)
        }
        Err(error) => Reply::Later {
            says: error_text("post a notice", error),
            after: None,
        },
    }
}

fn text(notice: &Notice) -> String {
    let Notice { rule, says, next, .. } = notice;
    let since = rfc3339(notice.since);
    let text = match notice.turn {
        Turn::Began => format!("*{rule}* began at {since}: {says}.\nNext: {next}"),
        Turn::Ended => format!("*{rule}* is over. It began at {since}."),
    };
    // Escapes the characters of Slack's links and mentions.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn rfc3339(at: OffsetDateTime) -> String {
    let seconds = at.replace_nanosecond(0).unwrap_or(at);
    seconds.format(&Rfc3339).unwrap_or_default()
}
