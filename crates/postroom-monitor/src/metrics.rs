//! Metrics for Prometheus: what this process counts, and what it last saw in the store and at brokers.
//!
//! A scrape sends no request and waits for nothing. It tells a part that runs beside the relay to look again; so a process that
//! is not scraped does not look, and one whose store is away still answers. Labels are routes, shards and groups, which are
//! configured; never keys, ids or payloads.

mod page;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use postroom::operate::{self, Status};
use postroom::{Broker, Error, ErrorKind, Health, Inspect, Relay, Result, Route, Source};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::page::Page;

/// Between two looks, however often scrapes arrive.
const LOOK: Duration = Duration::from_secs(5);
/// A store or broker that has not answered by then is left out this time.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The metrics of a process. Clones share what they know and what was registered.
#[derive(Clone, Debug)]
pub struct Metrics {
    watch: Arc<Watch>,
    registry: Arc<Mutex<Registry>>,
}

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

/// The last look outside of this process.
#[derive(Clone, Debug, Default)]
struct Seen {
    status: Option<(Instant, Status)>,
    waiting: Vec<(String, u64)>,
}

impl Metrics {
    /// The media type of [`Metrics::text`].
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// The metrics of a process with this store and this relay. Create them when the relay has all its routes.
    pub fn new(store: Arc<dyn Inspect>, relay: &Relay) -> Self {
        let watch = Arc::new(Watch {
            store,
            health: relay.health(),
            groups: relay.routes().iter().filter_map(Group::of).collect(),
            seen: Mutex::default(),
            scraped: Notify::new(),
        });
        let mut registry = Registry::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("postroom_build", "The version of the program", build);
        registry.register_collector(Box::new(Shown(Arc::clone(&watch))));
        Self {
            watch,
            registry: Arc::new(Mutex::new(registry)),
        }
    }

    /// Adds metrics of your own to the page. The names of all that `register` adds begin with `prefix` and `_`.
    ///
    /// ```no_run
    /// # fn example(metrics: &postroom_monitor::Metrics) {
    /// use postroom_monitor::prometheus_client::metrics::counter::Counter;
    ///
    /// let mails: Counter = Counter::default();
    /// metrics.register("shop", |registry| registry.register("mails", "Mails that were sent", mails.clone()));
    /// mails.inc(); // shop_mails_total 1
    /// # }
    /// ```
    pub fn register(&self, prefix: &str, register: impl FnOnce(&mut Registry)) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        register(registry.sub_registry_with_prefix(prefix));
    }

    /// Looks at the store and at brokers while scrapes arrive, at most once in five seconds, until `stop`. Without it, the page
    /// has only what this process counts.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        while stop.run_until_cancelled(self.watch.scraped.notified()).await.is_some() {
            stop.run_until_cancelled(self.watch.look()).await;
            stop.run_until_cancelled(sleep(LOOK)).await;
        }
        Ok(())
    }

    /// The page, as `OpenMetrics` text. It waits for nothing. Fails only if a metric that was registered cannot be written.
    pub fn text(&self) -> Result<String> {
        self.watch.scraped.notify_one();
        let mut page = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        match text::encode(&mut page, &registry) {
            Ok(()) => Ok(page),
            Err(error) => Err(Error::caused(ErrorKind::Failed, "write the metrics", error)),
        }
    }
}

impl Watch {
    async fn look(&self) {
        let waiting = join_all(self.groups.iter().map(Group::waiting));
        let status = timeout(ANSWER_MAX, operate::status(self.store.as_ref()));
        let (status, waiting) = tokio::join!(status, waiting);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.waiting = waiting.into_iter().flatten().collect();
        match status {
            Ok(Ok(status)) => seen.status = Some((Instant::now(), status)),
            Ok(Err(error)) => tracing::debug!(error = error.report(), "the store was not looked at"),
            Err(_late) => tracing::debug!("the store was not looked at in time"),
        }
    }
}

impl Group {
    /// The group of a route that a broker feeds.
    fn of(route: &Route) -> Option<Self> {
        match &route.from {
            Source::Outbox => None,
            Source::Broker { broker, topics, .. } => Some(Self {
                name: route.name.clone(),
                broker: Arc::clone(broker),
                topics: topics.clone(),
            }),
        }
    }

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

/// Writes what is known now.
#[derive(Debug)]
struct Shown(Arc<Watch>);

impl Collector for Shown {
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
