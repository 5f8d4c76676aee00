//! Sends activity events to PostHog.
//!
//! The sink speaks the protocol v1, which answers each event, and v0 where a deployment has no v1. An event has the same uuid, timestamp
//! and distinct id whenever it is sent, so PostHog removes duplicates. A batch that is refused as a whole is divided until the event
//! that it is refused for is found. `message` builds requests, `verdict` reads answers, `dispatch` decides what is sent next: all pure.

mod dispatch;
mod memory;
mod message;
mod settings;
mod verdict;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use postroom::{Result, clock};
use postroom_http::{Answer, Endpoint, gzip};

use self::dispatch::Dispatch;
use self::memory::Memory;
use self::message::{Message, Protocol, request_id, timestamp};
use self::verdict::Verdict;
use super::{ActivitySink, SinkAnswer};
use crate::event::ActivityEvent;

pub use settings::PosthogSettings;

/// The name and version of this client, as PostHog records it.
const SDK: &str = concat!("postroom/", env!("CARGO_PKG_VERSION"));

/// A project of PostHog.
pub struct PosthogSink {
    v1: Endpoint,
    v0: Endpoint,
    project_api_key: String,
    batch_size: usize,
    memory: Mutex<Memory>,
    counters: Counters,
}

/// Counts since the start of the process, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PosthogCounts {
    /// Requests, also those without an answer.
    pub requests: u64,
    /// Events that were stored with a warning, for example without a person profile.
    pub warnings: u64,
    /// Events without a result, or with a result that the protocol does not have.
    pub anomalies: u64,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    warnings: AtomicU64,
    anomalies: AtomicU64,
}

impl PosthogSink {
    /// The name of the sink.
    pub(crate) const TYPE: &'static str = "posthog";

    /// A sink with these settings; an error names each field that cannot be used.
    pub fn new(settings: &PosthogSettings) -> Result<Self> {
        settings.check()?;
        let host = Endpoint::new(&settings.origin(), settings.timeout())?;
        Ok(Self {
            v1: host.at("/i/v1/analytics/events"),
            v0: host.at("/batch/"),
            project_api_key: settings.project_api_key.trim().to_owned(),
            batch_size: settings.batch_size,
            memory: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// The counts so far.
    pub fn counts(&self) -> PosthogCounts {
        let Counters {
            requests,
            warnings,
            anomalies,
        } = &self.counters;
        PosthogCounts {
            requests: requests.load(Ordering::Relaxed),
            warnings: warnings.load(Ordering::Relaxed),
            anomalies: anomalies.load(Ordering::Relaxed),
        }
    }

    /// Sends messages together, by v1 if the deployment has it.
    async fn send(&self, messages: &[&Message]) -> Verdict {
        let protocol = self.memory().protocol(Instant::now());
        match self.send_by(protocol, messages).await {
            Verdict::NotServed if protocol == Protocol::V1 => {
                tracing::warn!(
                    "PostHog has no protocol v1; v0 is used, which does not report a project that is over its quota"
                );
                self.memory().v1_is_absent(Instant::now());
                match self.send_by(Protocol::V0, messages).await {
                    Verdict::NotServed => self.nothing_served(),
                    verdict => verdict,
                }
            }
            Verdict::NotServed => self.nothing_served(),
            verdict => verdict,
        }
    }

    /// Neither protocol is at this address: both are tried again next time.
    fn nothing_served(&self) -> Verdict {
        self.memory().v1_may_be_back();
        Verdict::unavailable("404: PostHog is not at this address; check the setting host", None)
    }

    /// Sends messages, compressed unless the deployment refuses that.
    async fn send_by(&self, protocol: Protocol, messages: &[&Message]) -> Verdict {
        let is_compressed = self.memory().is_compressed(Instant::now());
        let verdict = self.post(protocol, messages, is_compressed).await;
        match verdict {
            Verdict::NotReadable if is_compressed => {
                self.memory().gzip_is_refused(Instant::now());
                self.post(protocol, messages, false).await.or_unavailable()
            }
            verdict => verdict.or_unavailable(),
        }
    }

    async fn post(&self, protocol: Protocol, messages: &[&Message], is_compressed: bool) -> Verdict {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        match self.answer(protocol, messages, is_compressed).await {
            Ok(answer) => verdict::read(protocol, &answer, messages),
            Err(says) => Verdict::unavailable(says, None),
        }
    }

    async fn answer(&self, protocol: Protocol, messages: &[&Message], is_compressed: bool) -> Result<Answer, String> {
        let body = message::body(protocol, &self.project_api_key, messages);
        let body = body.and_then(|body| if is_compressed { gzip(&body) } else { Ok(body) });
        let body = body.map_err(|error| error.report())?;
        let encoding = is_compressed.then_some(("content-encoding", "gzip"));
        let json = ("content-type", "application/json");
        if protocol == Protocol::V0 {
            let headers: Vec<_> = [json].into_iter().chain(encoding).collect();
            return self.v0.post(&headers, body).await;
        }
        let id = request_id(messages);
        let attempt = self.memory().attempt(id).to_string();
        let (id, key) = (id.to_string(), format!("Bearer {}", self.project_api_key));
        let now = timestamp(clock::now());
        let own = [
            json,
            ("authorization", key.as_str()),
            ("posthog-sdk-info", SDK),
            ("posthog-attempt", attempt.as_str()),
            ("posthog-request-id", id.as_str()),
            ("posthog-request-timestamp", now.as_str()),
        ];
        let headers: Vec<_> = own.into_iter().chain(encoding).collect();
        self.v1.post(&headers, body).await
    }

    fn count(&self, verdict: &Verdict) {
        if let Verdict::Answered {
            warnings, anomalies, ..
        } = verdict
        {
            self.counters.warnings.fetch_add(*warnings, Ordering::Relaxed);
            self.counters.anomalies.fetch_add(*anomalies, Ordering::Relaxed);
            if *anomalies > 0 {
                tracing::warn!(
                    events = anomalies,
                    "PostHog gave events no known result; they are sent again"
                );
            }
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PosthogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PosthogSink(…)")
    }
}

#[async_trait]
impl ActivitySink for PosthogSink {
    fn sink_type(&self) -> &'static str {
        Self::TYPE
    }

    async fn sink_batch(&self, events: &[ActivityEvent]) -> Vec<SinkAnswer> {
        let messages: Vec<Message> = events.iter().map(Message::of).collect();
        let mut dispatch = Dispatch::new(&messages, self.batch_size);
        while let Some(group) = dispatch.next_group() {
            let verdict = self.send(&group.messages(&messages)).await;
            self.count(&verdict);
            dispatch.apply(group, verdict);
        }
        let is_form_known = self.memory().is_form_known;
        let (answers, is_understood) = dispatch.finish(is_form_known);
        self.memory().is_form_known = is_understood;
        answers
    }
}
