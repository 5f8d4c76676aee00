//! The pulse: what a relay learns in one round trip, and what a person learns about the backlog.

#![expect(clippy::unwrap_used, reason = "a clause asserts by panicking")]

use std::time::Duration;

use postroom::table::{Table, named};
use postroom::{Position, clock};
use sea_orm::sea_query::{Alias, Expr, ExprTrait, Query};

use super::actor::{Reader, begin, change, commit, event, fill, until};
use crate::Fresh;

const HOUR: Duration = Duration::from_secs(3_600);

/// A relay that has read to the head and sees the same number again has nothing to read.
pub async fn the_pulse_grows_when_entries_become_readable(fresh: Fresh) {
    let mut reader = Reader::new(&fresh);
    let mut head = fresh.pulse().await.unwrap().head;
    for number in 0..5 {
        let label = number.to_string();
        commit(fresh.db(), "thing", &[&label]).await;
        let look = || async { fresh.pulse().await.unwrap() };
        let pulse = until("the pulse's head grows after a commit", look, |pulse| pulse.head > head).await;
        head = pulse.head;
        let found = reader.rest().await;
        assert_eq!(found.len(), 1, "what the pulse announced can be read at once");
    }
    let calm = fresh.pulse().await.unwrap();
    assert!(calm.head >= head, "it never goes back");
    assert!(!calm.more, "nothing is waiting");
}

/// The next scheduled event tells how long a relay may sleep.
pub async fn a_scheduled_event_shows_in_the_pulse(fresh: Fresh) {
    assert_eq!(fresh.pulse().await.unwrap().due_in, None, "nothing is scheduled");
    let later = event("thing", "later");
    let tx = begin(fresh.db()).await;
    postroom::schedule(&tx, &later, clock::now() + HOUR).await.unwrap();
    tx.commit().await.unwrap();
    let due_in = fresh.pulse().await.unwrap().due_in.unwrap();
    assert!(due_in <= HOUR && due_in > HOUR / 2, "in about an hour, not {due_in:?}");

    let tx = begin(fresh.db()).await;
    let now = event("thing", "now");
    postroom::schedule(&tx, &now, clock::now() - HOUR).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        fresh.pulse().await.unwrap().due_in,
        Some(Duration::ZERO),
        "one is overdue"
    );

    let tx = begin(fresh.db()).await;
    assert!(postroom::cancel(&tx, now.id).await.unwrap());
    assert!(postroom::cancel(&tx, later.id).await.unwrap());
    assert!(
        !postroom::cancel(&tx, later.id).await.unwrap(),
        "it is not waiting any more"
    );
    tx.commit().await.unwrap();
    assert_eq!(fresh.pulse().await.unwrap().due_in, None, "all are cancelled");
    Reader::new(&fresh).expect_nothing_else().await;
}

/// An operator's change reaches a relay with its next pulse.
pub async fn a_signal_shows_in_the_pulse(fresh: Fresh) {
    let before = fresh.pulse().await.unwrap().signal;
    let version = || Alias::new("version");
    let mut update = Query::update();
    update
        .table(named(fresh.db(), Table::Signal))
        .value(version(), Expr::col(version()).add(1));
    change(fresh.db(), &update).await;
    assert_eq!(fresh.pulse().await.unwrap().signal, before + 1);
}

/// The backlog is roughly what a reader has before it, and nothing at the head.
pub async fn the_backlog_counts_what_is_ahead(fresh: Fresh) {
    assert_eq!(fresh.backlog(Position::START).await.unwrap(), 0, "an empty outbox");
    fill(&fresh, 100).await;
    let all = fresh.backlog(Position::START).await.unwrap();
    assert!((50..=200).contains(&all), "about 100 from the start, not {all}");
    let mut reader = Reader::new(&fresh);
    reader.take(80).await;
    let some = fresh.backlog(reader.position).await.unwrap();
    assert!((5..=80).contains(&some), "about 20 after 80 of 100, not {some}");
    let none = fresh.backlog(fresh.head().await.unwrap()).await.unwrap();
    assert_eq!(none, 0, "nothing at the head");
}
