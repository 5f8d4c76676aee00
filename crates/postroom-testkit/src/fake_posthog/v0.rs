//! The protocol v0: one answer for the whole batch, in plain text.

use postroom::clock;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::store::{Seen, Store, Stored, time_of};
use super::{Answer, Request, Rules, check_key, names, unpack};

/// The largest message that is stored.
const EVENT_BYTES_MAX: usize = 1_000_000;
const ID_CHARS_MAX: usize = 200;
const UNREADABLE: &str = "failed to parse request: data did not match any variant of untagged enum RawRequest";

/// Judges a request, and stores what it takes. It stores one event after the other: an error may follow events that are stored.
pub(super) fn take(rules: &Rules, request: &Request, store: &mut Store) -> Answer {
    judge(rules, request, store).unwrap_or_else(|answer| answer)
}

fn judge(rules: &Rules, request: &Request, store: &mut Store) -> Result<Answer, Answer> {
    let (key, rows) = read(rules, request)?;
    check_key(rules, &key).map_err(|reason| Answer::new(401, format!("API key is not valid: {reason}")))?;
    if rows.iter().any(|(row, _)| names(&rules.poison, &row.seen)) {
        return Err(Answer::new(400, "invalid event could not be processed"));
    }
    for (row, bytes) in rows {
        if bytes > EVENT_BYTES_MAX {
            return Err(too_large());
        }
        if names(&rules.not_persisted, &row.seen) {
            return Err(Answer::new(503, "transient error, please retry"));
        }
        if !rules.is_over_quota {
            store.put(&key, row);
        }
    }
    Ok(Answer::new(200, r#"{"status":"Ok"}"#))
}

/// The key of the batch, and its events with their sizes.
fn read(rules: &Rules, request: &Request) -> Result<(String, Vec<(Stored, usize)>), Answer> {
    let body = unpacked(rules, request)?;
    let body: Value = serde_json::from_slice(&body).map_err(|_wrong| Answer::new(400, UNREADABLE))?;
    let batch = match (&body, body.get("batch")) {
        (Value::Array(batch), _) | (_, Some(Value::Array(batch))) => batch.clone(),
        _ => vec![body.clone()],
    };
    if batch.is_empty() {
        return Err(Answer::new(400, "request holds no event"));
    }
    let rows: Vec<(Stored, usize)> = batch
        .iter()
        .map(|event| row(&body, event).map(|row| (row, event.to_string().len())))
        .collect::<Result<_, _>>()?;
    if rows.iter().any(|(row, _)| names(&rules.unreadable, &row.seen)) {
        return Err(Answer::new(400, UNREADABLE));
    }
    let key = key_of(&body).or_else(|| batch.first().and_then(key_of));
    let key = key.ok_or_else(|| Answer::new(401, "event submitted without an api_key"))?;
    Ok((key, rows))
}

fn unpacked(rules: &Rules, request: &Request) -> Result<Vec<u8>, Answer> {
    if request.body.is_empty() {
        return Err(Answer::new(400, "request missing data payload"));
    }
    if request.body.len() > rules.wire_bytes_max {
        return Err(too_large());
    }
    let body = unpack(&request.body, rules.unpacked_bytes_max).map_err(|is_large| match is_large {
        true => too_large(),
        false => Answer::new(400, "failed to decode request: invalid gzip"),
    })?;
    match body.len() > rules.unpacked_bytes_max {
        true => Err(too_large()),
        false => Ok(body),
    }
}

fn too_large() -> Answer {
    Answer::new(413, "maximum event size exceeded: the request is too large")
}

fn key_of(value: &Value) -> Option<String> {
    let found = ["api_key", "token", "$token"].iter().find_map(|name| value.get(name));
    found.and_then(Value::as_str).map(str::to_owned)
}

fn row(body: &Value, event: &Value) -> Result<Stored, Answer> {
    let refused = |says: &str| Answer::new(400, says);
    let mut seen = Seen::of(event);
    if seen.event.is_empty() {
        return Err(refused("event submitted with an empty event name"));
    }
    seen.distinct_id = distinct_id(event).ok_or_else(|| refused("event submitted without a distinct_id"))?;
    match event.get("uuid") {
        None | Some(Value::Null) => seen.uuid = Uuid::now_v7().to_string(),
        Some(Value::String(text)) if text.is_empty() => seen.uuid = Uuid::now_v7().to_string(),
        Some(_) if Uuid::parse_str(&seen.uuid).is_ok() => {}
        Some(_) => return Err(refused(UNREADABLE)),
    }
    let properties = event.get("properties").cloned().unwrap_or_default();
    Ok(Stored {
        at: stored_time(body, &seen, &properties),
        has_profile: properties.get("$process_person_profile") != Some(&false.into()),
        properties,
        seen,
    })
}

fn distinct_id(event: &Value) -> Option<String> {
    let id = ["distinct_id", "$distinct_id"]
        .iter()
        .find_map(|name| event.get(name))?;
    let text = match id {
        Value::Null => return None,
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    (!text.is_empty()).then(|| text.chars().take(ID_CHARS_MAX).collect())
}

/// The time of the event, corrected by the time when the batch says that it was sent.
fn stored_time(body: &Value, seen: &Seen, properties: &Value) -> OffsetDateTime {
    let sent_at = body.get("sent_at").and_then(Value::as_str).and_then(time_of);
    let is_corrected = properties.get("$ignore_sent_at") != Some(&true.into());
    match (time_of(&seen.timestamp), sent_at) {
        (Some(at), Some(sent_at)) if is_corrected => clock::now() + (at - sent_at),
        (Some(at), _) => at,
        (None, _) => clock::now(),
    }
}

/// The body of a scripted status.
pub(super) fn with_body(answer: Answer) -> Answer {
    let says = match answer.status {
        401 => "API key is not valid: empty",
        408 => "client stopped sending data",
        413 => "maximum event size exceeded: the request is too large",
        429 => "rate limited",
        503 => "transient error, please retry",
        500 => "internal server error: why",
        status if status < 300 => r#"{"status":"Ok"}"#,
        _ => return answer,
    };
    Answer {
        body: says.to_owned(),
        ..answer
    }
}
