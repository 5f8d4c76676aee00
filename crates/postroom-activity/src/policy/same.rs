//! Whether two events with one id are the same event.

use serde_json::{Map, Number, Value};
use time::OffsetDateTime;

use crate::event::ActivityEvent;
use crate::privacy::{ADDRESS, USER_AGENT};

/// Whether a client has sent the stored event again. Times are compared to the millisecond, because SQLite stores no more. A member
/// that only one of them names is no difference: a client may log in between two tries. Nor is its address or user agent: it may
/// change its network, too.
pub(crate) fn is_same_event(stored: &ActivityEvent, sent: &ActivityEvent) -> bool {
    let is_other_member = stored
        .member_id
        .zip(sent.member_id)
        .is_some_and(|(one, other)| one != other);
    let bare = |event: &ActivityEvent| ActivityEvent {
        occurred_at: OffsetDateTime::UNIX_EPOCH,
        member_id: None,
        properties: Map::new(),
        ..event.clone()
    };
    !is_other_member
        && millisecond(stored.occurred_at) == millisecond(sent.occurred_at)
        && bare(stored) == bare(sent)
        && are_same_fields(&of_event(&stored.properties), &of_event(&sent.properties))
}

/// The properties without those of the client.
fn of_event(properties: &Map<String, Value>) -> Map<String, Value> {
    let own = properties
        .iter()
        .filter(|(name, _)| ![ADDRESS, USER_AGENT].contains(&name.as_str()));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn millisecond(at: OffsetDateTime) -> i128 {
    at.unix_timestamp_nanos().div_euclid(1_000_000)
}

fn are_same_fields(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let is_same = |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| is_same_value(value, other));
    one.len() == other.len() && one.iter().all(is_same)
}

fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => is_same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_value(one, other))
        }
        (Value::Object(one), Value::Object(other)) => are_same_fields(one, other),
        _ => one == other,
    }
}

/// Databases write numbers in a form of their own: `1e2` comes back as `100`.
fn is_same_number(one: &Number, other: &Number) -> bool {
    let is_whole = |number: &Number| !number.is_f64();
    one == other || ((!is_whole(one) || !is_whole(other)) && one.as_f64() == other.as_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_compared_by_content() {
        let event = |properties: Value| ActivityEvent {
            event_id: "e1".to_owned(),
            occurred_at: OffsetDateTime::UNIX_EPOCH,
            properties: properties.as_object().unwrap().clone(),
            ..ActivityEvent::new("page.viewed", "v1")
        };
        let check = |one: Value, other: Value, expected: bool| {
            assert_eq!(
                is_same_event(&event(one.clone()), &event(other.clone())),
                expected,
                "{one} {other}"
            );
        };
        check(
            json!({"a": 1, "b": [1.5, {"c": null}]}),
            json!({"b": [1.5, {"c": null}], "a": 1}),
            true,
        );
        check(json!({"a": 1e2}), json!({"a": 100}), true);
        check(json!({"a": i64::MAX}), json!({"a": i64::MAX - 1}), false);
        check(json!({"a": 1}), json!({"a": "1"}), false);
        check(json!({"a": 1}), json!({"a": 1, "b": 2}), false);
        check(json!({"a": [1]}), json!({"a": [1, 1]}), false);
        check(
            json!({"a": 1, "clientIpHash": "x"}),
            json!({"a": 1, "userAgentHash": "y"}),
            true,
        );
    }

    #[test]
    fn a_login_between_two_tries_is_no_difference_but_another_member_is() {
        let event = ActivityEvent::new("page.viewed", "v1");
        assert!(is_same_event(&event, &event.clone().member(7)));
        assert!(!is_same_event(&event.clone().member(8), &event.clone().member(7)));
        let later = ActivityEvent {
            occurred_at: event.occurred_at + time::Duration::milliseconds(1),
            ..event.clone()
        };
        assert!(!is_same_event(&event, &later));
    }
}
