//! Messengers over HTTP: a Slack-compatible incoming webhook, and PagerDuty's Events API v2.
//!
//! The address of the one and the key of the other are secrets: neither is shown, logged or said in a reply.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use postroom::alert::{Messenger, Notice, Reply, Turn};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::answer::reply;
use crate::client::{address, client, read, report};

/// An answer that takes longer counts as none.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// What PagerDuty takes of a summary.
const SUMMARY_CHARS_MAX: usize = 1024;

/// Posts a line of text to an incoming webhook of Slack, or of whatever takes the same.
#[derive(Clone)]
pub struct Slack {
    client: Client,
    url: Url,
}

impl Slack {
    /// Posts to this address, which is a secret.
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self {
            client: client(ANSWER_MAX)?,
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
    /// Where events go, unless one is told of another region.
    pub const URL: &str = "https://events.pagerduty.com/v2/enqueue";

    /// Posts to this address with the key of an integration, which is a secret; `source` says which machine is concerned.
    pub fn new(url: &str, routing_key: impl Into<String>, source: impl Into<String>) -> Result<Self> {
        Ok(Self {
            client: client(ANSWER_MAX)?,
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
                "timestamp": shown(notice.since),
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

/// Posts a notice; the `secret` is in no reply.
async fn post(client: &Client, url: &Url, body: &Value, secret: &str) -> Reply {
    let request = client
        .post(url.clone())
        .header(CONTENT_TYPE, "application/json")
        .body(body.to_string());
    match request.send().await {
        Ok(answer) => {
            let (status, after) = (answer.status(), retry_after(&answer));
            reply(status, after, &read(answer, &[secret]).await)
        }
        Err(error) => Reply::Later {
            says: report("post a notice", error),
            after: None,
        },
    }
}

/// How many seconds they ask for.
fn retry_after(answer: &Response) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn text(notice: &Notice) -> String {
    let Notice { rule, says, next, .. } = notice;
    let since = shown(notice.since);
    let text = match notice.turn {
        Turn::Began => format!("*{rule}* began at {since}: {says}.\nNext: {next}"),
        Turn::Ended => format!("*{rule}* is over. It began at {since}."),
    };
    // What Slack would take for a link or a mention.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn shown(at: OffsetDateTime) -> String {
    let seconds = at.replace_nanosecond(0).unwrap_or(at);
    seconds.format(&Rfc3339).unwrap_or_default()
}
