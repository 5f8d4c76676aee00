//! `postroom.schedule(…)` and `postroom.cancel(…)`, as another language calls them.

use postroom::{Event, clock, parse_payload};
use sqlx::{AssertSqlSafe, Executor};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::fresh::Fresh;

/// A row of the schedule without its id and its times.
const ROW: &str = "select row(event_type, source, aggregate_type, aggregate_id, payload, headers, due_at)::text
                   from postroom.outbox_scheduled where event_id = $1";

#[tokio::test]
async fn plain_sql_schedules_what_rust_schedules() {
    let db = Fresh::new().await;
    let due_at = OffsetDateTime::from_unix_timestamp(4_000_000_000).unwrap();
    let event = Event::new(
        "shop.reminder.due.v1",
        "order",
        "7",
        parse_payload(r#"{"total": 3}"#).unwrap(),
    );
    let mut event = event.unwrap().header("h", "v");
    event.source = "shop".into();
    let mut tx = db.begin().await;
    postroom_postgres::schedule(&mut tx, &event, due_at).await.unwrap();
    let id: Uuid = sqlx::query_scalar(
        r#"select postroom.schedule(event_type => 'shop.reminder.due.v1', aggregate_type => 'order', aggregate_id => '7',
                                    payload => '{"total": 3}', due_at => $1, headers => '{"h": "v"}', source => 'shop')"#,
    )
    .bind(due_at)
    .fetch_one(&mut *tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(id.get_version_num(), 7);
    let row = async |id: Uuid| -> String {
        let row = sqlx::query_scalar(ROW).bind(id);
        row.fetch_one(&db.writers).await.unwrap()
    };
    assert_eq!(row(id).await, row(event.id).await);
    let occurred_at: OffsetDateTime =
        sqlx::query_scalar("select occurred_at from postroom.outbox_scheduled where event_id = $1")
            .bind(id)
            .fetch_one(&db.writers)
            .await
            .unwrap();
    assert!((clock::now() - occurred_at).whole_seconds().abs() < 5);
}

#[tokio::test]
async fn plain_sql_schedules_and_cancels_in_its_transaction() {
    let db = Fresh::new().await;
    let count = async || db.number("select count(*) from postroom.outbox_scheduled").await;
    db.sql("begin; select postroom.schedule('a', 'b', 'c', '1', now()); rollback")
        .await;
    assert_eq!(count().await, 0);
    let own = Uuid::now_v7();
    db.sql(&format!(
        "select postroom.schedule('a', 'b', 'c', '1', now(), event_id => '{own}')"
    ))
    .await;
    let again = format!("select postroom.schedule('a', 'b', 'c', '1', now(), event_id => '{own}')");
    let twice = db.writers.execute(AssertSqlSafe(again)).await.unwrap_err();
    assert!(twice.as_database_error().unwrap().is_unique_violation(), "{twice}");
    db.sql(&format!("begin; select postroom.cancel('{own}'); rollback"))
        .await;
    assert_eq!(count().await, 1, "the cancellation was rolled back");
    let cancel = async || -> bool {
        let cancel = sqlx::query_scalar("select postroom.cancel($1)").bind(own);
        cancel.fetch_one(&db.writers).await.unwrap()
    };
    assert!(cancel().await);
    assert!(!cancel().await, "it does not wait any more");
    assert_eq!(count().await, 0);
}

#[tokio::test]
async fn plain_sql_is_told_what_is_wrong_with_a_schedule() {
    let db = Fresh::new().await;
    let check = async |call: &str, says: &str| {
        let statement = AssertSqlSafe(format!("select postroom.{call}"));
        let error = db.writers.execute(statement).await.unwrap_err();
        let error = error.into_database_error().unwrap();
        assert!(
            error.message().contains(says),
            "{} should say {says:?}",
            error.message()
        );
        assert_eq!(error.code().as_deref(), Some("22023"));
        let hint = error.downcast_ref::<sqlx::postgres::PgDatabaseError>().hint();
        assert!(hint.is_some(), "{says} has a way out");
    };
    let cases = [
        ("'', 'b', 'c', '1', now()", "event_type is empty"),
        ("'a b', 'b', 'c', '1', now()", "contains \" \""),
        (
            "repeat('a', 201), 'b', 'c', '1', now()",
            "event_type has 201 bytes, the limit is 200",
        ),
        ("'a', null, 'c', '1', now()", "aggregate_type is empty"),
        ("'a', 'b', repeat('ü', 101), '1', now()", "aggregate_id has 202 bytes"),
        ("'a', 'b', 'c', null, now()", "payload is null"),
        (
            "'a', 'b', 'c', to_jsonb(repeat('x', 1000000)), now()",
            "payload has 1000002 bytes, the limit is 1000000",
        ),
        ("'a', 'b', 'c', '1', now(), '[]'", "headers is not an object"),
        (
            "'a', 'b', 'c', '1', now(), '{\"h\": 1}'",
            "headers is not an object of strings",
        ),
        (
            "'a', 'b', 'c', '1', now(), jsonb_build_object('h', repeat('v', 20000))",
            "headers have 20001 bytes",
        ),
        (
            "'a', 'b', 'c', '1', now(), source => repeat('s', 201)",
            "source has 201 bytes",
        ),
        ("'a', 'b', 'c', '1', null", "due_at is null"),
        (
            "'a', 'b', 'c', '1', '1969-12-31 23:59:59+00'",
            "due_at is in the year 1969; it must lie between 1970 and 9999",
        ),
        (
            "'a', 'b', 'c', '1', '10000-01-01 00:00:00+00'",
            "due_at is in the year 10000",
        ),
        ("'a', 'b', 'c', '1', 'infinity'", "it must lie between 1970 and 9999"),
        ("'a', 'b', 'c', '1', '-infinity'", "it must lie between 1970 and 9999"),
    ];
    for (arguments, says) in cases {
        check(&format!("schedule({arguments})"), says).await;
    }
    check("cancel(null)", "event_id is null").await;
    assert_eq!(db.number("select count(*) from postroom.outbox_scheduled").await, 0);
}
