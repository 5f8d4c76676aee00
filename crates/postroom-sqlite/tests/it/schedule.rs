//! Scheduling with a plain INSERT, as another language does it.

use postroom::{Event, Outbox, migration};
use sqlx::AssertSqlSafe;
use time::macros::datetime;

use crate::{Fixture, event};

const INSERT: &str = "insert into postroom_outbox_scheduled
                      (event_type, aggregate_type, aggregate_id, payload, due_at";

async fn number(fixture: &Fixture, query: &'static str) -> i64 {
    let pool = fixture.store.db().get_sqlite_connection_pool();
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_plain_insert_schedules_what_rust_schedules() {
    let fixture = Fixture::new().await;
    let sent = Event {
        source: "shop".into(),
        ..event("7").header("h", "v")
    };
    let mut tx = fixture.store.begin().await.unwrap();
    let due_at = datetime!(2040-01-31 18:30:00.5 UTC);
    postroom_sqlite::schedule(&mut tx, &sent, due_at).await.unwrap();
    let values = format!(
        "('{}', '{}', '7', '{{}}', '2040-01-31T18:30:00.500Z', '{{\"h\":\"v\"}}', 'shop')",
        sent.event_type, sent.aggregate_type
    );
    let insert = format!("{INSERT}, headers, source) values {values} returning event_id");
    let id: String = sqlx::query_scalar(AssertSqlSafe(insert))
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 7);
    let distinct =
        "select count(*) from (select distinct event_type, source, aggregate_type, aggregate_id, payload, headers,
                    due_at from postroom_outbox_scheduled)";
    assert_eq!(number(&fixture, distinct).await, 1);
    assert_eq!(
        number(&fixture, "select count(*) from postroom_outbox_scheduled").await,
        2
    );
}

/// An event that the outbox refuses would be due for ever, and keep back those behind it.
#[tokio::test]
async fn a_plain_insert_is_told_what_is_wrong() {
    let fixture = Fixture::new().await;
    let good = "'2040-01-31T18:30:00.500Z'";
    let cases = [
        (
            format!("('a b', 'b', 'c', '1', {good})"),
            "event_type must have 1 to 200 letters",
        ),
        (
            format!("('a', '', 'c', '1', {good})"),
            "aggregate_type must have 1 to 200 bytes",
        ),
        (
            format!("('a', 'b', printf('%201d', 1), '1', {good})"),
            "aggregate_id must have 1 to 200 bytes",
        ),
        (format!("('a', 'b', 'c', '{{', {good})"), "payload must be JSON"),
        (
            format!("('a', 'b', 'c', printf('%1000001d', 1), {good})"),
            "payload must have at most 1000000 bytes",
        ),
        ("('a', 'b', 'c', '1', null)".to_owned(), "NOT NULL constraint failed"),
        ("('a', 'b', 'c', '1', 'tomorrow')".to_owned(), "due_at must look like"),
        (
            "('a', 'b', 'c', '1', '2040-01-31 18:30:00')".to_owned(),
            "due_at must look like",
        ),
        (
            "('a', 'b', 'c', '1', '1969-12-31T23:59:59.999Z')".to_owned(),
            "not lie before 1970",
        ),
    ];
    let pool = fixture.store.db().get_sqlite_connection_pool();
    let refused = async |statement: String, says: &str| {
        let error = sqlx::query(AssertSqlSafe(statement)).execute(pool).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error} should say {says:?}");
    };
    for (values, says) in cases {
        refused(format!("{INSERT}) values {values}"), says).await;
    }
    let headers = format!("{INSERT}, headers) values ('a', 'b', 'c', '1', {good}, '{{\"h\":1}}')");
    refused(headers, "headers must be a JSON object whose values are strings").await;
    assert_eq!(
        number(&fixture, "select count(*) from postroom_outbox_scheduled").await,
        0
    );
}

#[tokio::test]
async fn what_waits_outlives_the_migration_in_both_directions() {
    let fixture = Fixture::new().await;
    let db = fixture.store.db();
    let all = fixture.store.migrations();
    let mut tx = fixture.store.begin().await.unwrap();
    let due_at = datetime!(2040-01-31 18:30:00.5 UTC);
    postroom_sqlite::schedule(&mut tx, &event("waits"), due_at)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let is_later = |undone: migration::Migration| undone.number > 10;
    while migration::down(db, "postroom", all)
        .await
        .unwrap()
        .is_some_and(is_later)
    {}
    let waiting = "select count(*) from postroom_outbox_scheduled where due_at = '2040-01-31T18:30:00.500Z'";
    assert_eq!(number(&fixture, waiting).await, 1);
    // Before this migration, a plain insert could write an id in capitals and times in other forms.
    let insert = "insert into postroom_outbox_scheduled
        (event_id, event_type, aggregate_type, aggregate_id, payload, occurred_at, due_at)
        values ('0197A7F2-0000-7000-8000-00000000000A', 't', 'a', '1', '1', '2026-01-31T23:59:59Z', '2041-01-31T09:00:00+09:00')";
    fixture.sql(insert).await;
    migration::up(db, "postroom", all).await.unwrap();
    assert_eq!(number(&fixture, waiting).await, 1);
    let rewritten = "select count(*) from postroom_outbox_scheduled
        where event_id = '0197a7f2-0000-7000-8000-00000000000a' and due_at = '2041-01-31T00:00:00.000Z'";
    assert_eq!(number(&fixture, rewritten).await, 1);
}
