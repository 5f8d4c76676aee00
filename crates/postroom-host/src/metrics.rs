//! Metrics for Prometheus: what this process counts, and what it last saw in the store and at brokers.
//!
//! A scrape asks nobody and waits for nobody. It tells a part that runs beside the relay to look again; so a process that is
//! not scraped does not look, and one whose store is away still answers. Labels are routes, shards and groups: what is
//! configured, never keys, ids or payloads.

mod page;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use postroom::operate::{self, Status};
use postroom::{Broker, Health, Inspect, Relay, Result, Source};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::page::Page;
use crate::host::Host;

/// Between two looks, however often somebody scrapes.
const LOOK: Duration = Duration::from_secs(5);
/// What has not answered by then is left out this time.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What `/metrics` shows.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Watch>);

#[derive(Debug)]
struct Watch {
    store: Arc<dyn Inspect>,
    health: Arc<Health>,
    groups: Vec<Group>,
    seen: Mutex<Seen>,
    scraped: Notify,
}

/// A group that a broker feeds.
#[derive(Clone, Debug)]
struct Group {
    name: String,
    broker: Arc<dyn Broker>,
    topics: Vec<String>,
}

/// What was last seen outside of this process.
#[derive(Clone, Debug, Default)]
struct Seen {
    status: Option<(Instant, Status)>,
    waiting: Vec<(String, u64)>,
}

impl Metrics {
    /// Of a process with this relay.
    pub fn new(host: &Host, relay: &Relay) -> Self {
        let group = |route: &postroom::Route| match &route.from {
            Source::Outbox => None,
            Source::Broker { broker, topics, .. } => Some(Group {
                name: route.name.clone(),
                broker: Arc::clone(broker),
                topics: topics.clone(),
            }),
        };
        Self(Arc::new(Watch {
            store: Arc::clone(&host.store),
            health: Arc::clone(&host.health),
            groups: relay.routes().iter().filter_map(group).collect(),
            seen: Mutex::default(),
            scraped: Notify::new(),
        }))
    }

    /// Looks at the store and at brokers now and then while somebody scrapes, until `stop`.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        while stop.run_until_cancelled(self.0.scraped.notified()).await.is_some() {
            stop.run_until_cancelled(self.look()).await;
            stop.run_until_cancelled(sleep(LOOK)).await;
        }
        Ok(())
    }

    /// Everything, as text.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        self.0.scraped.notify_one();
        let mut registry = Registry::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("postroom_build", "The version of the program", build);
        registry.register_collector(Box::new(self.clone()));
        let mut page = String::new();
        text::encode(&mut page, &registry)?;
        Ok(page)
    }

    async fn look(&self) {
        let waiting = join_all(self.0.groups.iter().map(Group::waiting));
        let status = timeout(ANSWER_MAX, operate::status(self.0.store.as_ref()));
        let (status, waiting) = tokio::join!(status, waiting);
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.waiting = waiting.into_iter().flatten().collect();
        match status {
            Ok(Ok(status)) => seen.status = Some((Instant::now(), status)),
            Ok(Err(error)) => tracing::debug!(error = error.report(), "the store was not looked at"),
            Err(_late) => tracing::debug!("the store was not looked at in time"),
        }
    }
}

impl Group {
    async fn waiting(&self) -> Option<(String, u64)> {
        match timeout(ANSWER_MAX, self.broker.waiting(&self.name, &self.topics)).await {
            Ok(Ok(waiting)) => Some((self.name.clone(), waiting)),
            Ok(Err(error)) => {
                tracing::debug!(group = self.name, error = error.report(), "a group was not looked at");
                None
            }
            Err(_late) => None,
        }
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Seen { status, waiting } = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut page = Page(encoder);
        page.pulse(self.0.health.pulse_age())?;
        page.workers(&self.0.health.readings())?;
        page.groups(&waiting)?;
        match status {
            Some((at, status)) => page.status(at, &status),
            None => Ok(()),
        }
    }
}
