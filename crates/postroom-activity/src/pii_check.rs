//! Shows operators who try the rules of the PII firewall what it would remove from a file. It does not show the removed values.

use postroom_pii::{Cleaned, Firewall, Removed};
use serde::Serialize;
use serde_json::{Map, Value};

/// The place of a text that is no document.
const TEXT: &str = "text";

/// The result for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Lines that were read; a file that is one JSON document has one.
    pub lines: usize,
    /// Everything that would be removed or hashed, in the order of the file.
    pub found: Vec<Found>,
}

/// Something that would be removed or hashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The line, from 1.
    pub line: usize,
    /// The path of the field, or `text`. Personal data in keys is left out.
    pub place: String,
    /// The kind, such as `email`.
    pub kind: &'static str,
    /// How many of this kind are at this place.
    pub count: u64,
}

impl Checked {
    /// How many values would be removed or hashed.
    pub fn total(&self) -> u64 {
        self.found.iter().map(|found| found.count).sum()
    }
}

/// Checks a file: one JSON document, or lines that are JSON documents or texts.
pub fn check(firewall: &Firewall, content: &str) -> Checked {
    let lines: Vec<&str> = match serde_json::from_str::<Value>(content) {
        Ok(_document) => vec![content],
        Err(_several) => content.lines().collect(),
    };
    let mut checked = Checked {
        lines: lines.len(),
        found: Vec::new(),
    };
    for (at, text) in lines.into_iter().enumerate() {
        let found = match serde_json::from_str::<Value>(text) {
            Ok(document @ (Value::Object(_) | Value::Array(_))) => look(firewall, "", "", &document),
            _ => vec![(TEXT.to_owned(), firewall.clean_text(text).removed)],
        };
        for (place, removed) in found {
            checked.found.extend(removed.iter().map(|(kind, count)| Found {
                line: at + 1,
                place: place.clone(),
                kind: kind.name(),
                count,
            }));
        }
    }
    checked
}

/// The innermost places that account for everything that is removed from a value. Its parser has limited its depth.
fn look(firewall: &Firewall, path: &str, key: &str, value: &Value) -> Vec<(String, Removed)> {
    let here = removed(firewall, key, value);
    if here.is_empty() {
        return Vec::new();
    }
    let inside: Vec<(String, Removed)> = match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| {
                let name = firewall.clean_text(key).value;
                let dot = if path.is_empty() { "" } else { "." };
                look(firewall, &format!("{path}{dot}{name}"), key, value)
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(at, item)| look(firewall, &format!("{path}[{at}]"), key, item))
            .collect(),
        _ => Vec::new(),
    };
    let mut sum = Removed::default();
    inside.iter().for_each(|(_, removed)| sum.merge(removed));
    match sum == here {
        true => inside,
        // The firewall removes more from the whole value than from its parts: the key is denied, or a number is spread over several
        // parts.
        false => vec![(if path.is_empty() { TEXT } else { path }.to_owned(), here)],
    }
}

/// Counts, by kind, what the firewall removes from a value under its key.
fn removed(firewall: &Firewall, key: &str, value: &Value) -> Removed {
    let document = match key {
        "" => value.clone(),
        _ => Value::Object(Map::from_iter([(key.to_owned(), value.clone())])),
    };
    let Cleaned { removed, .. } = firewall.clean(document);
    removed
}

#[cfg(test)]
mod tests {
    use postroom_pii::{Keys, Rules};

    use super::*;

    fn found(content: &str) -> Vec<String> {
        let keys = Keys::new("k1", b"an invented secret that only tests use").unwrap();
        let firewall = Firewall::new(Rules::default(), keys).unwrap();
        let checked = check(&firewall, content);
        let found = checked.found.iter();
        found
            .map(|found| format!("{} {} {} {}", found.line, found.place, found.kind, found.count))
            .collect()
    }

    #[test]
    fn places_are_innermost_and_account_for_everything() {
        let document = r#"{"properties": {"email": "kim@example.com", "items": [{"n": 1}, {"memo": "010-1234-5678 kim@example.com"}],
            "kim@example.com": 1, "number": ["010", "1234", "5678"], "comments": ["맛있어요", "또 올게요"]}}"#;
        assert_eq!(
            found(document),
            [
                "1 properties.comments review_body 1",
                "1 properties.email email 1",
                "1 properties.items[1].memo email 1",
                "1 properties.items[1].memo phone 1",
                "1 properties.[email] email 1",
                "1 properties.number phone 1",
            ]
        );
    }

    #[test]
    fn lines_are_documents_or_texts() {
        let lines = "{\"query\": \"국밥\"}\nnothing\n\ncall 010-1234-5678\n\"kim@example.com\"\n{\"broken\": \"kim@example.com\"";
        assert_eq!(
            found(lines),
            [
                "1 query keyword 1",
                "4 text phone 1",
                "5 text email 1",
                "6 text email 1"
            ]
        );
        assert_eq!(found(""), Vec::<String>::new());
        assert_eq!(found(r#"["kim@example.com"]"#), ["1 [0] email 1"]);
    }
}
