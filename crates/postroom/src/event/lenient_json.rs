//! JSON as a row has it. A program in another language may store what a database takes for JSON and Rust does not; no row may
//! stop a worker.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::error::Result;
use crate::event::Headers;

/// The payload as it was stored. Text that is not JSON becomes a JSON string; the receiver can refuse it.
pub fn payload(text: &str) -> Result<Box<RawValue>> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(payload) => Ok(payload.to_owned()),
        Err(error) => {
            tracing::warn!(%error, "a payload is not JSON; delivering its text as a JSON string");
            Ok(to_raw_value(text)?)
        }
    }
}

/// The headers as they were stored. Values that are no strings become their JSON text; what cannot be read is left out.
pub fn headers(text: &str) -> Headers {
    serde_json::from_str(text).unwrap_or_else(|_| {
        let values: Map<String, Value> = serde_json::from_str(text).unwrap_or_else(|error| {
            tracing::warn!(%error, "headers cannot be read; delivering the event without them");
            Map::new()
        });
        let text = |value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        values.into_iter().map(|(name, value)| (name, text(value))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_only_the_database_takes_for_json_still_comes_through() {
        let check = |stored: &str, expected: &str| assert_eq!(payload(stored).unwrap().get(), expected);
        check(r#"{"a":  1.0}"#, r#"{"a":  1.0}"#);
        check("1.", r#""1.""#);
        check(r#""\q""#, r#""\"\\q\"""#);
    }

    #[test]
    fn headers_of_other_languages_become_text() {
        let check = |stored: &str, expected: &[(&str, &str)]| {
            let expected: Headers = expected
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect();
            assert_eq!(headers(stored), expected);
        };
        check(r#"{"a":"b"}"#, &[("a", "b")]);
        check(
            r#"{"a":1,"b":"c","d":{"e":null}}"#,
            &[("a", "1"), ("b", "c"), ("d", r#"{"e":null}"#)],
        );
        check("[1]", &[]);
        check(r#"{"a":"\ud800"}"#, &[]); // half a character, as JavaScript cuts strings
    }
}
