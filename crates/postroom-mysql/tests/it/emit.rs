//! Emitting from Rust: in the caller's transaction, in order, byte for byte.

use postroom::{DomainEvent, Event, Headers, Outbox, Position, operate, parse_payload};
use postroom_mysql::Mysql;
use serde::Serialize;
use sqlx::mysql::MySqlPoolOptions;

use crate::fresh::{Fresh, append, drain_after, event, keys};

#[derive(Serialize)]
struct OrderPlaced {
    order_id: String,
}

impl DomainEvent for OrderPlaced {
    const TYPE: &'static str = "shop.order.placed.v1";
    const AGGREGATE_TYPE: &'static str = "order";
    fn aggregate_id(&self) -> String {
        self.order_id.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_there_if_and_only_if_its_transaction_committed() {
    let fresh = Fresh::migrated().await;
    let mut kept = fresh.begin().await;
    let id = postroom_mysql::emit(
        &mut kept,
        &OrderPlaced {
            order_id: "kept".into(),
        },
    )
    .await
    .unwrap();
    kept.commit().await.unwrap();
    let mut dropped = fresh.begin().await;
    append(&mut dropped, "dropped").await;
    dropped.rollback().await.unwrap();

    let (entries, _) = drain_after(&fresh.store, Position::START).await;
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].id, entries[0].event.id), (1, id));
    assert_eq!(entries[0].event.payload.get(), r#"{"order_id":"kept"}"#);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_portable_emit_and_the_native_one_write_the_same() {
    let fresh = Fresh::migrated().await;
    let mut headers = Headers::new();
    headers.insert("a".into(), "\"b\" \u{1F600}".into());
    let sent = Event {
        headers,
        source: "shop".into(),
        ..event("k")
    };
    let portable = postroom::table::begin(fresh.store.db()).await.unwrap();
    postroom::append(&portable, std::slice::from_ref(&sent)).await.unwrap();
    portable.commit().await.unwrap();
    let mut native = fresh.begin().await;
    postroom_mysql::append(&mut native, std::slice::from_ref(&sent))
        .await
        .unwrap();
    postroom_mysql::append(&mut native, &[sent.clone(), sent.clone()])
        .await
        .unwrap();
    native.commit().await.unwrap();

    let (entries, _) = drain_after(&fresh.store, Position::START).await;
    let micros = |event: &Event| event.occurred_at.unix_timestamp_nanos() / 1_000;
    assert_eq!(entries.len(), 4);
    for entry in entries {
        let got = entry.event;
        assert_eq!(
            (got.id, &got.source, &got.headers),
            (sent.id, &sent.source, &sent.headers)
        );
        assert_eq!(
            (got.key(), got.event_type.as_str()),
            (sent.key(), sent.event_type.as_str())
        );
        assert_eq!(micros(&got), micros(&sent));
    }
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_events_keep_their_order() {
    let fresh = Fresh::migrated().await;
    let sent: Vec<String> = (0..2_500).map(|n| format!("{n:04}")).collect();
    let events: Vec<Event> = sent.iter().map(|key| event(key)).collect();
    let mut tx = fresh.begin().await;
    postroom_mysql::append(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(keys(&fresh.store).await, sent);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_comes_back_byte_for_byte_whatever_the_databases_character_set() {
    let fresh = Fresh::empty("latin1").await;
    fresh.migrate().await;
    let payloads = [
        r#"{"b":  1.0, "a":12345678901234567890123, "b" : 1e2}"#,
        "\"\u{1F600} 한국어 \\ud83d\\ude00 \\\"quoted\\\" \\\\u0000 back\\\\slash\"",
        "[ 1 ,\n\t2\r\n]",
        "null",
    ];
    let events: Vec<Event> = payloads
        .iter()
        .map(|payload| Event::new("a.b", "a", "1", parse_payload(payload).unwrap()).unwrap())
        .collect();
    let mut tx = fresh.begin().await;
    postroom_mysql::append(&mut tx, &events).await.unwrap();
    for event in &events {
        postroom_mysql::append(&mut tx, std::slice::from_ref(event))
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    let (entries, _) = drain_after(&fresh.store, Position::START).await;
    let got: Vec<&str> = entries.iter().map(|entry| entry.event.payload.get()).collect();
    assert_eq!(got, [payloads, payloads].concat());
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_events_and_a_megabyte_each_fit_the_servers_packet() {
    let fresh = Fresh::migrated().await;
    // Quotes double when the payload travels as a JSON string.
    let large = format!("\"{}\"", "\\\"".repeat(499_999));
    let events: Vec<Event> = (0..20)
        .map(|n| Event::new("a.b", "a", n.to_string(), parse_payload(&large).unwrap()).unwrap())
        .collect();
    let mut tx = fresh.begin().await;
    postroom_mysql::append(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    let (entries, _) = drain_after(&fresh.store, Position::START).await;
    assert_eq!(entries.len(), 20);
    assert!(
        entries.iter().all(|entry| entry.event.payload.get() == large),
        "payloads of 1,000,000 bytes survive"
    );
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_differ_by_case_and_by_trailing_space() {
    let fresh = Fresh::migrated().await;
    let sent = ["a", "A", "a ", "a  ", "\u{e1}", "a\u{301}"];
    let mut tx = fresh.begin().await;
    for key in sent {
        append(&mut tx, key).await;
        let handled = "insert into postroom_event_handled (idempotency_key) values (?)";
        sqlx::query(handled).bind(key).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(keys(&fresh.store).await, sent);
    assert_eq!(
        fresh
            .number("select count(*) from postroom_outbox where aggregate_id = 'a'")
            .await,
        1
    );
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_stored_cannot_be_changed() {
    let fresh = Fresh::migrated().await;
    let change = async |table: &str| {
        let sql = format!("update {table} set payload = '2'");
        sqlx::query(sqlx::AssertSqlSafe(sql))
            .execute(&fresh.pool)
            .await
            .unwrap_err()
            .to_string()
    };
    fresh.commit("a").await;
    assert!(
        change("postroom_incoming").await.contains("immutable"),
        "before it is numbered"
    );
    assert_eq!(keys(&fresh.store).await, ["a"]);
    assert!(change("postroom_outbox").await.contains("immutable"), "after");
    fresh
        .run(
            "insert into postroom_audit_events (id, event_id, event_type, aggregate_type, aggregate_id, payload)
               select id, event_id, event_type, aggregate_type, aggregate_id, payload from postroom_outbox",
        )
        .await;
    assert!(
        change("postroom_audit_events").await.contains("immutable"),
        "in the archive"
    );
    fresh.gone().await;
}

/// The settings of the platform's own sessions would end an application's transaction that rests for a while.
#[tokio::test(flavor = "multi_thread")]
async fn an_applications_connections_are_left_as_they_are() {
    let fresh = Fresh::migrated().await;
    let pool = MySqlPoolOptions::new()
        .max_connections(1)
        .connect(&fresh.url)
        .await
        .unwrap();
    // Each server has some of them.
    let limits = || {
        sqlx::query_as::<_, (String, String)>(
            "show session variables where variable_name in ('idle_transaction_timeout', 'wait_timeout', \
             'lock_wait_timeout', 'innodb_lock_wait_timeout', 'transaction_isolation', 'tx_isolation')",
        )
        .fetch_all(&pool)
    };
    let before = limits().await.unwrap();
    assert!(before.len() >= 4, "{before:?}");
    let store = Mysql::from_pool(pool.clone());
    operate::set_paused(&store, "nowhere", true, "test").await.unwrap_err();
    assert_eq!(limits().await.unwrap(), before);
    fresh.gone().await;
}
