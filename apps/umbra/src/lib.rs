//! A subscription service: guilds, billing, licences, recovery and who is told of what.
//!
//! A folder for each context, with the same files in it. No context calls another one: what one does, others learn from its
//! events, through the outbox. `docs/guide/umbra.md` says where everything is.

pub mod alert;
mod audit;
pub mod billing;
mod catalog;
mod door;
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
use postroom_host::Module;

use billing::card::CardApi;
use billing::charge::Till;
use billing::events::ChargeRequested;
use billing::{FakeCards, Pace};
use licensing::handlers::Licensing;
use notification::FakeDm;
use notification::dm::Dm;
use notification::handlers::Notification;

/// The module's name, with which the names of its groups begin.
const NAME: &str = "umbra";
/// One topic: on a broker, what happens to one thing stays in order with what it leads to.
const TOPIC: &str = "umbra-events";

/// The service, with what it works through and how fast its clocks run.
#[derive(Clone, Debug)]
pub struct Umbra {
    /// Who charges cards.
    pub cards: Arc<dyn CardApi>,
    /// Who brings direct messages.
    pub dm: Arc<dyn Dm>,
    /// How fast billing's clock runs.
    pub pace: Pace,
    /// What happens to events that a subscriber fails on. Charges are tried again as often as it takes.
    pub retry: Retry,
}

impl Default for Umbra {
    /// Fakes for what lies outside; periods of 30 days, charges that fail repeated after 24 hours; events that fail tried again
    /// after 1 min, 5 min, 15 min and then every hour, and given up at the tenth failure; charges never.
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

/// The module, with fakes for the card API and Discord.
pub fn module() -> Module {
    Umbra::default().module()
}

/// The module with traffic, and with clocks that run fast enough to watch: a month is a minute, a day ten seconds.
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
            .tables(tables())
            .routes(self.routes());
        let module = declare(module);
        let types: Vec<&'static str> = module.events.iter().map(|event| event.name).collect();
        let module = module
            .alerts(alert::RULES, move |host| alert::look(host, types.clone()))
            .alerts([alert::CHARGES], alert::look_at_charges);
        self.subscribers().into_iter().fold(module, Module::subscriber)
    }

    /// A job that brings a new guild every few seconds, with an owner who subscribes and a card that may fail later. A host
    /// adds it to the module when it wants traffic.
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
        // One card that fails holds up no other: a lane for each subscription. And it is asked until it answers: after
        // however long an outage, somebody may have paid.
        let charges = Subscriber::external("umbra-charges", [ChargeRequested::TYPE], self.till()).retry(Retry {
            attempts_max: None,
            ..self.retry.clone()
        });
        [
            self.in_line(licensing.idempotency(Idempotency::Natural)),
            self.in_line(billing.idempotency(Idempotency::Natural)),
            charges,
            self.in_line(notification),
            self.in_line(audit.idempotency(Idempotency::Upsert)),
        ]
    }

    /// Handles its events in the order of the outbox: no event passes one that failed.
    fn in_line(&self, subscriber: Subscriber) -> Subscriber {
        subscriber.ordering(Ordering::Strict).retry(self.retry.clone())
    }

    fn routes(&self) -> axum::Router<postroom_host::Host> {
        // As long as failed charges are repeated, and then some.
        let grace = self.pace.retry_after * 4;
        guild::http::routes()
            .merge(identity::http::routes())
            .merge(billing::http::routes(self.till()))
            .merge(licensing::http::routes(grace))
            .merge(recovery::http::routes())
            .merge(member::http::routes())
            .merge(notification::http::routes())
            .merge(audit::http::routes())
    }
}

/// Every migration, oldest first.
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

/// The names of all events that others may rely on: all but billing's notes to itself.
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
