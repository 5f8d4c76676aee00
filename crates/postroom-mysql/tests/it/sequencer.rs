//! The sequencer: one at a time, fenced, and replaced when it goes.

#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

use std::time::Duration;

use postroom::{ErrorKind, Event, Outbox, Position};
use postroom_mysql::Mysql;
use sqlx::{Connection, MySqlConnection, Row};

use crate::fresh::{Fresh, append, event, eventually, keys, settle};

const SESSIONS: &str = "select count(*) from postroom_sequencer where is_used_lock(owner) is not null";

/// Whether the log is numbered 1, 2, 3 … and has each event once.
async fn assert_gapless(fresh: &Fresh, count: i64) {
    let row = sqlx::query(
        "select count(*) as n, coalesce(min(id), 1) as first, coalesce(max(id), 0) as last,
                count(distinct incoming_id) as rows_in, count(distinct event_id) as events from postroom_outbox",
    )
    .fetch_one(&fresh.pool)
    .await
    .unwrap();
    let number = |column: &str| row.get::<i64, _>(column);
    assert_eq!(
        (number("n"), number("first"), number("last")),
        (count, 1, count),
        "no gaps"
    );
    assert_eq!((number("rows_in"), number("events")), (count, count), "no duplicates");
    assert_eq!(
        fresh.number("select count(*) from postroom_incoming").await,
        0,
        "nothing left behind"
    );
}

/// Takes the lease away, as another process does when it finds it expired.
async fn depose(fresh: &Fresh) {
    fresh
        .run(
            "update postroom_sequencer set
               owner = 'rival', epoch = epoch + 1, expires_at = utc_timestamp(6) + interval 1 hour",
        )
        .await;
}

async fn free(fresh: &Fresh) {
    fresh
        .run("update postroom_sequencer set expires_at = '1970-01-01'")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_share_the_work_without_gaps_or_duplicates() {
    let fresh = Fresh::migrated().await;
    let rival = fresh.second().await;
    let pulse_often = async |store: &Mysql| {
        for _ in 0..150 {
            store.pulse().await.unwrap();
            free(&fresh).await; // a lease that is never safe
        }
    };
    let write = async {
        for n in 0..300 {
            fresh.commit(&n.to_string()).await;
        }
    };
    tokio::join!(write, pulse_often(&fresh.store), pulse_often(&rival));
    settle(&fresh.store).await;
    assert!(
        fresh.number("select epoch from postroom_sequencer").await > 2,
        "the lease changed hands"
    );
    assert_gapless(&fresh, 300).await;
    assert_eq!(keys(&rival).await, (0..300).map(|n| n.to_string()).collect::<Vec<_>>());
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_sequencer_writes_nothing_and_does_not_fail() {
    let fresh = Fresh::migrated().await;
    fresh.commit("1").await;
    assert_eq!(settle(&fresh.store).await, 1);
    // Behind its back, as if it had slept through its lease.
    depose(&fresh).await;
    // The rival's session must look alive: hold the user lock of its name.
    let mut rival = MySqlConnection::connect(&fresh.url).await.unwrap();
    sqlx::query("do get_lock('rival', 0)")
        .execute(&mut rival)
        .await
        .unwrap();
    fresh.commit("2").await;
    for _ in 0..5 {
        assert_eq!(fresh.store.pulse().await.unwrap().head, 1, "only the rival may number");
    }
    assert_eq!(fresh.number("select count(*) from postroom_incoming").await, 1);
    free(&fresh).await;
    assert_eq!(settle(&fresh.store).await, 2);
    assert_gapless(&fresh, 2).await;
    fresh.gone().await;
}

/// The rival takes over between the probe and the step: the epoch under the row lock is what stops the step.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_waited_for_the_lease_row_finds_itself_deposed() {
    let fresh = Fresh::migrated().await;
    fresh.commit("1").await;
    assert_eq!(settle(&fresh.store).await, 1);
    fresh.commit("2").await;
    let mut rival = fresh.begin().await;
    sqlx::query("do get_lock('rival', 0)")
        .execute(&mut *rival)
        .await
        .unwrap();
    sqlx::query("update postroom_sequencer set owner = 'rival', epoch = epoch + 1")
        .execute(&mut *rival)
        .await
        .unwrap();
    let pulse = async { fresh.store.pulse().await.unwrap() };
    let take_over = async {
        let waits =
            "select count(*) from information_schema.processlist where db = database() and info like '%for update'";
        eventually("the step waits for the row", async || fresh.number(waits).await > 0).await;
        rival.commit().await.unwrap();
    };
    let (pulse, ()) = tokio::join!(pulse, take_over);
    assert_eq!((pulse.head, pulse.more), (1, false));
    assert_eq!(
        fresh.number("select count(*) from postroom_outbox").await,
        1,
        "nothing was numbered"
    );
    free(&fresh).await;
    settle(&fresh.store).await;
    assert_gapless(&fresh, 2).await;
    fresh.gone().await;
}

/// A process that is paused in the middle of a step holds the lease row: others report the head and do not fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_sequencer_makes_nobody_fail() {
    let fresh = Fresh::migrated().await;
    fresh.commit("1").await;
    free(&fresh).await;
    let mut paused = fresh.begin().await;
    sqlx::query("select * from postroom_sequencer for update")
        .fetch_all(&mut *paused)
        .await
        .unwrap();
    let pulse = fresh.store.pulse().await.unwrap();
    assert_eq!((pulse.head, pulse.more), (0, false));
    drop(paused); // its session ends by wait_timeout
    assert_eq!(settle(&fresh.store).await, 1);
    assert_gapless(&fresh, 1).await;
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sequencers_session_ends_soon_when_it_is_paused_inside_a_step() {
    let fresh = Fresh::migrated().await;
    fresh.commit("1").await;
    settle(&fresh.store).await;
    let session = fresh
        .number("select cast(is_used_lock(owner) as signed) from postroom_sequencer")
        .await;
    let gone = format!("select count(*) from information_schema.processlist where id = {session}");
    assert_eq!(fresh.number(&gone).await, 1);
    eventually("the server ends the silent session", async || {
        fresh.number(&gone).await == 0
    })
    .await;
    // The store did not see it happen.
    fresh.commit("2").await;
    assert_eq!(settle(&fresh.store).await, 2);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_process_that_is_gone_is_taken_at_once() {
    let fresh = Fresh::migrated().await;
    let other = fresh.second().await;
    fresh.commit("1").await;
    settle(&other).await;
    drop(other);
    fresh.commit("2").await;
    eventually("its session is gone", async || fresh.number(SESSIONS).await == 0).await;
    assert!(
        fresh
            .number("select expires_at > utc_timestamp(6) from postroom_sequencer")
            .await
            == 1,
        "the lease still runs"
    );
    assert_eq!(settle(&fresh.store).await, 2);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crashed_sequencer_numbered_last_becomes_readable() {
    let fresh = Fresh::migrated().await;
    let other = fresh.second().await;
    fresh.commit("1").await;
    assert_eq!(other.pulse().await.unwrap().head, 1);
    assert_eq!(
        fresh.number("select durable_seq from postroom_sequencer").await,
        0,
        "not yet told to others"
    );
    assert_eq!(
        fresh.store.read(Position::START, 10).await.unwrap().entries.len(),
        0,
        "so another process waits"
    );
    drop(other);
    eventually("the other takes over and confirms", async || {
        fresh.store.pulse().await.unwrap().head == 1
    })
    .await;
    assert_eq!(keys(&fresh.store).await, ["1"]);
    assert_eq!(fresh.number("select durable_seq from postroom_sequencer").await, 1);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_processes_are_told_when_nothing_waits_any_more() {
    let fresh = Fresh::migrated().await;
    let reader = fresh.second().await;
    fresh.commit("1").await;
    fresh.store.pulse().await.unwrap();
    assert_eq!(reader.pulse().await.unwrap().head, 0);
    fresh.store.pulse().await.unwrap();
    assert_eq!(reader.pulse().await.unwrap().head, 1);
    assert_eq!(reader.head().await.unwrap(), fresh.store.head().await.unwrap());
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_numbered_in_steps() {
    let fresh = Fresh::migrated().await;
    let events: Vec<Event> = (0..7_000).map(|n| event(&n.to_string())).collect();
    let mut tx = fresh.begin().await;
    postroom_mysql::append(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    let first = fresh.store.pulse().await.unwrap();
    assert_eq!((first.head, first.more), (1_000, true));
    assert_eq!(settle(&fresh.store).await, 7_000);
    assert_gapless(&fresh, 7_000).await;
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_connection_is_unavailable_once_and_then_replaced() {
    let fresh = Fresh::migrated().await;
    fresh.commit("1").await;
    settle(&fresh.store).await;
    let session = fresh
        .number("select cast(is_used_lock(owner) as signed) from postroom_sequencer")
        .await;
    fresh.run(&format!("kill {session}")).await;
    fresh.commit("2").await;
    let error = fresh.store.pulse().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(settle(&fresh.store).await, 2);
    assert_gapless(&fresh, 2).await;
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_pulse_leaves_nothing_half_done() {
    let fresh = Fresh::migrated().await;
    for n in 0..40_u64 {
        let mut tx = fresh.begin().await;
        for m in 0..5 {
            append(&mut tx, &format!("{n}-{m}")).await;
        }
        tx.commit().await.unwrap();
        // Cut off at another point each time.
        let cut_off = tokio::time::timeout(Duration::from_micros(n * 150), fresh.store.pulse()).await;
        if let Ok(pulse) = cut_off {
            pulse.unwrap();
        }
    }
    eventually("a later pulse does it all", async || settle(&fresh.store).await == 200).await;
    assert_gapless(&fresh, 200).await;
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_pulse_tells_the_signal_and_what_is_due() {
    let fresh = Fresh::migrated().await;
    let idle = fresh.store.pulse().await.unwrap();
    assert_eq!((idle.head, idle.due_in, idle.signal, idle.more), (0, None, 0, false));
    assert_eq!(fresh.number(SESSIONS).await, 0, "an idle store opens no session");
    let schedule = async |seconds: i64| {
        fresh
            .run(&format!(
            "insert into postroom_outbox_scheduled (event_id, event_type, aggregate_type, aggregate_id, payload, due_at)
             values (uuid(), 't', 'a', '1', '1', utc_timestamp(6) + interval {seconds} second)"
        ))
            .await;
    };
    schedule(60).await;
    fresh
        .run("update postroom_outbox_signal set version = version + 1")
        .await;
    let pulse = fresh.store.pulse().await.unwrap();
    assert_eq!(pulse.signal, 1);
    assert!((50..=60).contains(&pulse.due_in.unwrap().as_secs()), "{pulse:?}");
    schedule(-5).await;
    assert_eq!(fresh.store.pulse().await.unwrap().due_in, Some(Duration::ZERO));
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_store_closes_its_session_by_itself() {
    let fresh = Fresh::migrated().await;
    fresh.commit("1").await;
    settle(&fresh.store).await;
    assert_eq!(fresh.number(SESSIONS).await, 1);
    eventually("idle pulses close it", async || {
        fresh.store.pulse().await.unwrap();
        fresh.number(SESSIONS).await == 0
    })
    .await;
    fresh.commit("2").await;
    assert_eq!(settle(&fresh.store).await, 2, "and it opens another without an error");
    fresh.gone().await;
}
