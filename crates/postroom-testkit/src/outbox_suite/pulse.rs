//! The pulse: what a relay learns in one round trip, and what a person learns about the backlog.

#![expect(clippy::unwrap_used, reason = "a clause asserts by panicking")]

use std::time::Duration;

use postroom::table::{Table, named};
use postroom::{Position, clock};
use sea_orm::sea_query::{Alias, Expr, ExprTrait, Query};

use super::actor::{Reader, append, begin, change, commit, event, fill, label, until};
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

/// Looking is enough: what is committed counts and can be listed before any pulse has made it readable.
pub async fn what_is_committed_is_seen_without_a_pulse(fresh: Fresh) {
    let mut reader = Reader::new(&fresh);
    commit(fresh.db(), "thing", &["read"]).await;
    reader.expect(&["read"]).await;
    commit(fresh.db(), "thing", &["first", "second"]).await;
    assert_eq!(fresh.backlog(reader.position).await.unwrap(), 2);
    let readable = fresh.read(reader.position, 10).await.unwrap();
    let not_yet = fresh.not_yet_readable(10).await.unwrap();
    let seen: Vec<String> = readable.entries.iter().chain(&not_yet).map(label).collect();
    assert_eq!(seen, ["first", "second"]);
    assert!(
        fresh.not_yet_readable(1).await.unwrap().len() <= 1,
        "no more than the limit"
    );
    reader.expect(&["first", "second"]).await;
    assert!(
        fresh.not_yet_readable(10).await.unwrap().is_empty(),
        "all of it is readable"
    );
    assert_eq!(fresh.backlog(reader.position).await.unwrap(), 0);
}

/// Entries whose transaction commits late, when a reader has passed later ones, are ahead of it all the same.
pub async fn the_backlog_counts_late_commits(fresh: Fresh) {
    let writers = fresh.writers(2).await;
    let mut reader = Reader::new(&fresh);
    if fresh.overlapping_writers {
        let late = begin(&writers).await;
        append(&late, "late", &["1", "2", "3", "4", "5"]).await;
        commit(&writers, "quick", &["quick"]).await;
        reader.expect(&["quick"]).await;
        late.commit().await.unwrap();
    } else {
        commit(&writers, "late", &["1", "2", "3", "4", "5"]).await;
    }
    let backlog = async || fresh.backlog(reader.position).await.unwrap();
    until("the backlog is 5 before a pulse", &backlog, |entries| *entries == 5).await;
    fresh.catch_up().await;
    assert_eq!(backlog().await, 5, "and after one");
    reader.expect(&["1", "2", "3", "4", "5"]).await;
    assert_eq!(fresh.backlog(reader.position).await.unwrap(), 0);
}
