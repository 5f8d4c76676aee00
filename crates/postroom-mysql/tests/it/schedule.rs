//! `call postroom_schedule(…)` and `call postroom_cancel(…)`, as another language calls them.

use postroom::Event;
use sqlx::{AssertSqlSafe, Executor, MySqlConnection, Row};
use time::macros::datetime;
use uuid::Uuid;

use crate::fresh::{Fresh, event};

/// Good arguments, behind which a case may put others.
const DUE: &str = "'2040-01-31 18:30:00.5'";

async fn schedule(conn: &mut MySqlConnection, arguments: &str) -> sqlx::Result<String> {
    let call = AssertSqlSafe(format!("call postroom_schedule({arguments})"));
    conn.fetch_one(sqlx::query(call)).await?.try_get("event_id")
}

async fn cancel(conn: &mut MySqlConnection, id: &str) -> sqlx::Result<i64> {
    let call = sqlx::query("call postroom_cancel(?)").bind(id);
    conn.fetch_one(call).await?.try_get("cancelled")
}

#[tokio::test(flavor = "multi_thread")]
async fn it_schedules_what_rust_schedules() {
    let fresh = Fresh::migrated().await;
    let sent = Event {
        source: "shop".into(),
        ..event("7").header("h", "v")
    };
    let mut tx = fresh.begin().await;
    let due_at = datetime!(2040-01-31 18:30:00.5 UTC);
    postroom_mysql::schedule(&mut tx, &sent, due_at).await.unwrap();
    let arguments = format!(r#"'shop.order.placed.v1', 'order', '7', '"7"', {DUE}, '{{"h":"v"}}', null, 'shop'"#);
    let id = schedule(&mut tx, &arguments).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(Uuid::parse_str(&id).unwrap().get_version_num(), 7);
    let row = async |id: &str| -> String {
        let columns = "event_type, source, aggregate_type, aggregate_id, payload, headers, due_at";
        let select = format!("select concat_ws('|', {columns}) from postroom_outbox_scheduled where event_id = ?");
        let row = sqlx::query_scalar(AssertSqlSafe(select)).bind(id);
        row.fetch_one(&fresh.pool).await.unwrap()
    };
    assert_eq!(row(&id).await, row(&sent.id.to_string()).await);
    let recent = "select count(*) from postroom_outbox_scheduled
                  where abs(timestampdiff(second, occurred_at, utc_timestamp(6))) < 5";
    assert_eq!(fresh.number(recent).await, 2);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_schedules_and_cancels_in_the_callers_transaction() {
    let fresh = Fresh::migrated().await;
    let count = async || fresh.number("select count(*) from postroom_outbox_scheduled").await;
    let good = format!("'a', 'b', 'c', '1', {DUE}, null");
    let mut dropped = fresh.begin().await;
    schedule(&mut dropped, &format!("{good}, null, null")).await.unwrap();
    dropped.rollback().await.unwrap();
    assert_eq!(count().await, 0);

    let own = Uuid::now_v7().to_string();
    let upper = format!("{good}, '{}', null", own.to_uppercase());
    let mut conn = fresh.pool.acquire().await.unwrap();
    assert_eq!(schedule(&mut conn, &upper).await.unwrap(), own);
    let twice = schedule(&mut conn, &upper).await.unwrap_err();
    assert!(twice.as_database_error().unwrap().is_unique_violation(), "{twice}");

    let mut dropped = fresh.begin().await;
    assert_eq!(cancel(&mut dropped, &own).await.unwrap(), 1);
    dropped.rollback().await.unwrap();
    assert_eq!(count().await, 1, "the cancellation was rolled back");
    assert_eq!(cancel(&mut conn, &own.to_uppercase()).await.unwrap(), 1);
    assert_eq!(cancel(&mut conn, &own).await.unwrap(), 0, "it does not wait any more");
    assert_eq!(count().await, 0);
    drop(conn);
    fresh.gone().await;
}

/// A call that compared each row would wait for the row of another transaction.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_waits_for_no_other_event() {
    let fresh = Fresh::migrated().await;
    let mut conn = fresh.pool.acquire().await.unwrap();
    let good = format!("'a', 'b', 'c', '1', {DUE}, null, null, null");
    let other = schedule(&mut conn, &good).await.unwrap();
    let own = schedule(&mut conn, &good).await.unwrap();
    let mut locking = fresh.begin().await;
    assert_eq!(cancel(&mut locking, &other).await.unwrap(), 1);
    conn.execute("set session innodb_lock_wait_timeout = 1").await.unwrap();
    assert_eq!(cancel(&mut conn, &own).await.unwrap(), 1);
    locking.rollback().await.unwrap();
    drop(conn);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_is_wrong() {
    let fresh = Fresh::migrated().await;
    let mut conn = fresh.pool.acquire().await.unwrap();
    let rest = "null, null, null";
    let cases = [
        (format!("null, 'b', 'c', '1', {DUE}, {rest}"), "event_type is empty"),
        (
            format!("repeat('a', 201), 'b', 'c', '1', {DUE}, {rest}"),
            "event_type has 201 bytes, the limit is 200",
        ),
        (
            format!("'order placed', 'b', 'c', '1', {DUE}, {rest}"),
            "event_type may hold letters",
        ),
        (format!("'a', '', 'c', '1', {DUE}, {rest}"), "aggregate_type is empty"),
        (
            format!("'a', 'b', repeat('c', 201), '1', {DUE}, {rest}"),
            "aggregate_id has 201 bytes",
        ),
        (format!("'a', 'b', 'c', null, {DUE}, {rest}"), "payload is null"),
        (format!("'a', 'b', 'c', '{{', {DUE}, {rest}"), "payload is not JSON"),
        (
            format!("'a', 'b', 'c', concat('\"', repeat('x', 1000000), '\"'), {DUE}, {rest}"),
            "payload has 1000002 bytes, the limit is 1000000",
        ),
        (
            format!("'a', 'b', 'c', '1', {DUE}, '[]', null, null"),
            "headers are not an object",
        ),
        (
            format!("'a', 'b', 'c', '1', {DUE}, '{{\"a\":1}}', null, null"),
            "not a string",
        ),
        (
            format!("'a', 'b', 'c', '1', {DUE}, null, '7', null"),
            "event_id is not a UUID",
        ),
        (
            format!("'a', 'b', 'c', '1', {DUE}, null, null, repeat('s', 201)"),
            "source has 201 bytes",
        ),
        (format!("'a', 'b', 'c', '1', null, {rest}"), "due_at is null"),
        (
            format!("'a', 'b', 'c', '1', '1969-12-31 23:59:59', {rest}"),
            "due_at is in the year 1969; it must lie between 1970 and 9999",
        ),
    ];
    for (arguments, says) in cases {
        let error = schedule(&mut conn, &arguments).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error} should say {says:?}");
    }
    // A strict server says it by itself.
    let error = schedule(&mut conn, &format!("'a', 'b', 'c', '1', 'tomorrow', {rest}")).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("Incorrect datetime value") || error.contains("due_at is"),
        "{error}"
    );
    for id in ["", "7", "01890a5d-ac96-774b-bcce-b302099a805\n"] {
        let error = cancel(&mut conn, id).await.unwrap_err().to_string();
        assert!(error.contains("event_id is not a UUID"), "{id}: {error}");
    }
    assert_eq!(
        fresh.number("select count(*) from postroom_outbox_scheduled").await,
        0,
        "nothing was stored"
    );
    drop(conn);
    fresh.gone().await;
}
