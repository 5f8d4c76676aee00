//! A double-entry ledger that emits an event for every posting.
//!
//! Balances, journal and events commit in one transaction. Subscribers maintain the read models and the audit log, and check
//! the sequence numbers of the events. `docs/guide/ledger.md` lists the files and is a walk-through with curl.

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

use postroom::{Dead, Delays, Handler, Idempotency, Retry, Subscriber};
use postroom_host::Module;

pub use alert::{Observed, PENDING_LONG_S, RULES, judge};
pub use events::{LedgerPosted, LedgerReversed, Movement};
pub use traffic::traffic;

/// The topic of the events.
const TOPIC: &str = "ledger-events";
/// The subscriber groups.
const GROUPS: [&str; 4] = [
    "ledger-balances",
    "ledger-portfolios",
    "ledger-audit",
    "ledger-sequence",
];

/// The module without [`traffic`].
pub fn module() -> Module {
    let [balances, portfolios, audit, sequence] = GROUPS;
    Module::new("ledger")
        .tables(tables::all())
        .event::<LedgerPosted>()
        .event::<LedgerReversed>()
        .topic(TOPIC.parse().unwrap_or_default())
        // An event carries the balance and its sequence number. The highest number wins, so repeated and late events change
        // nothing.
        .subscriber(subscriber(balances, handlers::show_balance, Idempotency::Upsert))
        // Adding is not idempotent, so it uses the inbox. The event id is derived from the transaction, so the inbox counts
        // each transaction once.
        .subscriber(subscriber(portfolios, handlers::add_to_portfolio, Idempotency::Inbox))
        // The audit log is kept longer than the inbox. Its own key (transaction, account) detects repetitions for five years.
        .subscriber(subscriber(audit, handlers::write_audit, Idempotency::Upsert))
        // The inbox drops redeliveries. So a number that arrives twice belongs to two different events. A failed event holds its
        // account, here and in the topic that the platform publishes to: the topic has the events of an account in the order of
        // their numbers, whatever an operator decides and when.
        .subscriber(subscriber(sequence, handlers::watch_sequence, Idempotency::Inbox).dead(Dead::Hold))
        .job(retention::job())
        .alerts(RULES, alert::look)
        .http(http::routes())
}

fn subscriber(group: &str, handler: impl Handler + 'static, idempotency: Idempotency) -> Subscriber {
    Subscriber::matching(group, ["ledger.transaction.**"], handler)
        .idempotency(idempotency)
        .retry(retry())
        .recorded() // for `processed_at`
}

/// Five attempts, two seconds apart. Then the event becomes a dead letter.
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

    /// The other read models take an account's events in any order.
    #[test]
    fn only_the_check_of_the_numbers_holds_an_account() {
        let module = module();
        let holding = module.subscribers.iter().filter(|one| one.dead == Dead::Hold);
        let holding: Vec<&str> = holding.map(|one| one.group.as_str()).collect();
        assert_eq!(holding, ["ledger-sequence"]);
    }
}
