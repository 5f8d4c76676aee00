//! User activity collection: what users did, stored once, and passed on to sinks such as PostHog.
//!
//! A domain does not know that its events are collected. A mapper ([`ActivityMapper`]) turns a domain event into an
//! [`ActivityEvent`]; the module stores it in `user_activity_event` and passes it on to each [`ActivitySink`] by a route of its own.
//! Retries, dead letters, outages and replay are the relay's.

mod admin;
mod alert;
mod catalogue;
mod event;
pub mod export;
mod foreign;
pub mod forget;
mod http;
mod ingest;
mod mapper;
mod orchestrator;
pub mod pii_check;
mod policy;
mod privacy;
pub mod query;
mod recorder;
pub mod redispatch;
pub mod reprocess;
mod settings;
mod sink;
mod tables;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postroom::DomainEvent as _;
use postroom::{Delays, EventType, Filter, Idempotency, Ordering, Probe, Retry, Route, Screen, Subscriber, To};
use postroom_host::Module;
use postroom_pii::Keys;
use postroom_shared::RateLimiter;

pub use catalogue::Catalogue;
pub use event::{ActivityEvent, ActivityRecorded, ActivityRedispatched, ActivityStored, Source};
pub use ingest::IngestSettings;
pub use mapper::{ActivityMapper, MapperRegistry};
pub use orchestrator::{Orchestrator, Stored};
pub use postroom_pii as pii;
pub use privacy::Privacy;
pub use recorder::Recorder;
pub use settings::{
    ClientEvents, Group, MessageQueueSettings, Mode, PiiSettings, PollTimeout, Provider, Secret, Settings,
};
pub use sink::{ActivitySink, PosthogCounts, PosthogSettings, PosthogSink, SinkAnswer, WebhookSink};

use ingest::Ingest;
use orchestrator::{Map, Store};
use sink::{SinkDelays, SinkDestination};

/// The module's name, and its section in the configuration.
pub const NAME: &str = "activity";
/// The topic of recorded events on a broker.
pub const TOPIC: &str = "domain.user.activity";

/// The subscriber that maps domain events.
const MAP: &str = "activity-map";
/// The mapping gathers events for this long. No request waits for a mapped event, and the mapping shares the database with requests
/// of the domain, so it uses few transactions.
const MAPPING_LINGER: Duration = Duration::from_secs(1);
/// How long the mapping of an event is tried, unless `strict_server_event_lossless` is set.
const MAPPING_AGE_MAX: Duration = Duration::from_secs(3600);

/// How an operator gets what was not delivered before activity collection was switched off.
const AGAIN: &str = "when it is on again, `postroom activity reprocess` maps domain events again, and `postroom activity \
                     redispatch SINK` sends stored events to a sink";
/// The same for PostHog alone.
const AGAIN_POSTHOG: &str =
    "they are stored; when PostHog is on again, `postroom activity redispatch posthog --from TIME` sends them";

/// Activity collection, with the mappers of the domains that it collects from and the sinks that it feeds.
#[derive(Debug, Default)]
pub struct Activity {
    mappers: MapperRegistry,
    sinks: Vec<Arc<dyn ActivitySink>>,
    recorders: Vec<Recorder>,
    mistakes: Vec<String>,
    catalogue: Catalogue,
    rate_limiter: Option<Arc<dyn RateLimiter>>,
    hash_keys: Option<Keys>,
}

impl Activity {
    /// Adds a mapper.
    #[must_use]
    pub fn mapper(mut self, mapper: impl ActivityMapper + 'static) -> Self {
        if let Err(error) = self.mappers.register(Arc::new(mapper)) {
            self.mistakes.push(error.report());
        }
        self
    }

    /// Adds a sink.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn ActivitySink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Sets the events that clients may send.
    #[must_use]
    pub fn catalogue(mut self, catalogue: Catalogue) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// Counts the requests of clients over all instances that share this. Without it, the limiter of the process does
    /// ([`postroom_host::Host::shared`]).
    #[must_use]
    pub fn rate_limiter(mut self, shared: Arc<dyn RateLimiter>) -> Self {
        self.rate_limiter = Some(shared);
        self
    }

    /// Sets the keys of the hashes of searched words and of ids with personal data. A secret in the settings (`pii.hash_secret`) goes
    /// before it; without both, the process does not start.
    ///
    /// ```
    /// use postroom_activity::{Activity, pii::Keys};
    ///
    /// # let secret_of_your_configuration = b"32 or more random bytes, and no default";
    /// let keys = Keys::new("2026", secret_of_your_configuration)?;
    /// let module = Activity::default().hash_keys(keys).module();
    /// # Ok::<(), postroom_activity::pii::Invalid>(())
    /// ```
    #[must_use]
    pub fn hash_keys(mut self, keys: Keys) -> Self {
        self.hash_keys = Some(keys);
        self
    }

    /// Adds a recorder: what is recorded with it is stored.
    #[must_use]
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorders.push(recorder);
        self
    }

    /// The module. Its settings are in the section `[modules.activity]`.
    pub fn module(self) -> Module {
        let module = Module::new(NAME)
            .tables_on(tables::migrations)
            .topic(TOPIC.parse().unwrap_or_default())
            .event::<ActivityRecorded>()
            .event::<ActivityStored>()
            .event::<ActivityRedispatched>()
            .http(admin::routes())
            .http(admin::acts())
            .job(redispatch::job())
            .retires_when_off(AGAIN)
            .variables(settings::VARIABLES);
        module.settings(|module, settings| self.join(module, &settings))
    }

    /// Adds what the settings ask for.
    fn join(self, mut module: Module, settings: &Settings) -> Module {
        let sink_types: BTreeSet<&str> = self.sinks.iter().map(|sink| sink.sink_type()).collect();
        let added = sink_types
            .into_iter()
            .filter(|sink_type| *sink_type != PosthogSink::TYPE);
        module.events.extend(added.chain([PosthogSink::TYPE]).map(redispatched));
        let module = self
            .mistakes
            .into_iter()
            .chain(settings.mistakes())
            .fold(module, Module::mistake);
        let types: Vec<&'static str> = self.mappers.event_types().collect();
        let delays = SinkDelays::default();
        let (sinks, mistakes) = sinks(self.sinks, settings, &delays);
        let module = mistakes.into_iter().fold(module, Module::mistake);
        let (privacy, mistake) = privacy(settings, self.hash_keys);
        let module = mistake.into_iter().fold(module, Module::mistake);
        let module = privacy.register(module).screen(Arc::clone(&privacy) as Arc<dyn Screen>);
        let orchestrator = Orchestrator::new(self.mappers, Arc::clone(&privacy), !sinks.is_empty());
        let (catalogue, mistakes) = settings.client_events.add_to(self.catalogue);
        let unusable = |module: Module, (key, says)| module.unusable(key, says);
        let module = mistakes.into_iter().fold(module, unusable);
        let module = match types.is_empty() {
            true => module, // there are no domain events to map
            false => module.subscriber(map(types, orchestrator.clone(), settings)),
        };
        let module = module
            .job(reprocess::job(orchestrator.clone()))
            .subscriber(store(orchestrator.clone(), settings).start(settings.start))
            .queue(settings.message_queue.queue());
        let module = self.recorders.into_iter().fold(module, |module, recorder| {
            let orchestrator = orchestrator.clone();
            recorder
                .register(module)
                .part("recorder", move |host, stop| recorder.run(orchestrator, host, stop))
        });
        let ingest = Ingest::new(settings.ingest(), catalogue, (orchestrator, privacy), self.rate_limiter);
        let module = ingest.register(module).http(http::routes(Arc::new(ingest)));
        let posthog = sink::route_name(PosthogSink::TYPE);
        let has_posthog = sinks.iter().any(|route| route.name == posthog);
        let module = match settings.switches_posthog_off() {
            true if !has_posthog => module.retired(posthog, sent_events(PosthogSink::TYPE), AGAIN_POSTHOG),
            _ => module.retired_when_off(posthog, sent_events(PosthogSink::TYPE), AGAIN_POSTHOG),
        };
        let module = module.metrics(|registry| delays.register(registry));
        let module = alert::watch(module, &sinks);
        sinks.into_iter().fold(module, Module::route)
    }
}

/// The rules for personal data. Without a secret a module has its parts, so that commands can show them, and does not run.
fn privacy(settings: &Settings, keys: Option<Keys>) -> (Arc<Privacy>, Option<String>) {
    match Privacy::new(&settings.pii, keys) {
        Ok(privacy) => (Arc::new(privacy), None),
        Err(error) => (Arc::new(Privacy::closed()), Some(error.report())),
    }
}

/// The guide's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/activity-ingest.md")]
struct IngestGuide;

/// Records the activity that domain events report. It reads the outbox also where a broker feeds the module: the events of
/// other modules are not published for it.
fn map(types: Vec<&'static str>, orchestrator: Orchestrator, settings: &Settings) -> Subscriber {
    let retry = match settings.strict_server_event_lossless {
        true => without_end(),
        false => Retry {
            age_max: Some(MAPPING_AGE_MAX),
            ..Retry::default()
        },
    };
    Subscriber::in_batches(MAP, types, Map(orchestrator))
        .linger(MAPPING_LINGER)
        .straight()
        .start(settings.start)
        .retry(retry)
}

/// Tries for as long as it takes, once a minute at last: a table that is locked or broken for hours costs no event.
fn without_end() -> Retry {
    Retry {
        delays: Delays::Exponential {
            first: Duration::from_secs(1),
            max: Duration::from_secs(60),
        },
        attempts_max: None,
        age_max: None,
    }
}

/// Stores recorded activity events, each once: those of the outbox, and those that other programs put on the topic.
fn store(orchestrator: Orchestrator, settings: &Settings) -> Subscriber {
    let group = settings.message_queue.default_consumer_group.name();
    Subscriber::in_batches(group, [ActivityRecorded::TYPE], Store(orchestrator))
        .reads(foreign::read)
        .idempotency(Idempotency::Upsert)
        .ordering(Ordering::None)
        .retry(without_end())
}

/// The routes to the sinks: those that were added, and PostHog if the settings say so.
fn sinks(added: Vec<Arc<dyn ActivitySink>>, settings: &Settings, delays: &SinkDelays) -> (Vec<Route>, Option<String>) {
    let mut routes: Vec<Route> = added.into_iter().map(|sink| route(sink, delays)).collect();
    if !settings.sends_to_posthog() {
        return (routes, None);
    }
    let posthog = &settings.posthog;
    match PosthogSink::new(posthog) {
        Ok(sink) => {
            routes.push(Route {
                batch: posthog.batch_size,
                retry: Retry {
                    attempts_max: Some(posthog.max_retries.saturating_add(1)),
                    ..Retry::default()
                },
                probe: Probe::every(Duration::from_secs(posthog.circuit_open_seconds)),
                start: posthog.start,
                ..route(Arc::new(sink), delays)
            });
            (routes, None)
        }
        Err(error) => (routes, Some(format!("posthog: {}", error.report()))),
    }
}

/// The route to a sink. Events of different users have no order there, so a refused one holds up no other. While the sink is
/// unavailable, it is tried once in a minute.
fn route(sink: Arc<dyn ActivitySink>, delays: &SinkDelays) -> Route {
    let name = sink::route_name(sink.sink_type());
    Route {
        filter: sent_events(sink.sink_type()),
        ordering: Ordering::None,
        batch: 100,
        probe: Probe::every(Duration::from_secs(60)),
        ..Route::new(
            name,
            To::Destination(Arc::new(SinkDestination::new(sink, delays.clone()))),
        )
    }
}

/// The type of the events that are sent to a sink again. Its name lasts as long as the process.
fn redispatched(sink_type: &str) -> EventType {
    EventType {
        name: ActivityRedispatched::type_for(sink_type).leak(),
        ..EventType::of::<ActivityRedispatched>()
    }
}

/// The events of a route to a sink.
fn sent_events(sink_type: &str) -> Filter {
    Filter::any_of([
        ActivityStored::TYPE.to_owned(),
        ActivityRedispatched::TYPE.to_owned(),
        ActivityRedispatched::type_for(sink_type),
    ])
}

/// Compiles the example in the guide as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/new-sink.md")]
struct NewSinkGuide;
