use postroom::{DomainEvent, ErrorKind, Outbox, Position, table};
use sqlx::Connection;

use crate::{Fixture, event, numbered, with_payload};

#[derive(serde::Serialize)]
struct Shipped {
    order: &'static str,
}

impl DomainEvent for Shipped {
    const TYPE: &'static str = "shop.order.shipped.v1";
    const AGGREGATE_TYPE: &'static str = "order";
    fn aggregate_id(&self) -> String {
        self.order.to_owned()
    }
}

#[tokio::test]
async fn an_event_is_there_after_commit_and_never_after_rollback() {
    let fixture = Fixture::new().await;
    let mut tx = fixture.store.begin().await.unwrap();
    let id = postroom_sqlite::emit(&mut tx, &Shipped { order: "native" })
        .await
        .unwrap();
    assert!(fixture.ids_read().await.is_empty(), "not readable before its commit");
    tx.commit().await.unwrap();

    let tx = table::begin(fixture.store.db()).await.unwrap();
    postroom::emit(
        &tx,
        &Shipped {
            order: "through SeaORM",
        },
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();

    let mut tx = fixture.store.begin().await.unwrap();
    postroom_sqlite::emit(&mut tx, &Shipped { order: "rolled back" })
        .await
        .unwrap();
    tx.rollback().await.unwrap();

    let mut tx = fixture.store.begin().await.unwrap();
    postroom_sqlite::emit(&mut tx, &Shipped { order: "dropped" })
        .await
        .unwrap();
    drop(tx);

    assert_eq!(fixture.ids_read().await, ["native", "through SeaORM"]);
    let page = fixture.store.read(Position::START, 1).await.unwrap();
    assert_eq!(page.entries[0].event.id, id);
    assert_eq!(page.entries[0].event.payload.get(), r#"{"order":"native"}"#);
    assert_eq!(page.entries[0].event.event_type, Shipped::TYPE);
}

#[tokio::test]
async fn a_savepoint_rolls_back_its_own_events_only() {
    let fixture = Fixture::new().await;
    let mut tx = fixture.store.begin().await.unwrap();
    postroom_sqlite::append(&mut tx, &[event("before")]).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    postroom_sqlite::append(&mut inner, &[event("inside")]).await.unwrap();
    inner.rollback().await.unwrap();
    postroom_sqlite::append(&mut tx, &[event("after")]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(fixture.ids_read().await, ["before", "after"]);
}

#[tokio::test]
async fn any_number_of_events_keeps_its_order() {
    for count in [0, 1, 7, 8, 9, 63, 64, 65, 200] {
        let fixture = Fixture::new().await;
        fixture.commit(&numbered(count)).await;
        let expected: Vec<String> = (1..=count).map(|n| n.to_string()).collect();
        assert_eq!(fixture.ids_read().await, expected);
    }
}

#[tokio::test]
async fn every_field_comes_back_as_it_went_in_byte_for_byte() {
    let fixture = Fixture::new().await;
    let payloads = [
        r#"{ "b": 1,  "a" : [1.0, 1e2, 12345678901234567890123456789] }"#,
        r#""\\u0000 \ud83d\ude00 한국어 🧾 \"quoted\" ' -- ;""#,
        "null",
        &format!("\"{}\"", "x".repeat(999_998)),
    ];
    let mut sent: Vec<_> = payloads
        .iter()
        .map(|payload| with_payload("  Key ' \u{2028} 키 ", payload))
        .collect();
    sent[0].source = "Shop/é".to_owned();
    sent[0].occurred_at = time::macros::datetime!(9999-12-31 23:59:59.999 UTC);
    sent[1] = sent[1]
        .clone()
        .header("traceparent", "00-ab-cd-01")
        .header("", "\"\n\u{1}");
    fixture.commit(&sent).await;
    let page = fixture.store.read(Position::START, 10).await.unwrap();
    for (sent, read) in sent.iter().zip(page.entries.iter()) {
        let read = &read.event;
        assert_eq!(read.payload.get(), sent.payload.get());
        assert_eq!(
            (
                read.id,
                &read.event_type,
                &read.source,
                &read.aggregate_type,
                &read.aggregate_id,
                &read.headers
            ),
            (
                sent.id,
                &sent.event_type,
                &sent.source,
                &sent.aggregate_type,
                &sent.aggregate_id,
                &sent.headers
            )
        );
        assert!((read.occurred_at - sent.occurred_at).abs() < time::Duration::milliseconds(1));
    }
    assert_eq!(page.entries.len(), sent.len());
}

#[tokio::test]
async fn a_broken_limit_is_named_and_nothing_of_the_batch_is_stored() {
    let fixture = Fixture::new().await;
    let mut bad = event("bad");
    bad.aggregate_id = "k".repeat(201);
    let mut tx = fixture.store.begin().await.unwrap();
    let error = postroom_sqlite::append(&mut tx, &[event("good"), bad])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error
            .to_string()
            .contains("aggregate_id has 201 bytes, the limit is 200"),
        "{error}"
    );
    tx.commit().await.unwrap();
    assert!(fixture.ids_read().await.is_empty());
}

/// The library does not parse payloads that are JSON already; the database does, to a depth of 1,000.
#[tokio::test]
async fn a_payload_too_deep_for_the_database_is_refused_by_name() {
    let fixture = Fixture::new().await;
    let mut tx = fixture.store.begin().await.unwrap();
    let deep = with_payload("deep", &format!("{}{}", "[".repeat(1001), "]".repeat(1001)));
    let error = postroom_sqlite::append(&mut tx, &[deep]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.report().contains("payload must be JSON"), "{}", error.report());
}

#[tokio::test]
async fn what_rust_accepts_the_table_accepts_too() {
    let fixture = Fixture::new().await;
    let mut widest = event(&"키".repeat(66));
    widest.event_type = "a".repeat(200);
    widest.source = "s".repeat(200);
    widest.occurred_at = time::macros::datetime!(1970-01-01 0:00 UTC);
    let widest = widest.header("h".repeat(8_000), "\u{1}".repeat(8_384));
    fixture.commit(&[widest]).await;
    assert_eq!(fixture.ids_read().await.len(), 1);
}

#[tokio::test]
async fn a_stored_event_cannot_be_changed() {
    let fixture = Fixture::new().await;
    fixture.commit(&[event("1")]).await;
    let mut tx = fixture.store.begin().await.unwrap();
    for change in [
        "update postroom_outbox set payload = '2'",
        "update postroom_outbox set event_type = 'x'",
        "update postroom_outbox set id = 99",
        "update postroom_outbox set created_at = created_at",
    ] {
        let error = sqlx::query(change).execute(&mut *tx).await.unwrap_err().to_string();
        assert!(error.contains("immutable: emit a new event"), "{change}: {error}");
    }
    tx.commit().await.unwrap();
    let page = fixture.store.read(Position::START, 10).await.unwrap();
    assert_eq!((page.entries[0].id, page.entries[0].event.payload.get()), (1, "{}"));
}
