//! A route: which entries go to which destination, in what order, with what policy.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::destination::Destination;
use crate::event::entry::Entry;
use crate::policy::filter::Filter;
use crate::policy::ordering::Ordering;
use crate::policy::probe::Probe;
use crate::policy::retry::Retry;
use crate::policy::{Dead, Start};
use crate::subscriber::Subscriber;

/// The largest batch, for destinations that take many at a time, as brokers do.
pub const BATCH_MAX: usize = 5_000;
/// The default batch size. The entries of a batch are settled together.
pub const BATCH: usize = 1_000;

/// Which entries go where, and how.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name, unique in the database: progress is kept under it.
    pub name: String,
    /// Where its entries come from.
    pub from: Source,
    /// Which entries.
    pub filter: Filter,
    /// Where to.
    pub to: To,
    /// Which entries must not overtake which.
    pub ordering: Ordering,
    /// The retries of refused entries.
    pub retry: Retry,
    /// When the destination is asked again after it was unavailable.
    pub probe: Probe,
    /// The effect of a dead letter on its key.
    pub dead: Dead,
    /// Where a new route begins.
    pub start: Start,
    /// Most entries that are delivered together, or taken from a broker at once: 1 to [`BATCH_MAX`].
    pub batch: usize,
    /// The number of shards, which are processed in parallel: each has some of the keys, and its own lease and cursor.
    pub shards: u32,
    /// How long entries that come while the route has nothing to do wait for company, so that more of them are delivered together.
    pub linger: Duration,
    /// Whether it keeps when each entry was delivered, as a row in the inbox. Retention removes those rows by their age.
    pub records: bool,
    /// Groups of the same relay that read what this route publishes. It waits for those that are new to join their broker, 15
    /// seconds at most: some brokers keep nothing for a group they do not know yet.
    pub awaits: Vec<String>,
}

impl Route {
    /// A route with the defaults: every entry, from the beginning, in order by key, one shard.
    pub fn new(name: impl Into<String>, to: To) -> Self {
        Self {
            name: name.into(),
            from: Source::Outbox,
            filter: Filter::all(),
            to,
            ordering: Ordering::Key,
            retry: Retry::default(),
            probe: Probe::default(),
            dead: Dead::Skip,
            start: Start::Beginning,
            batch: BATCH,
            shards: 1,
            linger: Duration::ZERO,
            records: false,
            awaits: Vec::new(),
        }
    }

    /// Whether a settlement records which entries were delivered. For a handler, this is recorded together with its effects.
    pub(crate) fn records_deliveries(&self) -> bool {
        self.records && matches!(self.to, To::Destination(_))
    }

    /// Whether this shard of the route delivers the entry when it meets it in the log. A route that a broker feeds follows
    /// the log all the same: it delivers what the broker does not bring, and everything while the broker does not feed it yet.
    pub(crate) fn reads(&self, shard: u32, entry: &Entry, is_fed: bool) -> bool {
        let is_brought = match &self.from {
            Source::Broker { brings, .. } if is_fed => brings.matches(&entry.event.event_type),
            Source::Outbox | Source::Broker { .. } => false,
        };
        !is_brought
            && self.filter.matches(&entry.event.event_type)
            && (self.shards <= 1 || entry.event.key().shard(self.shards) == shard)
    }
}

/// Where the entries of a route come from.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// The log.
    #[default]
    Outbox,
    /// A broker; only what failed is kept in the store, to be retried from there.
    Broker {
        /// Which.
        broker: Arc<dyn Broker>,
        /// The topics to read.
        topics: Vec<String>,
        /// The event types that are published there. Others are read from the log.
        brings: Filter,
        /// Where a group begins that the broker knows no progress of.
        start: Start,
    },
}

/// Where a route leads.
#[derive(Clone, Debug)]
pub enum To {
    /// A broker or sink: delivered, then settled.
    Destination(Arc<dyn Destination>),
    /// A handler in this process: its effect, its inbox row and the progress commit together.
    Subscriber(Arc<Subscriber>),
}

impl Subscriber {
    /// The route that feeds it straight from the outbox.
    pub fn into_route(self) -> Route {
        Route {
            name: self.group.clone(),
            from: Source::Outbox,
            filter: self.filter.clone(),
            ordering: self.ordering,
            retry: self.retry.clone(),
            probe: Probe::default(),
            dead: self.dead,
            start: self.start,
            batch: self.batch,
            shards: self.shards,
            linger: self.linger,
            records: self.records,
            awaits: Vec::new(),
            to: To::Subscriber(Arc::new(self)),
        }
    }

    /// The route that feeds it from topics of a broker. Event types that match `brings` come from the broker, others from the log.
    /// A group has one shard: the broker divides its work.
    pub fn fed_by(self, broker: Arc<dyn Broker>, topics: Vec<String>, brings: Filter) -> Route {
        Route {
            from: Source::Broker {
                broker,
                topics,
                brings,
                start: self.joins_at,
            },
            shards: 1,
            ..self.into_route()
        }
    }
}
