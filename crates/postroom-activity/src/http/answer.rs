//! The answer to a request: a result for each event.

use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::ingest::{Answer, Answered, ById};
use crate::policy::Drop;

/// When events are to be sent again, in seconds.
const RETRY_AFTER: u16 = 5;

/// The results of one request.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// The result of each event, by its id, in the order of the request.
    #[serde(serialize_with = "as_map")]
    results: Vec<(String, Item)>,
    /// Items that have no id of their own: none that can be used, or one that an earlier item with other content has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<Rejected>,
}

/// The result of one event.
#[derive(Debug, Serialize)]
struct Item {
    result: &'static str,
    /// The reason for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'static str>,
    /// The reason for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Fields and properties that were not stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
}

/// An item of the request that has no result under its id.
#[derive(Debug, Serialize)]
struct Rejected {
    /// Its place in the request, from 0.
    index: usize,
    #[serde(flatten)]
    item: Item,
}

impl Results {
    pub(super) fn of(answers: Vec<Answered>) -> Self {
        let ById { results, apart } = ById::of(answers);
        let rejected = |(index, answer): (usize, Answer)| Rejected {
            index,
            item: answer.into(),
        };
        Self {
            results: results.into_iter().map(|(id, answer)| (id, answer.into())).collect(),
            rejected: apart.into_iter().map(rejected).collect(),
        }
    }
}

impl From<Answer> for Item {
    fn from(answer: Answer) -> Self {
        let item = |result: &'static str, details: Option<&'static str>| Self {
            result,
            details,
            message: None,
            removed: Vec::new(),
        };
        match answer {
            Answer::Ok { removed } if removed.is_empty() => item("ok", None),
            Answer::Ok { removed } => Self {
                removed,
                ..item("ok", Some("not_in_catalogue"))
            },
            Answer::Duplicate => item("duplicate", None),
            Answer::Dropped(reason) => Self {
                message: reason.message().map(str::to_owned),
                ..item("drop", Some(Drop::details(&reason)))
            },
            Answer::Retry => item("retry", Some("not_persisted")),
        }
    }
}

impl IntoResponse for Results {
    fn into_response(self) -> Response {
        let has_retry = self.results.iter().any(|(_, item)| item.result == "retry");
        let mut response = Json(self).into_response();
        if has_retry {
            let seconds = HeaderValue::from(RETRY_AFTER);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

fn as_map<S: Serializer>(results: &[(String, Item)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(results.len()))?;
    for (event_id, item) in results {
        map.serialize_entry(event_id, item)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_request() {
        let answered = |id: Option<&str>, answer: Answer| Answered {
            event_id: id.map(str::to_owned),
            answer,
        };
        let results = Results::of(vec![
            answered(Some("b"), Answer::Duplicate),
            answered(None, Answer::Dropped(Drop::MissingEventId)),
            answered(
                Some("a"),
                Answer::Ok {
                    removed: vec!["properties.x".to_owned()],
                },
            ),
            answered(Some("c"), Answer::Dropped(Drop::Malformed("no".to_owned()))),
        ]);
        let text = serde_json::to_string(&results).unwrap();
        let expected = concat!(
            r#"{"results":{"b":{"result":"duplicate"},"#,
            r#""a":{"result":"ok","details":"not_in_catalogue","removed":["properties.x"]},"#,
            r#""c":{"result":"drop","details":"malformed_event","message":"no"}},"#,
            r#""rejected":[{"index":1,"result":"drop","details":"missing_event_id","#,
        );
        assert!(text.starts_with(expected), "{text}");
        assert!(!results.into_response().headers().contains_key(header::RETRY_AFTER));
    }

    #[test]
    fn a_retry_says_when() {
        let answer = Answered {
            event_id: Some("a".to_owned()),
            answer: Answer::Retry,
        };
        let response = Results::of(vec![answer]).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "5");
    }
}
