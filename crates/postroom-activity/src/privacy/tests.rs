//! Tests of the firewall in front of the store: which texts become what.

use postroom::{Event, Screen, parse_payload};
use serde_json::json;

use super::*;

const SECRET: &[u8] = b"an invented secret that only tests use";
const HASH_CHARS: usize = 38; // h:k1: and 32 digits, and one for luck

fn keys() -> Keys {
    Keys::new("k1", SECRET).unwrap()
}

fn with(settings: Value) -> Privacy {
    let settings: PiiSettings = serde_json::from_value(settings).unwrap();
    Privacy::new(&settings, Some(keys())).unwrap()
}

fn admitted(privacy: &Privacy, event: ActivityEvent) -> ActivityEvent {
    let once: ActivityEvent = privacy.admit(event).unwrap().into();
    let twice: ActivityEvent = privacy.admit(once.clone()).unwrap().into();
    assert_eq!(twice, once, "an event that is cleaned again stays the same");
    once
}

fn event() -> ActivityEvent {
    let text = |text: &str| Some(text.to_owned());
    ActivityEvent {
        anonymous_id: text("anon-1"),
        session_id: text("session-1"),
        request_path: text("/restaurants/7"),
        request_method: text("GET"),
        device_id: text("658E37D6-30C7-4438-A04B-31C4C1550C5D"),
        platform: text("ios"),
        app_version: text("2.19.13+build.412"),
        locale: text("ko-KR"),
        ..ActivityEvent::new("page.viewed", "v1").member(1_012_345_678)
    }
}

#[test]
fn a_harmless_event_stays_as_it_is() {
    let privacy = with(json!({}));
    let mut event = event()
        .property("restaurantId", 7)
        .property("names", json!(["국밥집", { "a": [null, true] }]));
    event.occurred_at = event.occurred_at.truncate_to_millisecond();
    assert_eq!(admitted(&privacy, event.clone()), event);
}

#[test]
fn every_text_of_an_event_is_cleaned() {
    let privacy = with(json!({}));
    for (name, is_identity, text) in TEXTS {
        let secret = match column_max(name) {
            ..15 => "a@b.co".to_owned(),
            _ => "kim@example.com".to_owned(),
        };
        let mut event = event();
        *text(&mut event).unwrap() = secret.clone();
        let mut cleaned = admitted(&privacy, event);
        let cleaned = text(&mut cleaned).unwrap();
        match is_identity {
            true => assert_eq!(cleaned.chars().count(), HASH_CHARS - 1, "{name}: {cleaned}"),
            false => assert_eq!(cleaned, "[email]", "{name}"),
        }
    }
}

#[test]
fn ids_with_personal_data_still_tell_events_and_people_apart() {
    let privacy = with(json!({}));
    let of = |id: &str| {
        let event = ActivityEvent {
            event_id: id.to_owned(),
            anonymous_id: Some(id.to_owned()),
            ..event()
        };
        let event = admitted(&privacy, event);
        assert_eq!(event.anonymous_id.as_ref(), Some(&event.event_id));
        event.event_id
    };
    assert_eq!(of("kim@example.com"), of("kim@example.com"));
    assert_ne!(of("kim@example.com"), of("Kim@example.com"));
    assert_ne!(of("kim@example.com"), of("lee@example.com"));
}

#[test]
fn a_text_that_becomes_too_long_is_cut_or_becomes_a_mark() {
    let privacy = with(json!({}));
    let path = |path: String| {
        let event = ActivityEvent {
            request_path: Some(path),
            ..event()
        };
        let path = admitted(&privacy, event).request_path.unwrap();
        assert!(path.chars().count() <= 255, "{path}");
        path
    };
    let long = "가".repeat(240);
    assert_eq!(path(format!("/{long}?q=국밥")), "[too_long]", "a hash cannot be cut");
    let cut = path(format!("/a@b.co/{}", "가나".repeat(123)));
    assert!(cut.starts_with("/[email]/가나") && cut.chars().count() == 255, "{cut}");
    let mut event = event();
    event.request_method = Some("a@b.c1 a@b.co".chars().take(10).collect());
    admitted(&privacy, event);
}

#[test]
fn searched_words_follow_the_keyword_mode() {
    let check = |mode: &str, expected: Value| {
        let privacy = with(json!({ "keyword_mode": mode }));
        let event = event()
            .property("query", "국밥 010-1234-5678")
            .property("url", "/s?q=냉면&page=2");
        let properties = admitted(&privacy, event).properties;
        assert_eq!(Value::Object(properties), expected, "{mode}");
    };
    let (words, url) = (keys().hash("국밥 010-1234-5678"), keys().hash("냉면"));
    check(
        "HASH",
        json!({ "queryHash": words, "url": format!("/s?q={url}&page=2") }),
    );
    check("DROP", json!({ "url": "/s?q=[keyword]&page=2" }));
    check("PLAIN", json!({ "query": "국밥 [phone]", "url": "/s?q=냉면&page=2" }));
    let blank = with(json!({}));
    assert!(admitted(&blank, event().property("query", " ")).properties.is_empty());
}

#[test]
fn a_client_leaves_hashes_only_if_the_settings_say_so() {
    let check = |settings: Value, expected: Value| {
        let privacy = with(settings);
        let trace = privacy.trace("192.0.2.7", Some("Invented/1.0"));
        let own = event()
            .property("ip", "192.0.2.8")
            .property("userAgent", "Invented/2.0");
        let admitted = privacy.admit_from(own, &trace).unwrap();
        assert_eq!(Value::Object(admitted.properties.clone()), expected);
        assert_eq!(privacy.admit(admitted.clone().into()).unwrap(), admitted);
    };
    let hash = |text: &str| keys().hash(text);
    check(json!({}), json!({}));
    check(
        json!({ "store_ip": true }),
        json!({ "clientIpHash": hash("192.0.2.7"), "ip": hash("192.0.2.8") }),
    );
    check(
        json!({ "store_user_agent": true }),
        json!({ "userAgentHash": hash("Invented/1.0"), "userAgent": hash("Invented/2.0") }),
    );
}

#[test]
fn what_is_beyond_a_limit_is_refused_and_not_cut() {
    let privacy = with(json!({}));
    let long = ActivityEvent {
        session_id: Some("세".repeat(101)),
        ..event()
    };
    let error = privacy.admit(long).unwrap_err().report();
    assert!(error.contains("sessionId has 101 characters"), "{error}");
}

#[test]
fn without_keys_nothing_is_let_through() {
    let error = Privacy::new(&PiiSettings::default(), None).unwrap_err().report();
    assert!(error.contains("pii.hash_secret is missing"), "{error}");
    assert!(
        error.contains("openssl rand") && error.contains("ANALYTICS_HASH_SECRET"),
        "{error}"
    );
    let closed = Privacy::closed();
    assert!(closed.admit(event()).is_err());
    assert!(closed.raw("data", b"harmless").is_empty() && closed.said("harmless").is_empty());
}

#[test]
fn counts_are_by_kind_and_once() {
    let privacy = with(json!({}));
    admitted(
        &privacy,
        event()
            .property("memo", "010-1234-5678 kim@example.com")
            .property("query", "국밥"),
    );
    let count = |kind: Kind| privacy.removed.get_or_create(&[("kind", kind.name())]).get();
    assert_eq!(
        (
            count(Kind::Phone),
            count(Kind::Email),
            count(Kind::Keyword),
            count(Kind::Token)
        ),
        (1, 1, 1, 0)
    );
}

fn screened(event: Event) -> Result<Event> {
    let (privacy, mut event) = (with(json!({})), event);
    let screen: &dyn Screen = &privacy;
    screen.clean(&mut event)?;
    let mut again = event.clone();
    screen.clean(&mut again)?;
    assert_eq!(
        (&again.aggregate_id, again.payload.get()),
        (&event.aggregate_id, event.payload.get())
    );
    Ok(event)
}

#[test]
fn an_event_from_outside_is_cleaned_in_its_payload_key_and_headers() {
    let payload = json!({ "eventId": "kim@example.com", "eventName": "page.viewed", "eventVersion": "v1",
        "occurredAt": "2026-02-18T10:00:00Z", "properties": { "memo": "kim@example.com" } });
    let payload = parse_payload(&payload.to_string()).unwrap();
    let event = Event::new("activity.event.recorded.v1", "activity", "kim@example.com", payload).unwrap();
    let event = event
        .header("note", "kim@example.com")
        .header("kim@example.com", "1")
        .header("ceid", "kim@example.com");
    let cleaned = screened(event.clone()).unwrap();
    let activity: ActivityEvent = cleaned.decode().unwrap();
    assert_eq!(activity.properties["memo"], "[email]");
    assert_eq!(cleaned.aggregate_id, activity.event_id);
    let headers: Vec<(&str, &str)> = cleaned
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(headers, [("ceid", activity.event_id.as_str()), ("note", "[email]")]);
    let error = screened(event.source("/app?token=abc123xyz")).unwrap_err().report();
    assert_eq!(
        error,
        "the source of the event contains personal data or a secret (token); remove it"
    );
}

#[test]
fn an_event_that_is_no_activity_is_cleaned_too() {
    let payload = parse_payload(r#"{"memberId": "010-1234-5678"}"#).unwrap();
    let cleaned = screened(Event::new("activity.event.recorded.v1", "activity", "1", payload).unwrap()).unwrap();
    assert_eq!(cleaned.payload.get(), r#"{"memberId":"[phone]"}"#);
    let error = cleaned.decode::<ActivityEvent>().unwrap_err().report();
    assert!(!error.contains("1234"), "{error}");
}

#[test]
fn parts_of_a_message_that_is_no_event_are_cleaned_by_their_names() {
    let privacy = with(json!({}));
    let check = |name: &str, value: &str, expected: &str| {
        let cleaned = String::from_utf8(privacy.raw(name, value.as_bytes())).unwrap();
        assert_eq!(cleaned, expected, "{name}: {value}");
    };
    check("eventName", "page.viewed", "page.viewed");
    check("email", "gildong", "");
    check("memo", "kim@example.com", "[email]");
    check("kim@example.com", "1", "1");
    check("data", r#"{"password":"x","n":1}"#, r#"{"n":1}"#);
    check("data", "call 010-1234-5678", "call [phone]");
    check("content-type", "application/json", "application/json");
    assert_eq!(privacy.said("kim@example.com"), "[email]");
}
