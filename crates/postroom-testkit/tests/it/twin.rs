//! The broken readers are caught: by the checker under load, and by the clause that forbids what they do.

use std::time::Duration;

use postroom_proof::twin::Twin;
use postroom_proof::{Findings, Workload};
use postroom_testkit::{Fresh, Receiver, fresh, outbox_suite, relay_suite};
use sea_orm::ConnectionTrait;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::failure::failure;

/// The findings of the checker after sixteen writers and a reader have used this store for some seconds.
async fn findings(fresh: &Fresh) -> Findings {
    let workload = Workload::default();
    let writers = fresh.writers(workload.writers).await;
    workload.prepare(&writers).await.unwrap();
    let mut receiver = Receiver::new(fresh.store(), 1).in_whole_pages();
    let stop = CancellationToken::new();
    let (tally, received, ()) = tokio::join!(workload.run(&writers, &stop), receiver.run(&stop), async {
        sleep(Duration::from_secs(8)).await;
        stop.cancel();
    });
    received.unwrap();
    let truth = workload.truth(&writers).await.unwrap();
    let findings = receiver.finish(&truth).await.unwrap();
    println!("{findings:?} {:?}", tally.unwrap());
    findings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_naive_id_loses_on_postgres() {
    let twin = fresh::postgres().await.behind(Twin::NaiveId);
    let found = findings(&twin).await;
    assert!(found.lost > 0, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_naive_id_loses_on_mysql() {
    let twin = fresh::mysql().await.behind(Twin::NaiveId);
    let found = findings(&twin).await;
    assert!(found.lost > 0, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_naive_id_is_right_on_sqlite() {
    let twin = fresh::sqlite().await.behind(Twin::NaiveId);
    let found = findings(&twin).await;
    assert!(found.is_exact() && found.events > 0, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_xmin_reader_disorders_keys() {
    let twin = fresh::postgres().await.behind(Twin::Xmin);
    let found = findings(&twin).await;
    // Lost events are not asserted here: an open transaction in any database of the server delays this reader, even past
    // the end of the run.
    assert!(found.order_violations > 0, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clause_of_late_commits_fails_for_a_naive_id() {
    let on_postgres = fresh::postgres().await.behind(Twin::NaiveId);
    let on_mysql = fresh::mysql().await.behind(Twin::NaiveId);
    let words = tokio::join!(
        failure(on_postgres, outbox_suite::a_late_commit_is_not_skipped),
        failure(on_mysql, outbox_suite::a_late_commit_is_not_skipped),
    );
    assert!(words.0.contains("0 of 1 entries came"), "{words:?}");
    assert!(words.1.contains("0 of 1 entries came"), "{words:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clause_of_key_order_fails_for_an_xmin_reader() {
    let twin = fresh::postgres().await.behind(Twin::Xmin);
    let words = failure(
        twin,
        outbox_suite::a_key_keeps_its_order_when_its_second_writer_began_first,
    )
    .await;
    assert!(words.contains(r#"left: ["second", "first"]"#), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clause_of_open_transactions_fails_for_an_xmin_reader() {
    let twin = fresh::postgres().await.behind(Twin::Xmin);
    let words = failure(twin, outbox_suite::an_open_transaction_delays_only_its_own_events).await;
    assert!(words.contains("0 of 1 entries came"), "{words}");
}

/// A fence without an epoch: the database keeps it as it was, whoever takes over.
const FROZEN_EPOCH: &str = "
    create function freeze_epoch() returns trigger language plpgsql as $$
    begin
        new.epoch := old.epoch;
        return new;
    end $$;
    create trigger freeze_epoch before update on postroom.outbox_cursor
        for each row execute function freeze_epoch();
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clause_of_deposed_relays_fails_without_an_epoch() {
    let twin = fresh::postgres().await;
    twin.db().execute_unprepared(FROZEN_EPOCH).await.unwrap();
    let words = failure(twin, relay_suite::lease::a_deposed_relay_stops_itself).await;
    assert!(words.contains("a deposed relay has no effect"), "{words}");
}
