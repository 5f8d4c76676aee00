//! Nothing is skipped, nothing comes that rolled back, keys keep their order, and nobody waits (clauses 1 to 3).

#![expect(clippy::unwrap_used, reason = "a clause asserts by panicking")]

use std::pin::pin;

use postroom::{OpenTransaction, Tx};
use postroom_proof::Workload;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement, TransactionTrait};
use tokio::time::timeout;

use super::actor::{A_WHILE, Reader, append, begin, commit, label, until};
use crate::Fresh;

/// Entries of a transaction that commits late are read, after its commit.
pub async fn a_late_commit_is_not_skipped(fresh: Fresh) {
    let writers = fresh.writers(2).await;
    let mut reader = Reader::new(&fresh);
    let slow = begin(&writers).await;
    append(&slow, "slow", &["slow"]).await;
    if !fresh.overlapping_writers {
        return the_second_writer_waits(slow, &writers, reader).await;
    }
    commit(&writers, "quick", &["quick"]).await;
    reader.expect(&["quick"]).await;
    slow.commit().await.unwrap();
    reader.expect(&["slow"]).await;
    reader.expect_nothing_else().await;
}

/// Where only one transaction can write at a time: the next one waits, and both are read in commit order.
async fn the_second_writer_waits(first: Tx, writers: &DatabaseConnection, mut reader: Reader) {
    let mut second = pin!(commit(writers, "quick", &["quick"]));
    assert!(
        timeout(A_WHILE, &mut second).await.is_err(),
        "the second writer waits for the first"
    );
    assert!(reader.rest().await.is_empty(), "neither is readable yet");
    first.commit().await.unwrap();
    second.await;
    reader.expect(&["slow", "quick"]).await;
    reader.expect_nothing_else().await;
}

/// A reader never sees an event whose transaction rolled back, on purpose or because its connection was dropped.
pub async fn a_rolled_back_event_is_never_read(fresh: Fresh) {
    let mut reader = Reader::new(&fresh);
    let tx = begin(fresh.db()).await;
    append(&tx, "thing", &["rolled back"]).await;
    tx.rollback().await.unwrap();
    let tx = begin(fresh.db()).await;
    append(&tx, "thing", &["dropped"]).await;
    drop(tx);
    commit(fresh.db(), "thing", &["kept"]).await;
    reader.expect(&["kept"]).await;
    reader.expect_nothing_else().await;
}

/// A savepoint takes back its own events and no others.
pub async fn a_savepoint_rolled_back_hides_only_its_events(fresh: Fresh) {
    let mut reader = Reader::new(&fresh);
    let tx = fresh.db().begin().await.unwrap();
    append(&tx, "thing", &["before"]).await;
    let hidden = tx.begin().await.unwrap();
    append(&hidden, "thing", &["hidden"]).await;
    hidden.rollback().await.unwrap();
    let released = tx.begin().await.unwrap();
    append(&released, "thing", &["released"]).await;
    released.commit().await.unwrap();
    append(&tx, "thing", &["after"]).await;
    tx.commit().await.unwrap();
    reader.expect(&["before", "released", "after"]).await;
    reader.expect_nothing_else().await;
}

/// A table with one aggregate, for writers to meet at.
async fn one_aggregate(writers: &DatabaseConnection) -> Workload {
    let workload = Workload {
        writers: 1,
        keys: 1,
        ..Workload::default()
    };
    workload.prepare(writers).await.unwrap();
    workload
}

/// Writers of a key queue for its aggregate; the order in which they get it is the order of its events.
pub async fn a_key_keeps_its_order_when_its_first_writer_commits_late(fresh: Fresh) {
    let writers = fresh.writers(3).await;
    let workload = one_aggregate(&writers).await;
    let mut reader = Reader::new(&fresh);
    let first = begin(&writers).await;
    workload.lock(&first, 0).await.unwrap();
    append(&first, "thing", &["first"]).await;
    let mut second = pin!(async {
        let tx = begin(&writers).await;
        workload.lock(&tx, 0).await.unwrap();
        append(&tx, "thing", &["second"]).await;
        tx.commit().await.unwrap();
    });
    assert!(
        timeout(A_WHILE, &mut second).await.is_err(),
        "the second writer waits for the aggregate"
    );
    if fresh.overlapping_writers {
        commit(&writers, "other", &["other"]).await;
        reader.expect(&["other"]).await;
    }
    first.commit().await.unwrap();
    second.await;
    reader.expect(&["first", "second"]).await;
    reader.expect_nothing_else().await;
}

/// A transaction that began, and wrote something, before another may touch a key after it: then its event is the later.
pub async fn a_key_keeps_its_order_when_its_second_writer_began_first(fresh: Fresh) {
    let writers = fresh.writers(2).await;
    let workload = one_aggregate(&writers).await;
    let mut reader = Reader::new(&fresh);
    let early = begin(&writers).await;
    workload.write_elsewhere(&early, 0).await.unwrap();
    if fresh.overlapping_writers {
        commit(&writers, "thing", &["first"]).await;
        append(&early, "thing", &["second"]).await;
        early.commit().await.unwrap();
    } else {
        let mut late = pin!(commit(&writers, "thing", &["second"]));
        assert!(
            timeout(A_WHILE, &mut late).await.is_err(),
            "the second writer waits for the first"
        );
        append(&early, "thing", &["first"]).await;
        early.commit().await.unwrap();
        late.await;
    }
    reader.expect(&["first", "second"]).await;
    reader.expect_nothing_else().await;
}

/// However long a transaction stays open, the events of others come meanwhile.
pub async fn an_open_transaction_delays_only_its_own_events(fresh: Fresh) {
    let writers = fresh.writers(2).await;
    let mut reader = Reader::new(&fresh);
    commit(&writers, "free", &["before"]).await;
    let open = begin(&writers).await;
    append(&open, "held", &["held"]).await;
    reader.expect(&["before"]).await;
    if fresh.overlapping_writers {
        for number in 0..20 {
            let number = number.to_string();
            commit(&writers, "free", &[&number]).await;
            reader.expect(&[&number]).await;
        }
    }
    open.commit().await.unwrap();
    reader.expect(&["held"]).await;
    reader.expect_nothing_else().await;
}

/// A transaction that holds something back can be found by its session, as long as it is open.
pub async fn an_open_transaction_is_named(fresh: Fresh) {
    let writers = fresh.writers(1).await;
    let tx = begin(&writers).await;
    append(&tx, "held", &["held"]).await;
    let session = match writers.get_database_backend() {
        DbBackend::Postgres => "select cast(pg_backend_pid() as char(20)) as session",
        DbBackend::MySql => "select cast(connection_id() as char(20)) as session",
        _ => {
            assert!(
                fresh.open_transactions().await.unwrap().is_empty(),
                "SQLite cannot tell who has it open"
            );
            return tx.commit().await.unwrap();
        }
    };
    let row = tx
        .query_one_raw(Statement::from_string(writers.get_database_backend(), session))
        .await
        .unwrap()
        .unwrap();
    let session: String = row.try_get("", "session").unwrap();
    let session = session.trim();
    let look = || async { fresh.open_transactions().await.unwrap() };
    let is_ours = |open: &OpenTransaction| open.session == session;
    let found = until("the open transaction is named", look, |all| all.iter().any(is_ours)).await;
    assert!(
        found
            .iter()
            .any(|open| is_ours(open) && open.has_written && open.age_s >= 0.0),
        "{found:?}"
    );
    assert!(
        found.is_sorted_by(|older, younger| older.age_s >= younger.age_s),
        "oldest first: {found:?}"
    );
    tx.commit().await.unwrap();
    until("the ended transaction is gone", look, |all| !all.iter().any(is_ours)).await;
}

/// One transaction may be larger than any page.
pub async fn ten_thousand_rows_of_one_transaction_are_read(fresh: Fresh) {
    let labels: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let tx = begin(fresh.db()).await;
    append(&tx, "thing", &labels.iter().map(String::as_str).collect::<Vec<_>>()).await;
    tx.commit().await.unwrap();
    let mut reader = Reader::new(&fresh);
    let found: Vec<String> = reader.take(10_000).await.iter().map(label).collect();
    assert!(found == labels, "all of them, in the order they were emitted");
    reader.expect_nothing_else().await;
}
