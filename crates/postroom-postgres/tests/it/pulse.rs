use std::time::Duration;

use postroom::{Outbox, Position};
use postroom_postgres::append;
use sqlx::{Executor, Row};

use crate::fresh::{Fresh, drain, event, texts};

const PULSE: &str = include_str!("../../sql/pulse.sql");

#[tokio::test]
async fn a_pulse_writes_only_when_there_is_something_new() {
    let db = Fresh::new().await;
    let idle = db.pulse().await;
    assert_eq!((idle.head, idle.due_in, idle.signal, idle.more), (0, None, 0, false));
    db.commit(&["one"]).await;
    let head = db.pulse().await.head;
    assert_eq!(head, 1);
    // As if every transaction that was open then had ended: nothing can appear at or below the newest number.
    db.sql("update postroom.outbox_tick set floor = hi").await;
    let quiet = db.pulse().await.head;
    for _ in 0..5 {
        db.sql("create temp table t (n int); drop table t").await;
        assert_eq!(db.pulse().await.head, quiet, "nothing can have become readable");
    }
}

#[tokio::test]
async fn ticks_keep_their_distance() {
    let db = Fresh::new().await;
    for n in 0..20 {
        db.commit(&[&n.to_string()]).await;
        let before = db.pulse().await;
        assert!(!before.more, "the pulse itself waits until it may tick");
    }
    let close = db
        .number(
            "select count(*) from (select at - lag(at) over (order by n) as gap from postroom.outbox_tick) t
             where gap < interval '4.9 ms'",
        )
        .await;
    assert_eq!(close, 0);
    assert_eq!(drain(&db.store, &mut Position::START.clone(), 1_000).await.len(), 20);
}

#[tokio::test]
async fn a_clock_that_was_set_back_stops_nothing() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    db.commit(&["one"]).await;
    db.texts(&mut position).await;
    db.sql("update postroom.outbox_tick set at = at + interval '1 hour'")
        .await;
    db.commit(&["two"]).await;
    assert_eq!(db.texts(&mut position).await, ["two"]);
}

#[tokio::test]
async fn no_tick_is_taken_in_a_transaction_that_has_written() {
    let db = Fresh::new().await;
    let mut tx = db.begin().await;
    append(&mut tx, &[event("k", "own")]).await.unwrap();
    db.commit(&["other"]).await;
    let row = tx.fetch_one(PULSE).await.unwrap();
    assert_eq!(
        row.get::<i64, _>("head"),
        0,
        "its own rows would count as seen, and be lost"
    );
    tx.commit().await.unwrap();
    let mut got = db.texts(&mut Position::START.clone()).await;
    got.sort();
    assert_eq!(got, ["other", "own"]);
}

#[tokio::test]
async fn rivals_build_one_chain() {
    let db = Fresh::new().await;
    let stores = [
        db.second().await,
        db.second().await,
        db.second().await,
        db.second().await,
    ];
    let mut position = Position::START;
    let mut got = Vec::new();
    for round in 0..30 {
        db.commit(&[&round.to_string()]).await;
        let heads = futures::future::join_all(stores.iter().map(|store| store.pulse())).await;
        let newest = db.number("select max(n) from postroom.outbox_tick").await;
        for head in heads {
            let head = head.unwrap().head;
            assert!(head <= newest, "a head that is announced exists: {head} of {newest}");
        }
        db.pulse().await;
        got.extend(texts(&drain(&stores[0], &mut position, 1_000).await));
    }
    assert_eq!(got, (0..30).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(
        db.number("select max(n) + 1 - count(*) from postroom.outbox_tick")
            .await,
        0,
        "no number is left out"
    );
}

#[tokio::test]
async fn a_pulse_tells_what_is_due_and_what_operators_changed() {
    let db = Fresh::new().await;
    let schedule = |due: &str| {
        format!(
            "insert into postroom.outbox_scheduled (event_id, event_type, aggregate_type, aggregate_id, payload, due_at)
             values (gen_random_uuid(), 'a', 'b', 'c', '1', clock_timestamp() + interval '{due}')"
        )
    };
    db.sql(&schedule("1 hour")).await;
    let due_in = db.pulse().await.due_in.unwrap();
    assert!(
        due_in > Duration::from_secs(3_590) && due_in <= Duration::from_secs(3_600),
        "{due_in:?}"
    );
    db.sql(&schedule("-1 hour")).await;
    assert_eq!(db.pulse().await.due_in, Some(Duration::ZERO));
    db.sql("update postroom.outbox_signal set version = version + 3").await;
    assert_eq!(db.pulse().await.signal, 3);
}
