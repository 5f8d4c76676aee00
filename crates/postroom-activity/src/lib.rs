//! User activity collection: what users did, stored once, and passed on to sinks such as PostHog.
//!
//! A domain does not know that its events are collected. A mapper ([`ActivityMapper`]) turns a domain event into an
//! [`ActivityEvent`]; the module stores it in `user_activity_event` and passes it on to each [`ActivitySink`] by a route of its own.
//! Retries, dead letters, outages and replay are the relay's.

mod event;
mod mapper;
mod orchestrator;
mod sink;
mod tables;

use std::sync::Arc;

use postroom::DomainEvent as _;
use postroom::{Filter, Idempotency, Ordering, Route, Subscriber, To};
use postroom_host::Module;

pub use event::{ActivityEvent, ActivityRecorded, ActivityRedispatched, ActivityStored, Source};
pub use mapper::{ActivityMapper, MapperRegistry};
pub use orchestrator::{Orchestrator, Stored};
pub use sink::{ActivitySink, SinkAnswer};

use orchestrator::{Map, Store};
use sink::SinkDestination;

/// The module's name, and its section in the configuration.
pub const NAME: &str = "activity";
/// The topic of recorded events on a broker.
pub const TOPIC: &str = "domain.user.activity";

/// Activity collection, with the mappers of the domains that it collects from and the sinks that it feeds.
#[derive(Debug, Default)]
pub struct Activity {
    mappers: MapperRegistry,
    sinks: Vec<Arc<dyn ActivitySink>>,
}

impl Activity {
    /// Adds a mapper.
    pub fn mapper(mut self, mapper: impl ActivityMapper + 'static) -> postroom::Result<Self> {
        self.mappers.register(Arc::new(mapper))?;
        Ok(self)
    }

    /// Adds a sink.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn ActivitySink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// The module.
    pub fn module(self) -> Module {
        let types: Vec<&'static str> = self.mappers.event_types().collect();
        let orchestrator = Orchestrator::new(self.mappers, !self.sinks.is_empty());
        let module = Module::new(NAME)
            .tables_on(tables::migrations)
            .topic(TOPIC.parse().unwrap_or_default())
            .event::<ActivityRecorded>()
            .event::<ActivityStored>()
            .event::<ActivityRedispatched>()
            .subscriber(map(types, orchestrator.clone()))
            .subscriber(store(orchestrator));
        self.sinks.into_iter().map(route).fold(module, Module::route)
    }
}

/// Records the activity that domain events report.
fn map(types: Vec<&'static str>, orchestrator: Orchestrator) -> Subscriber {
    Subscriber::matching("activity-map", types, Map(orchestrator))
}

/// Stores recorded activity events, each once.
fn store(orchestrator: Orchestrator) -> Subscriber {
    Subscriber::in_batches("activity-store", [ActivityRecorded::TYPE], Store(orchestrator))
        .idempotency(Idempotency::Upsert)
        .ordering(Ordering::None)
}

/// The route to a sink. Events of different users have no order there, so a refused one holds up no other.
fn route(sink: Arc<dyn ActivitySink>) -> Route {
    let name = format!("activity-{}", sink.sink_type());
    Route {
        filter: Filter::any_of([ActivityStored::TYPE, ActivityRedispatched::TYPE]),
        ordering: Ordering::None,
        batch: 100,
        ..Route::new(name, To::Destination(Arc::new(SinkDestination::new(sink))))
    }
}
