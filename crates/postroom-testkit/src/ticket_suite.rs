//! The contract of [`Tickets`], one function per clause. That the state holds no ticket (contract 3) is tested beside each
//! implementation.
//!
//! An implementation runs all of them with one line: `postroom_testkit::ticket_suite!(open);`, a function that opens the tickets of two
//! instances that share their state.

#![expect(clippy::expect_used, reason = "a clause asserts: a failed call fails it")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postroom_shared::Tickets;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Two instances that share their state. One that has only local state gives the same tickets twice.
pub type Instances = [Arc<dyn Tickets>; 2];

/// Longer than a clause takes.
const LONG: Duration = Duration::from_mins(10);

/// Makes every clause a test of its own: `ticket_suite!(open);`.
#[macro_export]
macro_rules! ticket_suite {
    ($open:path) => {
        $crate::ticket_suite! { $open;
            a_ticket_is_redeemed_once_on_any_instance
            of_concurrent_calls_one_redeems_the_ticket
            an_unknown_or_expired_ticket_is_worth_nothing
            tickets_are_never_the_same
        }
    };
    ($open:path; $($clause:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                $crate::ticket_suite::$clause($open().await).await;
            }
        )*
    };
}

async fn issue(tickets: &Arc<dyn Tickets>, content: &str, lifetime: Duration) -> String {
    let ticket = tickets.issue(content, lifetime).await;
    ticket.expect("a new ticket")
}

async fn redeem(tickets: &Arc<dyn Tickets>, ticket: &str) -> Option<String> {
    let content = tickets.redeem(ticket).await;
    content.expect("tickets that answer")
}

/// Contract 1: a ticket answers what was deposited with it, on whichever instance, once.
pub async fn a_ticket_is_redeemed_once_on_any_instance([one, two]: Instances) {
    for content in ["", "42", "{\"member\":\"한글\"}\0\r\n", &"x".repeat(10_000)] {
        let ticket = issue(&one, content, LONG).await;
        assert_eq!(redeem(&two, &ticket).await.as_deref(), Some(content));
        for tickets in [&one, &two] {
            assert_eq!(redeem(tickets, &ticket).await, None, "it is spent");
        }
    }
}

/// Contract 1: of many calls at once, on both instances, one gets the content.
pub async fn of_concurrent_calls_one_redeems_the_ticket(instances: Instances) {
    let [one, _] = &instances;
    for _ in 0..10 {
        let ticket = issue(one, "42", LONG).await;
        let mut calls = JoinSet::new();
        for number in 0..40 {
            let [one, two] = instances.clone();
            let (tickets, ticket) = (if number % 2 == 0 { one } else { two }, ticket.clone());
            calls.spawn(async move { redeem(&tickets, &ticket).await });
        }
        let got: Vec<String> = calls.join_all().await.into_iter().flatten().collect();
        assert_eq!(got, ["42"]);
    }
}

/// Contract 2: whatever text is no ticket, or no ticket any more, answers nothing and spends no other.
pub async fn an_unknown_or_expired_ticket_is_worth_nothing([one, two]: Instances) {
    let other = issue(&one, "other", LONG).await;
    let expired = issue(&one, "expired", Duration::from_millis(50)).await;
    let never = issue(&one, "never valid", Duration::ZERO).await;
    sleep(Duration::from_millis(300)).await;
    let changed = format!("{other} ");
    let upper = other.to_uppercase();
    let long = "x".repeat(100_000);
    for text in ["", "*", "한글", "\0", &expired, &never, &changed, &upper, &long] {
        assert_eq!(redeem(&two, text).await, None, "{text:?}");
    }
    assert_eq!(redeem(&two, &other).await.as_deref(), Some("other"));
}

/// Contract 3: tickets differ, are long, and can be in an address.
pub async fn tickets_are_never_the_same([one, two]: Instances) {
    let mut all = BTreeSet::new();
    for _ in 0..50 {
        for tickets in [&one, &two] {
            all.insert(issue(tickets, "42", LONG).await);
        }
    }
    assert_eq!(all.len(), 100);
    let is_good = |ticket: &String| {
        let is_plain = ticket.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_plain && ticket.len() >= 64
    };
    assert!(all.iter().all(is_good), "{all:?}");
}
