//! The protocol v1: a result for each event.

use std::collections::HashSet;

use postroom::clock;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::store::{Seen, Store, Stored, time_of};
use super::{Answer, Request, Rules, check_key, names, unpack};

/// The headers that every request needs besides `Authorization`.
const REQUIRED: [&str; 6] = [
    "content-type",
    "user-agent",
    "posthog-sdk-info",
    "posthog-attempt",
    "posthog-request-id",
    "posthog-request-timestamp",
];
/// Distinct ids that do not stand for one person.
const ILLEGAL_IDS: [&str; 5] = ["anonymous", "guest", "null", "undefined", "0"];
const TEXT_BYTES_MAX: usize = 200;

#[derive(Deserialize)]
struct Body {
    created_at: String,
    batch: Vec<Sent>,
}

#[derive(Deserialize)]
struct Sent {
    event: String,
    uuid: String,
    distinct_id: String,
    timestamp: String,
    #[serde(default)]
    options: Value,
    #[serde(default)]
    properties: Value,
}

/// The result of one event.
struct EventResult {
    result: &'static str,
    details: Option<&'static str>,
}

/// Judges a request in the order of the real service, and stores what it takes.
pub(super) fn take(rules: &Rules, request: &Request, store: &mut Store) -> Answer {
    let id = request.header("posthog-request-id");
    let answer = judge(rules, request, store).unwrap_or_else(|answer| answer);
    Answer {
        request_id: (!id.is_empty()).then(|| id.to_owned()),
        ..answer
    }
}

fn judge(rules: &Rules, request: &Request, store: &mut Store) -> Result<Answer, Answer> {
    let (key, skew) = check_headers(rules, request)?;
    let body = read(rules, request)?;
    let mut seen = HashSet::new();
    for sent in &body.batch {
        match Uuid::parse_str(sent.uuid.trim()) {
            _ if sent.uuid.trim().is_empty() => return Err(error(400, "missing_event_uuid")),
            Err(_) => return Err(error(400, "invalid_event_uuid")),
            Ok(uuid) if !seen.insert(uuid) => return Err(error(400, "duplicate_event_uuid")),
            Ok(_) => {}
        }
    }
    if rules.is_over_quota {
        return Err(error(402, "billing_limit_exceeded"));
    }
    let mut results = Map::new();
    for sent in body.batch {
        let uuid = sent.uuid.clone();
        let is_omitted = names(&rules.omitted, &sent.seen());
        let EventResult { result, details } = store_one(rules, &key, skew, sent, store);
        let mut says = json!({ "result": result });
        if let (Some(details), Some(says)) = (details, says.as_object_mut()) {
            says.insert("details".to_owned(), details.into());
        }
        if !is_omitted {
            results.insert(uuid, says);
        }
    }
    let has_retry = results.values().any(|says| says.get("result") == Some(&"retry".into()));
    Ok(Answer {
        retry_after: has_retry.then(|| "1".to_owned()),
        ..Answer::new(200, json!({ "results": results }).to_string())
    })
}

/// The key, and how far the clock of the sender is ahead.
fn check_headers(rules: &Rules, request: &Request) -> Result<(String, time::Duration), Answer> {
    let authorization = request.header("authorization");
    if authorization.is_empty() {
        return Err(error(401, "missing_authorization"));
    }
    if REQUIRED.iter().any(|name| request.header(name).is_empty()) {
        return Err(error(400, "missing_required_headers"));
    }
    let invalid = || error(400, "invalid_header_value");
    let (scheme, key) = authorization.split_once(' ').unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(invalid());
    }
    check_key(rules, key).map_err(|_reason| error(401, "invalid_api_token"))?;
    let kind = request.header("content-type").split(';').next().unwrap_or_default();
    if kind.trim() != "application/json" {
        return Err(error(415, "unsupported_content_type"));
    }
    let is_readable = match request.header("content-encoding") {
        "" => true,
        "gzip" => rules.takes_gzip,
        _ => false,
    };
    if !is_readable {
        return Err(error(415, "unsupported_encoding"));
    }
    Uuid::parse_str(request.header("posthog-request-id")).map_err(|_wrong| invalid())?;
    let attempt: u32 = request.header("posthog-attempt").parse().unwrap_or_default();
    if attempt < 1 {
        return Err(invalid());
    }
    let sent_at = time_of(request.header("posthog-request-timestamp")).ok_or_else(invalid)?;
    Ok((key.trim().to_owned(), sent_at - clock::now()))
}

fn read(rules: &Rules, request: &Request) -> Result<Body, Answer> {
    let too_large = || error(413, "payload_too_large");
    if request.body.len() > rules.wire_bytes_max {
        return Err(too_large());
    }
    let body = unpack(&request.body, rules.unpacked_bytes_max).map_err(|is_large| match is_large {
        true => too_large(),
        false => error(400, "request_decoding_error"),
    })?;
    if body.len() > rules.unpacked_bytes_max {
        return Err(too_large());
    }
    if body.is_empty() {
        return Err(error(400, "empty_body"));
    }
    let unreadable = || error(400, "request_parsing_error");
    let body: Body = serde_json::from_slice(&body).map_err(|_wrong| unreadable())?;
    if body.batch.iter().any(|sent| names(&rules.unreadable, &sent.seen())) {
        return Err(unreadable());
    }
    if body.batch.is_empty() {
        return Err(error(400, "empty_batch"));
    }
    time_of(&body.created_at).ok_or_else(|| error(400, "invalid_batch"))?;
    Ok(body)
}

fn store_one(rules: &Rules, key: &str, skew: time::Duration, sent: Sent, store: &mut Store) -> EventResult {
    let seen = sent.seen();
    let at = match drop_reason(rules, &sent, &seen) {
        Ok(at) => at,
        Err(details) => return result("drop", Some(details)),
    };
    if names(&rules.not_persisted, &seen) {
        return result("retry", Some("not_persisted"));
    }
    let option = |name: &str| sent.options.get(name).and_then(flag);
    let is_corrected = option("disable_skew_correction") != Some(true);
    let is_illegal = ILLEGAL_IDS.contains(&seen.distinct_id.as_str());
    let row = Stored {
        at: if is_corrected { at - skew } else { at },
        has_profile: !is_illegal && option("process_person_profile") != Some(false),
        properties: sent.properties,
        seen,
    };
    store.put(key, row);
    match is_illegal {
        true => result("warning", Some("person_processing_disabled")),
        false => result("ok", None),
    }
}

/// The time of an event that can be stored, or the reason why it is dropped.
fn drop_reason(rules: &Rules, sent: &Sent, seen: &Seen) -> Result<OffsetDateTime, &'static str> {
    let at = time_of(&sent.timestamp);
    let has_known_options = match &sent.options {
        Value::Null => true,
        Value::Object(options) => options
            .iter()
            .all(|(name, value)| name == "product_tour_id" || flag(value).is_some()),
        _ => false,
    };
    match at {
        _ if sent.event.trim().is_empty() => Err("missing_event_name"),
        _ if sent.event.len() > TEXT_BYTES_MAX => Err("event_name_too_long"),
        _ if seen.distinct_id.is_empty() => Err("missing_distinct_id"),
        _ if seen.distinct_id.len() > TEXT_BYTES_MAX => Err("distinct_id_too_large"),
        None => Err("invalid_event_timestamp"),
        _ if !sent.properties.is_object() => Err("malformed_event_properties"),
        _ if !has_known_options => Err("invalid_options"),
        _ if names(&rules.poison, seen) => Err("event_restriction_drop"),
        Some(at) => Ok(at),
    }
}

/// A flag as the service reads it: `true`, `"true"` or `1`.
fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64().filter(|number| *number < 2).map(|number| number == 1),
        _ => None,
    }
}

impl Sent {
    fn seen(&self) -> Seen {
        Seen {
            uuid: self.uuid.trim().to_owned(),
            timestamp: self.timestamp.clone(),
            event: self.event.clone(),
            distinct_id: self.distinct_id.trim().to_owned(),
        }
    }
}

fn result(result: &'static str, details: Option<&'static str>) -> EventResult {
    EventResult { result, details }
}

fn error(status: u16, tag: &str) -> Answer {
    let body = json!({ "error": tag, "error_description": "why", "error_uri": "https://posthog.com/docs/api" });
    Answer::new(status, body.to_string())
}

/// The body of a scripted status.
pub(super) fn with_body(answer: Answer) -> Answer {
    let tag = match answer.status {
        401 => "invalid_api_token",
        402 => "billing_limit_exceeded",
        404 => return answer,
        408 => "request_timeout",
        413 => "payload_too_large",
        415 => "unsupported_encoding",
        429 => "rate_limited",
        503 => "service_unavailable",
        504 => "gateway_timeout",
        status if status < 500 => "invalid_header_value",
        _ => "internal_error",
    };
    Answer {
        body: error(answer.status, tag).body,
        ..answer
    }
}
