//! An event is read as it was written; an event that the store cannot keep is refused before anything is stored.

#![expect(clippy::unwrap_used, reason = "a clause asserts by panicking")]

use std::collections::BTreeMap;

use postroom::{ErrorKind, Event, HEADERS_BYTES_MAX, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, TYPE_BYTES_MAX};
use serde_json::value::{RawValue, to_raw_value};
use time::macros::datetime;

use super::actor::{Reader, append, begin, commit, event};
use crate::Fresh;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// Past a limit: a clear error of the right kind, nothing stored, and the caller's transaction is still good.
pub async fn what_breaks_a_limit_is_refused_and_nothing_is_stored(fresh: Fresh) {
    type Break = fn(&mut Event);
    let breaks: [(&str, Break); 9] = [
        ("event_type", |event| event.event_type = "x".repeat(TYPE_BYTES_MAX + 1)),
        ("event_type", |event| event.event_type = "no spaces".to_owned()),
        ("aggregate_type", |event| event.aggregate_type = String::new()),
        ("aggregate_id", |event| event.aggregate_id = "k".repeat(1 << 20)),
        ("aggregate_id", |event| event.aggregate_id = "a\0b".to_owned()),
        ("source", |event| event.source = "s".repeat(KEY_BYTES_MAX + 1)),
        ("payload", |event| {
            event.payload = to_raw_value(&"x".repeat(10_000_000)).unwrap();
        }),
        ("headers", |event| {
            event.headers = [("h".to_owned(), "v".repeat(HEADERS_BYTES_MAX))].into();
        }),
        ("occurred_at", |event| {
            event.occurred_at = datetime!(0000-01-01 0:00 UTC);
        }),
    ];
    let tx = begin(fresh.db()).await;
    for (field, broken) in breaks {
        let good = event("thing", "must not be stored either");
        let mut bad = event("thing", "bad");
        broken(&mut bad);
        let error = postroom::append(&tx, &[good, bad]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{field}: {}", error.report());
        assert!(
            error.report().contains(field),
            "the error names {field}: {}",
            error.report()
        );
    }
    append(&tx, "thing", &["good"]).await;
    tx.commit().await.unwrap();
    let mut reader = Reader::new(&fresh);
    reader.expect(&["good"]).await;
    reader.expect_nothing_else().await;
}

/// An event of the largest allowed size in every field is stored unchanged.
pub async fn an_event_at_every_limit_is_kept(fresh: Fresh) {
    let mut largest = event("thing", "largest");
    largest.event_type = "t".repeat(TYPE_BYTES_MAX);
    largest.aggregate_type = "한".repeat(KEY_BYTES_MAX / 3);
    largest.aggregate_id = "🦀".repeat(KEY_BYTES_MAX / 4);
    largest.source = "é".repeat(KEY_BYTES_MAX / 2);
    largest.payload = to_raw_value(&"x".repeat(PAYLOAD_BYTES_MAX - 2)).unwrap();
    largest.headers = [("h".to_owned(), "v".repeat(HEADERS_BYTES_MAX - 1))].into();
    largest.occurred_at = datetime!(9999-12-31 23:59:59 UTC);
    let tx = begin(fresh.db()).await;
    postroom::append(&tx, std::slice::from_ref(&largest)).await.unwrap();
    tx.commit().await.unwrap();
    let found = Reader::new(&fresh).take(1).await;
    let found = &found.first().unwrap().event;
    assert!(
        found.payload.get() == largest.payload.get(),
        "a payload of {PAYLOAD_BYTES_MAX} bytes"
    );
    assert_eq!(found.key(), largest.key());
    assert_eq!(
        (&found.event_type, &found.source),
        (&largest.event_type, &largest.source)
    );
    assert_eq!(
        (&found.headers, found.occurred_at),
        (&largest.headers, largest.occurred_at)
    );
}

/// Every field comes back as it was given: any script, numbers no float can hold, headers, times.
pub async fn every_field_comes_back(fresh: Fresh) {
    const PAYLOAD: &str = "{\"text\": \"한국어 🦀 \\u00e9 \\\"quoted\\\" \\\\ \\n\\t عربى\", \"big\": 123456789012345678901234567890, \
        \"fine\": 0.12345678901234567890123, \"negative\": -9007199254740993, \"nested\": [[], {}, [null, true, false]], \"\": \"empty name\"}";
    let mut given = event("열쇠 🔑", "");
    given.source = "서비스/가".to_owned();
    given.payload = raw(PAYLOAD);
    given.headers = [("이름", "값 ✓"), ("empty", ""), ("quote\"", "back\\slash\nline")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    given.occurred_at = datetime!(2024-02-29 23:59:59.123 UTC);
    let tx = begin(fresh.db()).await;
    postroom::append(&tx, std::slice::from_ref(&given)).await.unwrap();
    tx.commit().await.unwrap();
    let before = postroom::clock::now();

    let found = Reader::new(&fresh).take(1).await;
    let entry = found.first().unwrap();
    assert_eq!((entry.event.id, &entry.event.event_type), (given.id, &given.event_type));
    assert_eq!((entry.event.key(), &entry.event.source), (given.key(), &given.source));
    assert_eq!(
        (&entry.event.headers, entry.event.occurred_at),
        (&given.headers, given.occurred_at)
    );
    assert!(
        (entry.created_at - before).abs() < time::Duration::minutes(5),
        "created {} by the database",
        entry.created_at
    );
    if fresh.keeps_json_text {
        assert_eq!(entry.event.payload.get(), PAYLOAD, "byte for byte");
    }
    assert_eq!(
        fields(entry.event.payload.get()),
        fields(PAYLOAD),
        "value for value, numbers digit for digit"
    );
}

/// An object's fields: strings as what they mean, everything else as it is written, without spaces.
fn fields(object: &str) -> BTreeMap<String, String> {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object).unwrap();
    let meaning =
        |value: &RawValue| serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().replace(' ', ""));
    fields
        .into_iter()
        .map(|(name, value)| (name, meaning(&value)))
        .collect()
}

/// Case, accents and spaces at the end make another key: a database's collation must not merge them.
pub async fn keys_that_look_alike_stay_apart(fresh: Fresh) {
    let keys = ["a", "A", "a ", " a", "á", "a\u{301}", "ａ", "ß", "ss"];
    for key in keys {
        commit(fresh.db(), key, &[key]).await;
    }
    let entries = Reader::new(&fresh).take(keys.len()).await;
    let found: Vec<&str> = entries.iter().map(|entry| entry.event.aggregate_id.as_str()).collect();
    assert_eq!(found, keys);
}
