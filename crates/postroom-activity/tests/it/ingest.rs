//! Results of events that clients send, on each database.

use std::slice::from_ref;

use postroom_testkit::Fresh;
use postroom_testkit::wait::until;
use sea_orm::ConnectionTrait as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::ingest_site::{Site, changed, column, event, result, stored, token_of, word};

postroom_testkit::on_each_database! {
    answers_per_event: each_event_has_its_answer_on_sqlite, each_event_has_its_answer_on_postgres, each_event_has_its_answer_on_mariadb;
    repeated_requests: a_repeated_event_is_a_duplicate_on_sqlite, a_repeated_event_is_a_duplicate_on_postgres, a_repeated_event_is_a_duplicate_on_mariadb;
    repeated_in_one_request: a_batch_with_repeats_is_stored_once_on_sqlite, a_batch_with_repeats_is_stored_once_on_postgres, a_batch_with_repeats_is_stored_once_on_mariadb;
    unusual_values: unusual_values_are_duplicates_of_themselves_on_sqlite, unusual_values_are_duplicates_of_themselves_on_postgres, unusual_values_are_duplicates_of_themselves_on_mariadb;
    concurrent_requests: concurrent_requests_store_an_event_once_on_sqlite, concurrent_requests_store_an_event_once_on_postgres, concurrent_requests_store_an_event_once_on_mariadb;
    a_store_that_is_locked: a_locked_store_asks_for_a_retry_on_sqlite, a_locked_store_asks_for_a_retry_on_postgres, a_locked_store_asks_for_a_retry_on_mariadb;
    members_and_visitors: a_member_is_that_of_the_token_on_sqlite, a_member_is_that_of_the_token_on_postgres, a_member_is_that_of_the_token_on_mariadb;
}

async fn answers_per_event(fresh: Fresh) {
    let site = Site::open(&fresh).await;
    let good = event();
    let unlisted = changed(
        &event(),
        json!({ "properties": { "path": "/", "email": "kim" }, "userAgent": "x" }),
    );
    let bad = [
        (json!({ "eventName": "review.created" }), "drop unknown_event_name"),
        (json!({ "eventVersion": "v3" }), "drop unknown_event_version"),
        (
            json!({ "occurredAt": "2020-01-01T00:00:00Z" }),
            "drop occurred_at_too_old",
        ),
        (json!({ "memberId": 7 }), "drop member_id_without_token"),
        (json!({ "memberId": "7" }), "drop malformed_event"),
        (json!({ "sessionId": null }), "drop missing_session_id"),
        (json!({ "properties": { "path": "a\0" } }), "drop invalid_properties"),
    ];
    let dropped: Vec<(Value, &str)> = bad.map(|(change, word)| (changed(&event(), change), word)).into();
    let nameless = changed(&event(), json!({ "eventId": null }));
    let sent = [good.clone(), nameless, unlisted.clone()].into_iter();
    let sent: Vec<Value> = sent.chain(dropped.iter().map(|(event, _)| event.clone())).collect();
    let answer = site.send(&sent).await;
    assert_eq!(word(&answer, &good), "ok");
    assert_eq!(word(&answer, &unlisted), "ok not_in_catalogue");
    let removed = result(&answer, &unlisted)["removed"].as_array().unwrap();
    assert_eq!(removed, &[json!("userAgent"), json!("properties.email")]);
    for (event, expected) in &dropped {
        assert_eq!(word(&answer, event), *expected, "{event}");
    }
    let rejected = &answer.body["rejected"];
    assert_eq!(rejected.as_array().unwrap().len(), 1, "{answer:?}");
    assert_eq!(
        (&rejected[0]["index"], &rejected[0]["details"]),
        (&json!(1), &json!("missing_event_id"))
    );
    assert_eq!(stored(&fresh).await, 2);
    assert_eq!(column(&fresh, &good, "source").await.unwrap(), "CLIENT");
    let properties: Value = serde_json::from_str(&column(&fresh, &unlisted, "properties").await.unwrap()).unwrap();
    assert_eq!(properties, json!({ "path": "/" }));
    assert_eq!(answer.header("retry-after"), None);
}

async fn repeated_requests(fresh: Fresh) {
    let site = Site::open(&fresh).await;
    let [first, second] = [event(), event()];
    assert_eq!(word(&site.send(from_ref(&first)).await, &first), "ok");
    let answer = site.send(&[second.clone(), first.clone()]).await;
    assert_eq!(
        (word(&answer, &first).as_str(), word(&answer, &second).as_str()),
        ("duplicate", "ok")
    );
    for change in [
        json!({ "properties": { "path": "/other" } }),
        json!({ "properties": {} }),
        json!({ "sessionId": "s2" }),
        json!({ "eventVersion": "v2" }),
    ] {
        let other = changed(&first, change);
        let answer = site.send(&[other.clone(), event()]).await;
        assert_eq!(word(&answer, &other), "drop conflicting_event_id", "{other}");
    }
    assert_eq!(stored(&fresh).await, 6);
    until("the sink has each new event once", || async {
        site.sunk.lock().unwrap().len() >= 6
    })
    .await;
    assert_eq!(site.sunk.lock().unwrap().len(), 6);
}

async fn repeated_in_one_request(fresh: Fresh) {
    let site = Site::open(&fresh).await;
    let [one, two] = [event(), event()];
    let other = changed(&one, json!({ "sessionId": "s2" }));
    let answer = site
        .send(&[one.clone(), two.clone(), one.clone(), other, two.clone()])
        .await;
    assert_eq!(
        (word(&answer, &one).as_str(), word(&answer, &two).as_str()),
        ("ok", "ok")
    );
    let rejected = answer.body["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), 1, "{answer:?}");
    assert_eq!(
        (&rejected[0]["index"], &rejected[0]["details"]),
        (&json!(3), &json!("conflicting_event_id"))
    );
    assert_eq!(column(&fresh, &one, "session_id").await.unwrap(), "s1");
    assert_eq!(stored(&fresh).await, 2);
    assert_eq!(word(&site.send(&[two.clone(), two.clone()]).await, &two), "duplicate");
}

async fn unusual_values(fresh: Fresh) {
    let site = Site::open(&fresh).await;
    let nested = (0..7).fold(json!("deep"), |value, _| json!([value]));
    let detail = json!([1.5, 1e2, 1e17, 1e300, -0.0, 0.1, i64::MAX, u64::MAX, 1e-7, null, true, "한글 \u{1F600} \"q\" \\", {"": ""}, nested]);
    let change = json!({
        "properties": { "path": "x".repeat(30_000), "detail": detail },
        "occurredAt": changed(&event(), json!({}))["occurredAt"].as_str().unwrap().replace('Z', "+00:00"),
        "eventId": "not a UUID, 한글 'quoted' %_", "anonymousId": " a ", "locale": "ko-KR",
    });
    let event = changed(&event(), change);
    assert_eq!(word(&site.send(from_ref(&event)).await, &event), "ok");
    assert_eq!(word(&site.send(from_ref(&event)).await, &event), "duplicate");
}

async fn concurrent_requests(fresh: Fresh) {
    let (one, two) = (Site::open(&fresh).await, Site::open(&fresh).await);
    let events: Vec<Value> = (0..20).map(|_| event()).collect();
    let backwards: Vec<Value> = events.iter().rev().cloned().collect();
    let mut requests = JoinSet::new();
    for number in 0..8 {
        let client = if number % 2 == 0 {
            one.client.clone()
        } else {
            two.client.clone()
        };
        let events = if number % 4 < 2 {
            events.clone()
        } else {
            backwards.clone()
        };
        requests.spawn(async move {
            client
                .post(crate::ingest_site::EVENTS, &json!({ "events": events }))
                .await
        });
    }
    let answers = requests.join_all().await;
    for event in &events {
        let words: Vec<String> = answers.iter().map(|answer| word(answer, event)).collect();
        let count = |expected: &str| words.iter().filter(|word| word.starts_with(expected)).count();
        assert_eq!((count("ok"), count("drop")), (1, 0), "{words:?}");
    }
    assert_eq!(stored(&fresh).await, 20);
}

async fn a_store_that_is_locked(fresh: Fresh) {
    let site = Site::open(&fresh).await;
    let (event, bad) = (event(), changed(&event(), json!({ "eventName": "unknown" })));
    let other = fresh.second().await;
    let tx = postroom::table::begin(other.db()).await.unwrap();
    let insert = format!(
        "insert into user_activity_event (event_id, event_name, event_version, occurred_at, source, properties) \
         values ('{}', 'page.viewed', 'v1', '2026-11-18 10:00:00', 'CLIENT', '{{}}')",
        event["eventId"].as_str().unwrap()
    );
    tx.execute_unprepared(&insert).await.unwrap();
    let answer = site.send(&[event.clone(), bad.clone()]).await;
    assert_eq!(word(&answer, &event), "retry not_persisted");
    assert_eq!(word(&answer, &bad), "drop unknown_event_name");
    assert_eq!(answer.header("retry-after"), Some("5"));
    drop(tx);
    until("it is stored later", || async {
        word(&site.send(from_ref(&event)).await, &event) == "ok"
    })
    .await;
    assert_eq!(stored(&fresh).await, 1);
}

async fn members_and_visitors(fresh: Fresh) {
    let site = Site::open(&fresh).await;
    let token = token_of("42");
    let bare = changed(&event(), json!({ "anonymousId": null, "sessionId": null }));
    let own = changed(&event(), json!({ "memberId": 42 }));
    let foreign = changed(&event(), json!({ "memberId": 43 }));
    let answer = site
        .send_as(&token, &[bare.clone(), own.clone(), foreign.clone()])
        .await;
    assert_eq!(word(&answer, &bare), "ok");
    assert_eq!(word(&answer, &own), "ok");
    assert_eq!(word(&answer, &foreign), "drop other_member_id");
    assert_eq!(column(&fresh, &bare, "member_id").await.unwrap(), "42");
    let visitor = event();
    assert_eq!(word(&site.send(from_ref(&visitor)).await, &visitor), "ok");
    assert_eq!(column(&fresh, &visitor, "member_id").await, None);
    let answer = site.send_as(&token, from_ref(&visitor)).await;
    assert_eq!(word(&answer, &visitor), "duplicate", "sent again after a login");
    let answer = site.send_as("not.a.token", &[event()]).await;
    assert_eq!((answer.status, answer.code()), (401, "unauthenticated"));
    let answer = site.send_as(&token_of("kim"), &[event()]).await;
    assert_eq!((answer.status, answer.code()), (422, "member_id"));
    assert_eq!(stored(&fresh).await, 3);
}

#[tokio::test]
async fn an_event_that_the_database_refuses_costs_no_other() {
    let fresh = postroom_testkit::fresh::sqlite().await;
    let site = Site::open(&fresh).await;
    let (good, refused) = (event(), event());
    let trigger = format!(
        "create trigger refuse before insert on user_activity_event when new.event_id = '{}' \
         begin select raise(abort, 'refused'); end",
        refused["eventId"].as_str().unwrap()
    );
    fresh.db().execute_unprepared(&trigger).await.unwrap();
    let answer = site.send(&[refused.clone(), good.clone()]).await;
    assert_eq!(word(&answer, &good), "ok");
    assert_eq!(word(&answer, &refused), "drop not_storable");
    assert_eq!(stored(&fresh).await, 1);
}
