//! Bad input: a clear error, and nothing stored.

#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

use postroom::{Error, ErrorKind, Event, Outbox, Position, parse_payload};
use serde_json::value::RawValue;

use crate::fresh::{Fresh, drain_after, event};

async fn refused(fresh: &Fresh, change: impl Fn(&mut Event)) -> Error {
    let mut bad = event("k");
    change(&mut bad);
    let mut conn = fresh.pool.acquire().await.unwrap();
    let alone = postroom_mysql::append(&mut conn, std::slice::from_ref(&bad))
        .await
        .unwrap_err();
    let among_others = postroom_mysql::append(&mut conn, &[event("k"), bad]).await.unwrap_err();
    assert_eq!(alone.kind(), among_others.kind());
    assert_eq!(
        fresh.number("select count(*) from postroom_incoming").await,
        0,
        "nothing is stored"
    );
    alone
}

fn nested(levels: usize) -> Box<RawValue> {
    parse_payload(&format!("{}1{}", "[".repeat(levels), "]".repeat(levels))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_a_limit_is_refused_and_nothing_is_stored() {
    let fresh = Fresh::migrated().await;
    let check = async |change: fn(&mut Event), says: &str| {
        let error = refused(&fresh, change).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.report().contains(says), "{error:?} should say {says:?}");
    };
    check(|e| e.aggregate_id = "k".repeat(201), "the limit is 200").await;
    check(|e| e.aggregate_id = "a\0b".into(), "NUL").await;
    check(
        |e| e.payload = RawValue::from_string(r#""\ud800""#.into()).unwrap(),
        "lone surrogates",
    )
    .await;
    check(|e| e.payload = nested(120), "levels").await;
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_depth_is_accepted() {
    let fresh = Fresh::migrated().await;
    let mut conn = fresh.pool.acquire().await.unwrap();
    let deep = Event {
        payload: nested(30),
        ..event("k")
    };
    postroom_mysql::append(&mut conn, &[deep]).await.unwrap();
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_events_are_no_statement() {
    let fresh = Fresh::migrated().await;
    let mut conn = fresh.pool.acquire().await.unwrap();
    postroom_mysql::append(&mut conn, &[]).await.unwrap();
    assert_eq!(fresh.number("select count(*) from postroom_incoming").await, 0);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_another_program_wrote_badly_stops_nobody() {
    let fresh = Fresh::migrated().await;
    // MariaDB takes this for JSON, MySQL does not.
    let is_taken = fresh.number("select json_valid('1.')").await == 1;
    let (payload, read) = if is_taken { ("1.", r#""1.""#) } else { ("1", "1") };
    let insert = format!(
        r#"insert into postroom_incoming (event_id, event_type, aggregate_type, aggregate_id, payload, headers)
             values (uuid(), 't', 'a', 'odd', '{payload}', '{{"n":1}}')"#,
    );
    fresh.run(&insert).await;
    fresh.commit("next").await;
    let (entries, _) = drain_after(&fresh.store, Position::START).await;
    let got: Vec<_> = entries
        .iter()
        .map(|entry| (entry.event.aggregate_id.as_str(), entry.event.payload.get()))
        .collect();
    assert_eq!(got, [("odd", read), ("next", r#""next""#)]);
    assert_eq!(entries[0].event.headers["n"], "1");
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_no_event_is_refused_by_its_table() {
    let fresh = Fresh::migrated().await;
    for (event_id, payload, headers) in [
        ("no-uuid", "1", "{}"),
        ("01890a5d-ac96-774b-bcce-b302099a8057", "{", "{}"),
        ("01890a5d-ac96-774b-bcce-b302099a8057", "1", "x"),
    ] {
        let refused = sqlx::query(
            "insert into postroom_incoming (event_id, event_type, aggregate_type, aggregate_id, payload, headers)
             values (?, 't', 'a', '1', ?, ?)",
        )
        .bind(event_id)
        .bind(payload)
        .bind(headers)
        .execute(&fresh.pool)
        .await;
        assert!(refused.is_err(), "{event_id} {payload} {headers}");
    }
    assert_eq!(fresh.store.pulse().await.unwrap().head, 0);
    fresh.gone().await;
}
