//! `POST /api/v1/events`: CloudEvents from producers that cannot emit in a transaction of their own. Structured, binary or a
//! batch; an event that is sent again is not a second one, and not another one; a batch is accepted as a whole or not at all.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom::envelope::{CLOUDEVENTS_BATCH_JSON, CLOUDEVENTS_JSON};
use postroom::{Envelope, Error, ErrorKind, Event};
use serde::Serialize;

use crate::access::Caller;
use crate::declared::Declared;
use crate::host::Host;
use crate::problem::Problem;

/// Events in one request.
const BATCH_MAX: usize = 1_000;

/// The result of a request.
#[derive(Serialize)]
struct Accepted {
    /// Events that are new.
    accepted: usize,
    /// Events that were accepted before, with the same content.
    repeated: usize,
    /// Their ids here, in the order of the request, for `postroom why`.
    event_ids: Vec<String>,
}

pub(crate) async fn post(
    host: &Host,
    (declared, caller): (&Declared, &Caller),
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response, Problem> {
    let mut events = read(headers, body).map_err(explain)?;
    if events.len() > BATCH_MAX {
        return Err(Problem::invalid(format!(
            "the batch has {} events, the limit is {BATCH_MAX}; send several requests",
            events.len()
        )));
    }
    check_scope(&events, caller)?;
    declared.check(&events, caller)?;
    declared.screen(&mut events)?;
    let accepted = postroom::ingest(host.store.db(), &events)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::Invalid => explain(error),
            ErrorKind::Conflict => Problem::new(StatusCode::CONFLICT, "conflict", error.doing()),
            _ => Problem::from(error),
        })?;
    let answer = Accepted {
        accepted,
        repeated: events.len() - accepted,
        event_ids: events.iter().map(|event| event.id.to_string()).collect(),
    };
    Ok((StatusCode::ACCEPTED, axum::Json(answer)).into_response())
}

/// Refuses all events if one of them is of a type that the scope of the service's token does not include.
fn check_scope(events: &[Event], caller: &Caller) -> Result<(), Problem> {
    let Some(scope) = caller.scope() else {
        return Ok(());
    };
    match events.iter().position(|event| !scope.includes_type(&event.event_type)) {
        None => Ok(()),
        Some(index) => {
            let event_type = events.get(index).map_or("", |event| &event.event_type);
            let detail = format!(
                "event {index} has the type {event_type}, which the scope of this token does not include. Nothing of this \
                 request was recorded"
            );
            Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
        }
    }
}

/// The whole chain: every word of it is about the client's own request.
fn explain(error: Error) -> Problem {
    Problem::invalid(error.report())
}

fn read(headers: &HeaderMap, body: &[u8]) -> postroom::Result<Vec<Event>> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = content_type
        .and_then(|kind| kind.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let envelopes = match kind.as_str() {
        CLOUDEVENTS_BATCH_JSON => Envelope::from_batch(body)?,
        CLOUDEVENTS_JSON => vec![Envelope::from_structured(body)?],
        _ if headers.contains_key("ce-specversion") => {
            vec![Envelope::from_binary(attributes(headers, content_type)?, body)?]
        }
        _ => {
            return Err(Error::invalid(format!(
                "the content-type is {kind:?} and there is no header ce-specversion; send {CLOUDEVENTS_JSON}, \
                 {CLOUDEVENTS_BATCH_JSON}, or the attributes as headers ce-id, ce-type, ce-source, ce-specversion"
            )));
        }
    };
    envelopes.into_iter().map(Envelope::into_event).collect()
}

/// The attributes that stand in headers, percent-decoded as the HTTP binding says.
fn attributes(headers: &HeaderMap, content_type: Option<&str>) -> postroom::Result<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix("ce-") else {
            continue;
        };
        let value = percent_decode(value.as_bytes())
            .ok_or_else(|| Error::invalid(format!("the header ce-{name} is not UTF-8; percent-encode it")))?;
        attributes.insert(name.to_owned(), value);
    }
    if let Some(kind) = content_type {
        attributes.insert("datacontenttype".to_owned(), kind.to_owned());
    }
    Ok(attributes)
}

/// `%C3%A9` is é; what is not an escape stays as it is.
fn percent_decode(text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let escape = after.get(..2).filter(|_| first == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits)
                .ok()
                .filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
            u8::from_str_radix(digits, 16).ok()
        });
        match escape {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_three_modes_are_told_apart() {
        let one = br#"{"specversion":"1.0","id":"1","source":"/s","type":"a.b","data":{"n":1}}"#;
        let structured = headers(&[("content-type", "application/cloudevents+json; charset=utf-8")]);
        assert_eq!(read(&structured, one).unwrap().len(), 1);
        let batch = headers(&[("content-type", "application/cloudevents-batch+json")]);
        let two = [b"[".as_slice(), one, b",", one, b"]"].concat();
        assert_eq!(read(&batch, &two).unwrap().len(), 2);
        let binary = headers(&[
            ("content-type", "application/json"),
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-source", "/s"),
            ("ce-type", "a.b"),
            ("ce-subject", "caf%C3%A9 100%"),
        ]);
        let event = read(&binary, br#"{"n":1}"#).unwrap().remove(0);
        assert_eq!(
            (event.aggregate_id.as_str(), event.payload.get()),
            ("café 100%", r#"{"n":1}"#)
        );
        let same = read(&structured, one).unwrap().remove(0);
        assert_eq!(event.id, same.id, "the same source and id in another mode");
    }

    #[test]
    fn a_mistake_names_itself() {
        let check = |headers: &HeaderMap, body: &[u8], words: &str| {
            let report = read(headers, body).unwrap_err().report();
            assert!(report.contains(words), "{report}");
        };
        check(&HeaderMap::new(), b"{}", "ce-specversion");
        let batch = headers(&[("content-type", "application/cloudevents-batch+json")]);
        check(&batch, b"{}", "a JSON array is expected");
        check(&batch, br#"[{"specversion":"1.0"}]"#, "event 0 of the batch");
    }
}
