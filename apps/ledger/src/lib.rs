//! A double-entry ledger whose every posting is an event.
//!
//! Balances, journal and events commit together or not at all; read models, audit log and a watch over the events' numbers
//! follow. `docs/guide/ledger.md` says which part is in which file, and walks through it with curl.

mod alert;
mod command;
pub mod domain;
mod events;
mod handlers;
mod http;
mod idempotency;
mod posting;
mod retention;
mod state;
mod tables;
mod traffic;

use std::time::Duration;

use postroom::{Delays, Handler, Idempotency, Retry, Subscriber};
use postroom_host::Module;

pub use alert::{Observed, PENDING_LONG_S, RULES, judge};
pub use events::{LedgerPosted, LedgerReversed, Movement};
pub use traffic::traffic;

/// Where the events belong on a broker.
const TOPIC: &str = "ledger-events";
/// The subscribers.
const GROUPS: [&str; 4] = [
    "ledger-balances",
    "ledger-portfolios",
    "ledger-audit",
    "ledger-sequence",
];

/// The module, without [`traffic`].
pub fn module() -> Module {
    let [balances, portfolios, audit, sequence] = GROUPS;
    Module::new("ledger")
        .tables(tables::all())
        .event::<LedgerPosted>()
        .event::<LedgerReversed>()
        .topic(TOPIC.parse().unwrap_or_default())
        // An event carries the balance and its number: the newest one wins, however often and late others come.
        .subscriber(subscriber(balances, handlers::show_balance, Idempotency::Upsert))
        // Adding up is not repeatable. An event's id follows from its transaction, so the inbox counts transactions.
        .subscriber(subscriber(portfolios, handlers::add_to_portfolio, Idempotency::Inbox))
        // Kept for longer than any inbox: its own key, transaction and account, tells repetitions for five years.
        .subscriber(subscriber(audit, handlers::write_audit, Idempotency::Upsert))
        // What the inbox knows is delivered again, not numbered twice.
        .subscriber(subscriber(sequence, handlers::watch_sequence, Idempotency::Inbox))
        .job(retention::job())
        .alerts(RULES, alert::look)
        .routes(http::routes())
}

fn subscriber(group: &str, handler: impl Handler + 'static, idempotency: Idempotency) -> Subscriber {
    Subscriber::matching(group, ["ledger.transaction.**"], handler)
        .idempotency(idempotency)
        .retry(retry())
}

/// Five attempts, two seconds apart, then an operator decides.
fn retry() -> Retry {
    Retry {
        delays: Delays::Fixed(Duration::from_secs(2)),
        attempts_max: Some(5),
        age_max: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_events_go_to_one_topic_and_every_subscriber_gets_them() {
        let module = module();
        assert_eq!(module.topic.fixed(), Some(TOPIC));
        for event in &module.events {
            assert_eq!(event.aggregate_type, "account");
            let wanted = module.subscribers.iter().filter(|one| one.filter.matches(event.name));
            assert_eq!(wanted.count(), GROUPS.len(), "{}", event.name);
        }
    }
}
