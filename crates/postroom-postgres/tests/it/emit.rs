use postroom::{DomainEvent, ErrorKind, Event, Outbox, Position, parse_payload, table};
use postroom_postgres::{append, emit};
use sqlx::{Acquire, AssertSqlSafe, Executor};
use uuid::Uuid;

use crate::fresh::{Fresh, event, texts};

#[derive(serde::Serialize)]
struct Painted {
    door: String,
    colour: &'static str,
}

impl DomainEvent for Painted {
    const TYPE: &'static str = "house.door.painted.v1";
    const AGGREGATE_TYPE: &'static str = "door";
    fn aggregate_id(&self) -> String {
        self.door.clone()
    }
}

#[tokio::test]
async fn what_commits_is_read_and_what_rolls_back_is_not() {
    let db = Fresh::new().await;
    let mut tx = db.begin().await;
    let id = emit(
        &mut tx,
        &Painted {
            door: "7".into(),
            colour: "red",
        },
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin().await;
    emit(
        &mut tx,
        &Painted {
            door: "7".into(),
            colour: "blue",
        },
    )
    .await
    .unwrap();
    tx.rollback().await.unwrap();

    let entries = db.drain(&mut Position::START.clone()).await;
    assert_eq!(entries.len(), 1);
    let event = &entries[0].event;
    assert_eq!((event.id, event.event_type.as_str()), (id, "house.door.painted.v1"));
    assert_eq!(
        (event.aggregate_type.as_str(), event.aggregate_id.as_str()),
        ("door", "7")
    );
    assert_eq!(
        event.decode::<serde_json::Value>().unwrap(),
        serde_json::json!({"door": "7", "colour": "red"})
    );
}

#[tokio::test]
async fn a_savepoint_takes_its_events_back() {
    let db = Fresh::new().await;
    let mut tx = db.begin().await;
    append(&mut tx, &[event("k", "before")]).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    append(&mut inner, &[event("k", "inside")]).await.unwrap();
    inner.rollback().await.unwrap();
    append(&mut tx, &[event("k", "after")]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.texts(&mut Position::START.clone()).await, ["before", "after"]);
}

#[tokio::test]
async fn many_events_keep_their_order_over_statements() {
    let db = Fresh::new().await;
    let all: Vec<String> = (0..2_500).map(|n| n.to_string()).collect();
    let mut tx = db.begin().await;
    append(&mut tx, &all.iter().map(|text| event("k", text)).collect::<Vec<_>>())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.texts(&mut Position::START.clone()).await, all);
}

#[tokio::test]
async fn everything_of_an_event_comes_back() {
    let db = Fresh::new().await;
    let mut sent = event("schlüssel 'ü' \\ %", "x")
        .header("traceparent", "00-1-2-01")
        .header("ü\"", "\n'");
    sent.source = "billing".into();
    sent.payload = parse_payload(r#"{"n": 12345678901234567890.123, "s": "a\u0001\\u0000 ' \" €"}"#).unwrap();
    let mut tx = db.begin().await;
    append(&mut tx, &[sent.clone()]).await.unwrap();
    tx.commit().await.unwrap();
    let got = db.drain(&mut Position::START.clone()).await.remove(0).event;
    assert_eq!(
        (got.id, &got.source, &got.headers),
        (sent.id, &sent.source, &sent.headers)
    );
    assert_eq!(got.aggregate_id, sent.aggregate_id);
    assert_eq!((got.occurred_at - sent.occurred_at).whole_microseconds(), 0);
    assert_eq!(
        got.decode::<serde_json::Value>().unwrap(),
        sent.decode::<serde_json::Value>().unwrap()
    );
    assert!(
        got.payload.get().contains("12345678901234567890.123"),
        "numbers are not rounded"
    );
}

#[tokio::test]
async fn seaorm_appends_the_same_way() {
    let db = Fresh::new().await;
    let tx = table::begin(db.store.db()).await.unwrap();
    postroom::append(&tx, &[event("k", "one"), event("k", "two")])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.texts(&mut Position::START.clone()).await, ["one", "two"]);
}

#[tokio::test]
async fn plain_sql_emits() {
    let db = Fresh::new().await;
    let id: Uuid = sqlx::query_scalar(r#"select postroom.emit('shop.order.placed.v1', 'order', '7', '{"total": 3}')"#)
        .fetch_one(&db.writers)
        .await
        .unwrap();
    assert_eq!(id.get_version_num(), 7);
    let own = Uuid::now_v7();
    let answered: Uuid = sqlx::query_scalar(
        r#"select postroom.emit(event_type => 'a', aggregate_type => 'b', aggregate_id => 'c', payload => '1',
                                headers => '{"h": "v"}', event_id => $1, source => 'ruby')"#,
    )
    .bind(own)
    .fetch_one(&db.writers)
    .await
    .unwrap();
    assert_eq!(answered, own);
    db.sql("begin; select postroom.emit('a', 'b', 'c', '2'); rollback")
        .await;
    db.sql(
        "insert into postroom.outbox (event_type, aggregate_type, aggregate_id, payload) values ('d', 'e', 'f', '3')",
    )
    .await;

    let entries = db.drain(&mut Position::START.clone()).await;
    let ids: Vec<Uuid> = entries.iter().map(|entry| entry.event.id).collect();
    assert_eq!(entries.len(), 3);
    assert_eq!(ids[..2], [id, own]);
    assert_eq!(
        (entries[1].event.source.as_str(), entries[1].event.headers["h"].as_str()),
        ("ruby", "v")
    );
    assert_eq!(entries[0].event.payload.get(), r#"{"total": 3}"#);
    let age = entries[0].created_at - entries[0].event.occurred_at;
    assert!(age.whole_seconds().abs() < 1);
}

#[tokio::test]
async fn uuids_made_in_sql_follow_the_clock() {
    let db = Fresh::new().await;
    let made: Vec<Uuid> = sqlx::query_scalar("select postroom.uuid_v7() from generate_series(1, 1000)")
        .fetch_all(&db.writers)
        .await
        .unwrap();
    let now = postroom::clock::now().unix_timestamp();
    for id in &made {
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let (seconds, _) = id.get_timestamp().unwrap().to_unix();
        assert!(i64::try_from(seconds).unwrap().abs_diff(now) < 5);
    }
    assert_eq!(made.iter().collect::<std::collections::HashSet<_>>().len(), 1_000);
}

#[tokio::test]
async fn plain_sql_is_told_what_is_wrong() {
    let db = Fresh::new().await;
    let check = async |arguments: &str, says: &str| {
        let statement = format!("select postroom.emit({arguments})");
        let error = db.writers.execute(AssertSqlSafe(statement)).await.unwrap_err();
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
    check("'', 'b', 'c', '1'", "event_type is empty").await;
    check("null, 'b', 'c', '1'", "event_type is empty").await;
    check("'a b', 'b', 'c', '1'", "contains \" \"").await;
    check(
        "repeat('a', 201), 'b', 'c', '1'",
        "event_type has 201 bytes, the limit is 200",
    )
    .await;
    check("'a', '', 'c', '1'", "aggregate_type is empty").await;
    check("'a', 'b', null, '1'", "aggregate_id is empty").await;
    check("'a', 'b', repeat('ü', 101), '1'", "aggregate_id has 202 bytes").await;
    check("'a', 'b', 'c', null", "payload is null").await;
    check(
        "'a', 'b', 'c', to_jsonb(repeat('x', 1000000))",
        "payload has 1000002 bytes, the limit is 1000000",
    )
    .await;
    check("'a', 'b', 'c', '1', '[]'", "headers is not an object").await;
    check(
        "'a', 'b', 'c', '1', '{\"h\": 1}'",
        "headers is not an object of strings",
    )
    .await;
    check(
        "'a', 'b', 'c', '1', jsonb_build_object('h', repeat('v', 20000))",
        "headers have 20001 bytes",
    )
    .await;
    check("'a', 'b', 'c', '1', source => repeat('s', 201)", "source has 201 bytes").await;
    assert_eq!(db.number("select count(*) from postroom.outbox").await, 0);
}

#[tokio::test]
async fn an_event_cannot_be_changed() {
    let db = Fresh::new().await;
    db.commit(&["fact"]).await;
    for change in [
        "payload = '2'",
        "event_type = 'x'",
        "aggregate_id = 'x'",
        "headers = '{}'",
        "tx = '3'",
    ] {
        let statement = format!("update postroom.outbox set {change}");
        let error = db.writers.execute(AssertSqlSafe(statement)).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("an event in postroom.outbox cannot be changed"),
            "{error}"
        );
    }
    let error = db
        .writers
        .execute("update postroom.audit_events set payload = '1'")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("cannot be changed"), "{error}");
    assert_eq!(db.texts(&mut Position::START.clone()).await, ["fact"]);
}

#[tokio::test]
async fn input_that_cannot_be_kept_is_refused_with_its_reason() {
    let db = Fresh::new().await;
    let raw = |text: String| serde_json::value::RawValue::from_string(text).unwrap();
    let check = async |change: &dyn Fn(&mut Event), says: &str| {
        let mut bad = event("k", "x");
        change(&mut bad);
        let mut tx = db.begin().await;
        let error = append(&mut tx, &[event("k", "good"), bad]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.report().contains(says), "{} should say {says:?}", error.report());
    };
    check(&|e| e.aggregate_id = "a\0b".into(), "NUL").await;
    check(&|e| e.aggregate_id = "k".repeat(1 << 20), "the limit is 200").await;
    check(
        &|e| e.payload = raw(format!("\"{}\"", "x".repeat(1_000_001))),
        "the limit is 1000000",
    )
    .await;
    check(&|e| e.payload = raw(r#""\ud800""#.into()), "surrogate").await;
    check(
        &|e| e.payload = raw(format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000))),
        "stack depth",
    )
    .await;
    check(
        &|e| e.payload = raw(format!("[{}1]", "1e100000,".repeat(100))),
        "payload has at most 4000000 bytes",
    )
    .await;
    check(&|e| e.payload = raw("1e1000000".into()), "overflow").await;
    check(&|e| e.payload = raw(r#""\u0000""#.into()), "NUL").await;
    assert_eq!(db.number("select count(*) from postroom.outbox").await, 0);
    db.commit(&["still works"]).await;
    assert_eq!(texts(&db.drain(&mut Position::START.clone()).await), ["still works"]);
}

#[tokio::test]
async fn nothing_gets_in_that_a_reader_could_not_take_out() {
    let db = Fresh::new().await;
    let insert = |values: &str| {
        format!(
            "insert into postroom.outbox (event_type, aggregate_type, aggregate_id, payload, headers, occurred_at)
             values ({values})"
        )
    };
    for (values, says) in [
        ("'a', 'b', repeat('k', 201), '1', '{}', now()", "too long"),
        ("'a', 'b', 'c', '1', '{}', 'infinity'", "times lie between"),
        ("'a', 'b', 'c', '1', '{}', '-infinity'", "times lie between"),
        ("'a', 'b', 'c', '1', '{}', '0001-01-01 BC'", "times lie between"),
        (
            "'a', 'b', 'c', ('[' || repeat('1e100000,', 100) || '1]')::jsonb, '{}', now()",
            "payload has at most",
        ),
        (
            "'a', 'b', 'c', ('[' || repeat('1e100000,', 20000) || '1]')::jsonb, '{}', now()",
            "",
        ),
    ] {
        let error = db.writers.execute(AssertSqlSafe(insert(values))).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error} should say {says:?}");
    }
    db.sql(&insert("'a b', '', '', '1', '[]', now()")).await;
    db.sql(&insert("'a', 'b', 'c', '1', '{\"n\": 1, \"s\": \"x\"}', now()"))
        .await;
    db.sql(&insert(
        "'a', 'b', 'c', ('[' || repeat('1e100000,', 15) || '1]')::jsonb, '{}', now()",
    ))
    .await;
    let entries = db.drain(&mut Position::START.clone()).await;
    assert_eq!(entries.len(), 3, "strange, but readable");
    assert_eq!(
        (
            entries[1].event.headers["n"].as_str(),
            entries[1].event.headers["s"].as_str()
        ),
        ("1", "x")
    );
}
