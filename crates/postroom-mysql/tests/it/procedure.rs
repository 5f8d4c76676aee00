//! `call postroom_emit(…)`, as another language calls it.

use postroom::Position;
use sqlx::{Executor, MySqlConnection, Row};
use uuid::Uuid;

use crate::fresh::{Fresh, drain_after, keys};

/// The arguments of the procedure.
#[derive(Clone, Copy)]
struct Call<'a> {
    event_type: Option<&'a str>,
    aggregate_type: Option<&'a str>,
    aggregate_id: Option<&'a str>,
    payload: Option<&'a str>,
    headers: Option<&'a str>,
    event_id: Option<&'a str>,
    source: Option<&'a str>,
}

const CALL: Call<'static> = Call {
    event_type: Some("shop.order.placed.v1"),
    aggregate_type: Some("order"),
    aggregate_id: Some("7"),
    payload: Some("{}"),
    headers: None,
    event_id: None,
    source: None,
};

async fn call(conn: &mut MySqlConnection, call: Call<'_>) -> Result<String, sqlx::Error> {
    let query = sqlx::query("call postroom_emit(?, ?, ?, ?, ?, ?, ?)")
        .bind(call.event_type)
        .bind(call.aggregate_type)
        .bind(call.aggregate_id)
        .bind(call.payload)
        .bind(call.headers)
        .bind(call.event_id)
        .bind(call.source);
    conn.fetch_one(query).await?.try_get("event_id")
}

#[tokio::test(flavor = "multi_thread")]
async fn it_emits_in_the_callers_transaction() {
    let fresh = Fresh::migrated().await;
    let mut dropped = fresh.begin().await;
    call(&mut dropped, CALL).await.unwrap();
    dropped.rollback().await.unwrap();
    let mut kept = fresh.begin().await;
    let full = Call {
        payload: Some("{\"a\":  \"\u{1F600} \\\\u0000\"}"),
        headers: Some(r#"{"h":"v","한":"\u0041"}"#),
        event_id: Some("01890A5D-AC96-774B-BCCE-B302099A8057"),
        source: Some("legacy"),
        ..CALL
    };
    let id = call(&mut kept, full).await.unwrap();
    kept.commit().await.unwrap();

    let (entries, _) = drain_after(&fresh.store, Position::START).await;
    assert_eq!(entries.len(), 1);
    let event = &entries[0].event;
    assert_eq!(event.id.to_string(), id);
    assert_eq!(id, "01890a5d-ac96-774b-bcce-b302099a8057");
    assert_eq!(Some(event.payload.get()), full.payload);
    assert_eq!((event.headers["h"].as_str(), event.headers["한"].as_str()), ("v", "A"));
    assert_eq!(
        (event.source.as_str(), event.key().to_string().as_str()),
        ("legacy", "order/7")
    );
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_makes_ids_of_version_7() {
    let fresh = Fresh::migrated().await;
    let mut conn = fresh.pool.acquire().await.unwrap();
    let before = Uuid::now_v7();
    for _ in 0..50 {
        let id = Uuid::parse_str(&call(&mut conn, CALL).await.unwrap()).unwrap();
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let seconds = |id: &Uuid| id.get_timestamp().unwrap().to_unix().0;
        assert!(seconds(&id).abs_diff(seconds(&before)) < 60, "{id} tells the time");
    }
    assert_eq!(
        fresh
            .number("select count(distinct event_id) from postroom_incoming")
            .await,
        50
    );
    fresh.gone().await;
}

/// A good call with one field changed.
fn with<'a>(field: &str, value: Option<&'a str>) -> Call<'a> {
    let mut call = CALL;
    match field {
        "event_type" => call.event_type = value,
        "aggregate_type" => call.aggregate_type = value,
        "aggregate_id" => call.aggregate_id = value,
        "payload" => call.payload = value,
        "headers" => call.headers = value,
        "event_id" => call.event_id = value,
        _ => call.source = value,
    }
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_is_wrong() {
    let fresh = Fresh::migrated().await;
    let mut conn = fresh.pool.acquire().await.unwrap();
    let long = "x".repeat(201);
    let huge = format!("\"{}\"", "x".repeat(1_000_000));
    let heavy = format!(r#"{{"h":"{}"}}"#, "x".repeat(16_384));
    let deep = format!("{}1{}", "[".repeat(110), "]".repeat(110));
    let cases = [
        ("event_type", None, "event_type is empty"),
        ("event_type", Some(""), "event_type is empty"),
        ("event_type", Some(&*long), "event_type has 201 bytes, the limit is 200"),
        ("event_type", Some("order placed"), "event_type may hold letters"),
        ("event_type", Some("order\n"), "event_type may hold letters"),
        ("event_type", Some("\u{212A}"), "event_type may hold letters"),
        ("aggregate_type", None, "aggregate_type is empty"),
        ("aggregate_type", Some(&*long), "aggregate_type has 201 bytes"),
        ("aggregate_id", Some(""), "aggregate_id is empty"),
        ("aggregate_id", Some(&*long), "aggregate_id has 201 bytes"),
        ("aggregate_id", Some("a\0b"), "aggregate_id contains a NUL"),
        ("source", Some(&*long), "source has 201 bytes"),
        ("payload", None, "payload is null"),
        ("payload", Some("{"), "payload is not JSON"),
        ("payload", Some(""), "payload is not JSON"),
        ("payload", Some(r#""\u0000""#), "payload contains the NUL"),
        ("payload", Some(r#""\\\u0000""#), "payload contains the NUL"),
        (
            "payload",
            Some(&*huge),
            "payload has 1000002 bytes, the limit is 1000000",
        ),
        ("headers", Some("["), "headers are not JSON"),
        ("headers", Some("[]"), "headers are not an object"),
        ("headers", Some(r#"{"a":1}"#), "not a string"),
        ("headers", Some(r#"{"a":"\u0000"}"#), "headers contain a NUL"),
        ("headers", Some(&*heavy), "headers have more than 16384 bytes"),
        ("event_id", Some("7"), "event_id is not a UUID"),
        (
            "event_id",
            Some("01890a5d-ac96-774b-bcce-b302099a805\n"),
            "event_id is not a UUID",
        ),
    ];
    for (field, value, says) in cases {
        let error = call(&mut conn, with(field, value)).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error} should say {says:?}");
    }
    // MySQL says it by itself.
    let error = call(&mut conn, with("payload", Some(&*deep)))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("nested deeper") || error.contains("exceeds the maximum depth"),
        "{error}"
    );
    assert_eq!(keys(&fresh.store).await, [""; 0], "nothing was stored");
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_headers_and_payload_are_accepted() {
    let fresh = Fresh::migrated().await;
    let mut conn = fresh.pool.acquire().await.unwrap();
    let headers = format!(r#"{{"h":"{}"}}"#, "x".repeat(16_383));
    let payload = format!("\"{}\"", "x".repeat(999_998));
    call(
        &mut conn,
        Call {
            headers: Some(&headers),
            payload: Some(&payload),
            ..CALL
        },
    )
    .await
    .unwrap();
    let (entries, _) = drain_after(&fresh.store, Position::START).await;
    assert_eq!(entries[0].event.payload.get().len(), 1_000_000);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_full_of_escaped_backslashes_is_read_in_time() {
    let fresh = Fresh::migrated().await;
    let mut conn = fresh.pool.acquire().await.unwrap();
    let text = r"\\u0000".repeat(70_000);
    let emit = async |conn: &mut MySqlConnection, payload: String| {
        let payload = Some(payload.as_str());
        call(conn, Call { payload, ..CALL }).await
    };
    emit(&mut conn, format!(r#""{text}""#)).await.unwrap();
    let refused = emit(&mut conn, format!(r#""{text}\u0000""#)).await.unwrap_err();
    assert!(refused.to_string().contains("payload contains the NUL"), "{refused}");
    drop(conn);
    fresh.gone().await;
}
