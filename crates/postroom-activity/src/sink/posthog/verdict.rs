//! The meaning of PostHog's answers. Pure.
//!
//! A status that concerns the project or the service as a whole means that it is unavailable: its events are kept and no attempt
//! counts. Only 400 and 413 can concern single events of a batch.

use std::collections::HashMap;
use std::time::Duration;

use postroom_http::Answer;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::message::{Message, Protocol};
use crate::sink::SinkAnswer;

/// The longest wait that is taken from `Retry-After`.
const AFTER_MAX: Duration = Duration::from_secs(15 * 60);
/// The errors of v1 that concern the form of a request: every batch would have them, so no event is to blame.
const FORM_ERRORS: [&str; 6] = [
    "missing_required_headers",
    "invalid_header_value",
    "request_decoding_error",
    "empty_body",
    "empty_batch",
    "invalid_batch",
];
/// The longest reason of PostHog that is repeated.
const REASON_BYTES_MAX: usize = 80;

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is an answer for each event.
    Answered {
        answers: Vec<SinkAnswer>,
        warnings: u64,
        anomalies: u64,
    },
    /// All events were refused; at least one of them is bad.
    Bad(String),
    /// All events were refused; together they are too large.
    TooLarge(String),
    /// No event can be taken now.
    Unavailable { says: String, after: Option<Duration> },
    /// The deployment does not have this protocol.
    NotServed,
    /// The deployment does not take this content encoding.
    NotReadable,
}

impl Verdict {
    pub(super) fn unavailable(says: impl Into<String>, after: Option<Duration>) -> Self {
        Self::Unavailable {
            says: says.into(),
            after: after.map(|after| after.min(AFTER_MAX)),
        }
    }

    /// An encoding that is still refused without compression is a fault of the deployment.
    pub(super) fn or_unavailable(self) -> Self {
        match self {
            Self::NotReadable => Self::unavailable("415: PostHog does not take JSON at this address", None),
            verdict => verdict,
        }
    }
}

/// Reads the answer to a request with these messages.
pub(super) fn read(protocol: Protocol, answer: &Answer, messages: &[&Message]) -> Verdict {
    let unavailable = |says: &str| Verdict::unavailable(format!("{}: {says}", answer.status), answer.retry_after);
    let reason = reason(protocol, &answer.body);
    match answer.status {
        200..=299 => match protocol {
            Protocol::V1 => results(answer, messages),
            Protocol::V0 => accepted(answer, messages),
        },
        300..=399 => unavailable("redirects are not followed; set the new address as host"),
        400 if FORM_ERRORS.contains(&reason.as_str()) => {
            unavailable(&format!("{reason}; the form of the request is refused"))
        }
        400 => Verdict::Bad(format!("400: {reason}")),
        401 => unavailable("the project API key is not accepted"),
        402 => unavailable("the project is over its quota"),
        404 | 405 => Verdict::NotServed,
        413 => Verdict::TooLarge(format!("413: {reason}")),
        415 => Verdict::NotReadable,
        _ => unavailable(&reason),
    }
}

/// The results of v1. An event without a known result is sent again: PostHog removes the duplicate if it was stored.
fn results(answer: &Answer, messages: &[&Message]) -> Verdict {
    #[derive(Deserialize)]
    struct Body {
        results: HashMap<Uuid, Event>,
    }
    #[derive(Deserialize)]
    struct Event {
        result: String,
        details: Option<String>,
    }
    let Ok(Body { results }) = serde_json::from_slice(&answer.body) else {
        return Verdict::unavailable(
            format!("{}: the results cannot be read", answer.status),
            answer.retry_after,
        );
    };
    let (mut answers, mut is_answered) = (Vec::new(), false);
    let (mut warnings, mut anomalies) = (0, 0);
    for message in messages {
        let found = results.get(&message.uuid);
        let result = found.map_or("", |event| event.result.as_str());
        is_answered |= matches!(result, "ok" | "warning" | "drop");
        warnings += u64::from(result == "warning");
        let details = || plain(found.and_then(|event| event.details.as_deref()).unwrap_or_default());
        answers.push(match result {
            "ok" | "warning" => SinkAnswer::Taken,
            "drop" => SinkAnswer::Rejected(format!("PostHog dropped it: {}", details())),
            "retry" => SinkAnswer::Refused(format!("PostHog could not store it: {}", details())),
            _ => {
                anomalies += 1;
                SinkAnswer::Refused("PostHog gave no known result".to_owned())
            }
        });
    }
    match is_answered {
        true => Verdict::Answered {
            answers,
            warnings,
            anomalies,
        },
        false if anomalies == 0 => Verdict::unavailable("PostHog could not store any event", answer.retry_after),
        false => Verdict::unavailable("PostHog gave no known result for any event", answer.retry_after),
    }
}

/// Success of v0: all events were taken, unless the answer names a quota. Most deployments do not name it.
fn accepted(answer: &Answer, messages: &[&Message]) -> Verdict {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let limited = body.get("quota_limited").and_then(Value::as_array);
    if limited.is_some_and(|limited| limited.contains(&"events".into())) {
        return Verdict::unavailable("402: the project is over its quota", answer.retry_after);
    }
    Verdict::Answered {
        answers: vec![SinkAnswer::Taken; messages.len()],
        warnings: 0,
        anomalies: 0,
    }
}

/// The reason in an error: the tag of v1, or the text of v0 up to its first colon. The rest may repeat the event.
fn reason(protocol: Protocol, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let tag = || {
        let body: Value = serde_json::from_slice(body).ok()?;
        Some(body.get("error")?.as_str()?.to_owned())
    };
    match protocol {
        Protocol::V1 => plain(&tag().unwrap_or_default()),
        Protocol::V0 => plain(text.split(':').next().unwrap_or_default()),
    }
}

/// A short text without anything that could be data of a user.
fn plain(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_uppercase() || b" _,'".contains(&byte);
    match text.trim() {
        "" => "without a reason".to_owned(),
        text if text.len() <= REASON_BYTES_MAX && text.bytes().all(is_plain) => text.to_owned(),
        _ => "for a reason that is not shown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ActivityEvent;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status,
            retry_after: Some(Duration::from_secs(7)),
            body: body.as_bytes().to_vec(),
        }
    }

    fn unavailable(says: &str) -> Verdict {
        Verdict::unavailable(says, Some(Duration::from_secs(7)))
    }

    fn check(protocol: Protocol, status: u16, body: &str, expected: Verdict) {
        let message = Message::of(&ActivityEvent::new("a", "v1"));
        let verdict = read(protocol, &answer(status, body), &[&message]);
        assert_eq!(verdict, expected, "{status} {body}");
    }

    fn tag(tag: &str) -> String {
        format!(r#"{{"error":"{tag}","error_description":"a@b.c"}}"#)
    }

    #[test]
    fn a_refused_batch_may_have_a_bad_event_or_be_too_large() {
        let bad = |says: &str| Verdict::Bad(says.to_owned());
        for reason in ["invalid_event_uuid", "request_parsing_error", "duplicate_event_uuid"] {
            check(Protocol::V1, 400, &tag(reason), bad(&format!("400: {reason}")));
        }
        check(Protocol::V1, 400, "<html>a@b.c", bad("400: without a reason"));
        let text = "failed to parse request: invalid type: string \"a@b.c\"";
        check(Protocol::V0, 400, text, bad("400: failed to parse request"));
        let large = Verdict::TooLarge("413: payload_too_large".to_owned());
        check(Protocol::V1, 413, &tag("payload_too_large"), large);
    }

    #[test]
    fn other_statuses_concern_the_whole_project() {
        for form in FORM_ERRORS {
            let says = format!("400: {form}; the form of the request is refused");
            check(Protocol::V1, 400, &tag(form), unavailable(&says));
        }
        for (status, says) in [
            (301, "301: redirects are not followed; set the new address as host"),
            (401, "401: the project API key is not accepted"),
            (402, "402: the project is over its quota"),
            (403, "403: x"),
            (408, "408: x"),
            (429, "429: x"),
            (500, "500: x"),
            (502, "502: x"),
            (504, "504: x"),
        ] {
            check(Protocol::V1, status, &tag("x"), unavailable(says));
        }
        let hidden = unavailable("503: for a reason that is not shown");
        check(Protocol::V0, 503, "a@b.c is too much", hidden);
        check(Protocol::V1, 404, "", Verdict::NotServed);
        check(Protocol::V1, 415, &tag("unsupported_encoding"), Verdict::NotReadable);
    }

    #[test]
    fn v0_takes_all_events_unless_it_names_a_quota() {
        let message = Message::of(&ActivityEvent::new("a", "v1"));
        let taken = || Verdict::Answered {
            answers: vec![SinkAnswer::Taken],
            warnings: 0,
            anomalies: 0,
        };
        let check = |body: &str, expected: Verdict| {
            assert_eq!(read(Protocol::V0, &answer(200, body), &[&message]), expected, "{body}");
        };
        check(r#"{"status":"Ok"}"#, taken());
        check(r#"{"status":1}"#, taken());
        check(r#"{"status":"Ok","quota_limited":["recordings"]}"#, taken());
        check(
            r#"{"status":"Ok","quota_limited":["events"]}"#,
            unavailable("402: the project is over its quota"),
        );
    }

    #[test]
    fn a_wait_is_limited() {
        let Verdict::Unavailable { after, .. } = Verdict::unavailable("x", Some(Duration::from_secs(86_400))) else {
            panic!("not unavailable");
        };
        assert_eq!(after, Some(AFTER_MAX));
    }
}
