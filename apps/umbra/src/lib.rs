//! A subscription service: guilds, billing, licences, recovery and notifications.
//!
//! Each context has a folder with the same set of files. Contexts do not call each other: they learn about each other from
//! events, through the outbox. `docs/guide/umbra.md` lists the files.

pub mod alert;
mod audit;
pub mod billing;
mod catalog;
mod door;
mod event;
pub mod guild;
pub mod identity;
pub mod licensing;
pub mod member;
pub mod notification;
pub mod order;
mod plan;
pub mod recovery;
mod refusal;
mod rows;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use postroom::{Delays, DomainEvent, Idempotency, Job, Naming, Ordering, Retry, Subscriber};
use postroom_host::{Module, Routes};

use billing::card::CardApi;
use billing::charge::Till;
use billing::events::ChargeRequested;
use billing::{FakeCards, Pace};
use licensing::handlers::Licensing;
use notification::FakeDm;
use notification::dm::Dm;
use notification::handlers::Notification;

/// The module's name. The names of its groups start with it.
const NAME: &str = "umbra";
/// One topic for all events: on a broker, an event stays in order with the events that follow from it.
const TOPIC: &str = "umbra-events";

/// The service with its external systems and its timing.
#[derive(Clone, Debug)]
pub struct Umbra {
    /// Charges cards.
    pub cards: Arc<dyn CardApi>,
    /// Sends direct messages.
    pub dm: Arc<dyn Dm>,
    /// The periods and delays of billing.
    pub pace: Pace,
    /// The retry policy of the subscribers. Charges use its delays but are retried without a limit.
    pub retry: Retry,
}

impl Default for Umbra {
    /// Fake external systems. Periods of 30 days; a failed charge is retried after 24 hours. A failed event is retried after
    /// 1 min, 5 min, 15 min and then every hour, and becomes a dead letter at the tenth failure. Charges are retried without
    /// a limit.
    fn default() -> Self {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        Self {
            cards: Arc::new(FakeCards::default()),
            dm: Arc::new(FakeDm::default()),
            pace: Pace::default(),
            retry: Retry {
                delays: Delays::Steps(vec![minutes(1), minutes(5), minutes(15), minutes(60)]),
                attempts_max: Some(10),
                age_max: None,
            },
        }
    }
}

/// The module with fakes for the card API and Discord.
pub fn module() -> Module {
    Umbra::default().module()
}

/// The module with traffic and with short periods for a demo: a month is one minute, a day is ten seconds.
pub fn demo() -> Module {
    let umbra = Umbra {
        pace: Pace {
            period: Duration::from_secs(60),
            retry_after: Duration::from_secs(10),
            ask_after: Duration::from_secs(10),
        },
        ..Umbra::default()
    };
    let traffic = umbra.traffic();
    umbra.module().job(traffic)
}

impl Umbra {
    /// The module.
    pub fn module(self) -> Module {
        let module = Module::new(NAME)
            .naming(Naming::PastTense)
            .topic(TOPIC.parse().unwrap_or_default())
            .tables(tables());
        let module = self.routes().into_iter().fold(module, Module::http);
        let module = declare(module);
        let types: Vec<&'static str> = module.events.iter().map(|event| event.name).collect();
        let module = module
            .http(event::routes(types.clone().into()))
            .alerts(alert::RULES, move |host| alert::look(host, types.clone()))
            .alerts([alert::CHARGES], alert::look_at_charges);
        self.subscribers().into_iter().fold(module, Module::subscriber)
    }

    /// A job that adds a new guild every few seconds. Its owner subscribes with a card that may fail later. A host adds the
    /// job to the module when it wants traffic.
    pub fn traffic(&self) -> Job {
        traffic::traffic(self.till())
    }

    fn till(&self) -> Till {
        Till {
            cards: Arc::clone(&self.cards),
            pace: self.pace,
        }
    }

    fn subscribers(&self) -> [Subscriber; 5] {
        let licensing = Licensing {
            period: self.pace.period,
        };
        let dm = Arc::clone(&self.dm);
        let notified = notification::handlers::NOTICES
            .into_iter()
            .chain(notification::handlers::ADDRESSES);
        let licensing = Subscriber::matching("umbra-licensing", licensing::handlers::LISTENS, licensing);
        let billing = Subscriber::matching("umbra-billing", billing::handlers::LISTENS, billing::handlers::follow);
        let audit = Subscriber::matching("umbra-audit", catalogue(), audit::handlers::record);
        let notification = Subscriber::external("umbra-notification", notified, Notification { dm });
        // Each subscription has its own lane, so a failing card blocks no other. Charges are retried without a limit: even
        // after a long outage, the card may already have been charged.
        let charges = Subscriber::external("umbra-charges", [ChargeRequested::TYPE], self.till()).retry(Retry {
            attempts_max: None,
            ..self.retry.clone()
        });
        [
            self.in_outbox_order(licensing.idempotency(Idempotency::Natural)),
            self.in_outbox_order(billing.idempotency(Idempotency::Natural)),
            charges.recorded(),
            self.in_outbox_order(notification),
            self.in_outbox_order(audit.idempotency(Idempotency::Upsert)),
        ]
    }

    /// Handles events strictly in outbox order: a failed event blocks the later ones.
    fn in_outbox_order(&self, subscriber: Subscriber) -> Subscriber {
        subscriber
            .ordering(Ordering::Strict)
            .retry(self.retry.clone())
            .recorded() // for `published_at`
    }

    fn routes(&self) -> [Routes; 8] {
        // Longer than the retries of a failed charge.
        let grace = self.pace.retry_after * 4;
        [
            guild::http::routes(),
            identity::http::routes(),
            billing::http::routes(self.till()),
            licensing::http::routes(grace),
            recovery::http::routes(),
            member::http::routes(),
            notification::http::routes(),
            audit::http::routes(),
        ]
    }
}

/// All migrations, oldest first.
fn tables() -> [postroom::Migration; 10] {
    [
        guild::tables::MIGRATION,
        identity::tables::MIGRATION,
        billing::tables::MIGRATION,
        licensing::tables::MIGRATION,
        recovery::tables::MIGRATION,
        member::tables::MIGRATION,
        notification::tables::MIGRATION,
        audit::tables::MIGRATION,
        billing::attempt::MIGRATION,
        order::MIGRATION,
    ]
}

fn declare(module: Module) -> Module {
    let module = guild::events::declare(module);
    let module = billing::events::declare(module);
    let module = licensing::events::declare(module);
    let module = recovery::events::declare(module);
    let module = member::events::declare(module);
    identity::events::declare(module)
}

/// The names of all public events. Billing's internal events are not included.
pub fn catalogue() -> impl Iterator<Item = &'static str> {
    let contexts = [
        guild::events::NAMES,
        billing::events::NAMES,
        licensing::events::NAMES,
        recovery::events::NAMES,
        member::events::NAMES,
        identity::events::NAMES,
    ];
    let names = contexts.into_iter().flatten().copied();
    names.filter(|name| *name != ChargeRequested::TYPE)
}
