//! The fake PostHog refuses what the real service refuses, in the same order.

use postroom_testkit::client::{Answer, Client};
use postroom_testkit::fake_posthog::{FakePosthog, PROJECT_API_KEY, V1};
use serde_json::{Value, json};

const UUID: &str = "0190a2b4-0000-7000-8000-000000000001";
const OTHER: &str = "0190a2b4-0000-7000-8000-000000000002";

fn event(uuid: &str) -> Value {
    json!({
        "event": "a", "uuid": uuid, "distinct_id": "u", "timestamp": "2026-02-18T10:00:00.000Z",
        "options": { "disable_skew_correction": true }, "properties": {},
    })
}

fn body(batch: &[Value]) -> Value {
    json!({ "created_at": "2026-02-18T10:00:00Z", "batch": batch })
}

fn headers(key: &str) -> Vec<(&'static str, String)> {
    let required = [
        ("authorization", format!("Bearer {key}")),
        ("content-type", "application/json".to_owned()),
        ("user-agent", "test/1".to_owned()),
        ("posthog-sdk-info", "test/1".to_owned()),
        ("posthog-attempt", "1".to_owned()),
        ("posthog-request-id", OTHER.to_owned()),
        ("posthog-request-timestamp", "2026-02-18T10:00:00Z".to_owned()),
    ];
    required.into()
}

async fn send(fake: &FakePosthog, headers: &[(&'static str, String)], body: &str) -> Answer {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Client(fake.url.clone()).must("POST", V1, &headers, body).await
}

#[tokio::test]
async fn v1_checks_headers_in_the_order_of_the_service() {
    let fake = FakePosthog::open().await;
    let mut wrong = headers("phx_personal");
    for (name, value) in &mut wrong {
        if *name != "authorization" {
            *value = "?".to_owned();
        }
    }
    let without = |names: &[&str], from: &[(&'static str, String)]| {
        let kept = from.iter().filter(|(name, _)| !names.contains(name)).cloned();
        kept.collect::<Vec<_>>()
    };
    let check = async |headers: &[(&'static str, String)], status: u16, tag: &str| {
        let answer = send(&fake, headers, "?").await;
        assert_eq!((answer.status, answer.body["error"].as_str()), (status, Some(tag)));
    };
    // Everything is wrong; each step repairs what was refused.
    check(
        &without(&["authorization", "posthog-attempt"], &wrong),
        401,
        "missing_authorization",
    )
    .await;
    check(&without(&["posthog-attempt"], &wrong), 400, "missing_required_headers").await;
    let right = headers(PROJECT_API_KEY);
    let steps = [
        ("authorization", 415, "unsupported_content_type"),
        ("content-type", 400, "invalid_header_value"),
        ("posthog-request-id", 400, "invalid_header_value"),
        ("posthog-attempt", 400, "invalid_header_value"),
        ("posthog-request-timestamp", 400, "request_parsing_error"),
    ];
    check(&wrong, 401, "invalid_api_token").await;
    for (repaired, status, tag) in steps {
        let value = right.iter().find(|(name, _)| *name == repaired).unwrap().1.clone();
        wrong.iter_mut().find(|(name, _)| *name == repaired).unwrap().1 = value;
        check(&wrong, status, tag).await;
    }
}

#[tokio::test]
async fn v1_refuses_a_body_or_drops_one_event() {
    let fake = FakePosthog::open().await;
    let with = |field: &str, value: Value| {
        let mut event = event(UUID);
        event[field] = value;
        event
    };
    let refused = [
        (json!({}), "request_parsing_error"),
        (body(&[json!({ "uuid": UUID })]), "request_parsing_error"),
        (body(&[]), "empty_batch"),
        (
            json!({ "created_at": "today", "batch": [event(UUID)] }),
            "invalid_batch",
        ),
        (body(&[event(" ")]), "missing_event_uuid"),
        (body(&[event("x")]), "invalid_event_uuid"),
        (body(&[event(UUID), event(UUID)]), "duplicate_event_uuid"),
    ];
    for (body, tag) in refused {
        let answer = send(&fake, &headers(PROJECT_API_KEY), &body.to_string()).await;
        assert_eq!(
            (answer.status, answer.body["error"].as_str()),
            (400, Some(tag)),
            "{body}"
        );
    }
    assert!(fake.stored().is_empty());
    let dropped = [
        (with("event", json!("")), "missing_event_name"),
        (with("event", json!("n".repeat(201))), "event_name_too_long"),
        (with("distinct_id", json!(" ")), "missing_distinct_id"),
        (with("distinct_id", json!("d".repeat(201))), "distinct_id_too_large"),
        (with("timestamp", json!("today")), "invalid_event_timestamp"),
        (with("properties", json!([])), "malformed_event_properties"),
        (
            with("options", json!({ "disable_skew_correction": [] })),
            "invalid_options",
        ),
    ];
    for (event, details) in dropped {
        let answer = send(
            &fake,
            &headers(PROJECT_API_KEY),
            &body(&[event, self::event(OTHER)]).to_string(),
        )
        .await;
        let results = answer.ok()["results"].clone();
        assert_eq!(results[UUID], json!({ "result": "drop", "details": details }));
        assert_eq!(results[OTHER], json!({ "result": "ok" }), "{details}");
    }
    assert_eq!(fake.stored().len(), 1);
}

/// Without the option, the service moves a timestamp by the difference of the clocks: a resend on another day is another event.
#[tokio::test]
async fn v1_corrects_the_clock_of_a_sender_that_does_not_forbid_it() {
    let fake = FakePosthog::open().await;
    let mut corrected = event(UUID);
    corrected["options"] = json!({});
    send(
        &fake,
        &headers(PROJECT_API_KEY),
        &body(&[corrected.clone()]).to_string(),
    )
    .await
    .ok();
    let mut later = headers(PROJECT_API_KEY);
    later.last_mut().unwrap().1 = "2026-02-20T10:00:00Z".to_owned();
    send(&fake, &later, &body(&[corrected]).to_string()).await.ok();
    assert_eq!((fake.uuids().len(), fake.stored().len()), (1, 2));
    for headers in [headers(PROJECT_API_KEY), later] {
        send(&fake, &headers, &body(&[event(OTHER)]).to_string()).await.ok();
    }
    assert_eq!((fake.uuids().len(), fake.stored().len()), (2, 3));
}
