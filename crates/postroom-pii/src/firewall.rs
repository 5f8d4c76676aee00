//! Cleans documents, texts and bytes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::key_name::{Treatment, is_identifier};
use crate::text::Search;
use crate::{Cleaned, Invalid, Keys, Kind, Removed, Rules};

/// The deepest nesting that is kept. JSON parsers refuse deeper documents.
const DEPTH_MAX: usize = 120;
/// The levels of JSON texts inside JSON texts that are cleaned by their keys.
const JSON_LEVELS_MAX: usize = 3;
/// Prose has at least as many words.
const PROSE_WORDS_MIN: usize = 12;

/// Removes personal data and secrets.
#[derive(Debug)]
pub struct Firewall {
    search: Search,
    prose_width_max: Option<usize>,
}

/// The place of a value in its document.
#[derive(Clone, Copy)]
struct Place<'a> {
    key: &'a str,
    depth: usize,
    /// How many texts with JSON are around the value.
    json_level: usize,
    /// Whether an object around the value is a review body.
    is_in_body: bool,
}

impl<'a> Place<'a> {
    fn root(json_level: usize) -> Self {
        Self {
            key: "",
            depth: 0,
            json_level,
            is_in_body: false,
        }
    }

    /// One level deeper. The items of an array have the key of the array.
    fn below(self, key: &'a str) -> Self {
        let depth = self.depth + 1;
        Self { key, depth, ..self }
    }

    fn in_body(self) -> Self {
        Self {
            is_in_body: true,
            ..self
        }
    }
}

impl Firewall {
    /// Checks the rules, and compiles them.
    pub fn new(rules: Rules, keys: Keys) -> Result<Self, Invalid> {
        Ok(Self {
            search: Search::new(&rules, keys)?,
            prose_width_max: rules.prose_width_max,
        })
    }

    /// The keys of the hashes.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.search.keys
    }

    /// A document that may be stored: fields with denied keys are gone, and findings in texts, keys and numbers are replaced by
    /// marks.
    #[must_use]
    pub fn clean(&self, mut value: Value) -> Cleaned<Value> {
        let mut removed = Removed::default();
        self.clean_value(&mut value, Place::root(0), &mut removed);
        Cleaned { value, removed }
    }

    /// A text that may be stored. A text that is JSON is cleaned like a document.
    #[must_use]
    pub fn clean_text(&self, text: &str) -> Cleaned<String> {
        let mut removed = Removed::default();
        let clean = self.clean_json_or_text(text, 0, &mut removed);
        let value = clean.unwrap_or_else(|| text.to_owned());
        Cleaned { value, removed }
    }

    /// Bytes that may be stored, such as a message that is no event. Bytes that are no UTF-8 are replaced by `U+FFFD`.
    #[must_use]
    pub fn clean_bytes(&self, bytes: &[u8]) -> Cleaned<Vec<u8>> {
        let Cleaned { value, removed } = self.clean_text(&String::from_utf8_lossy(bytes));
        Cleaned {
            value: value.into_bytes(),
            removed,
        }
    }

    fn clean_value(&self, value: &mut Value, place: Place<'_>, removed: &mut Removed) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(_) => self.clean_number(value, place, removed),
            Value::String(text) => {
                let clean = self.clean_string(text, place, removed);
                if let Some(clean) = clean {
                    *text = clean;
                }
            }
            Value::Array(_) | Value::Object(_) if place.depth >= DEPTH_MAX => {
                dismantle(std::mem::replace(value, mark(Kind::TooDeep)));
                removed.add(Kind::TooDeep);
            }
            Value::Array(items) => self.clean_array(items, place, removed),
            Value::Object(fields) => self.clean_object(fields, place, removed),
        }
    }

    fn clean_array(&self, items: &mut Vec<Value>, place: Place<'_>, removed: &mut Removed) {
        if let Some(kind) = self.split_number(items) {
            *items = vec![mark(kind)];
            removed.add(kind);
        }
        for item in items {
            self.clean_value(item, place.below(place.key), removed);
        }
    }

    fn clean_object(&self, fields: &mut Map<String, Value>, place: Place<'_>, removed: &mut Removed) {
        let mut denied = Vec::new();
        let mut renamed = Vec::new();
        for (key, value) in fields.iter_mut() {
            let below = place.below(key);
            let clean = self.search.clean(key, removed);
            match self.search.names.treatment(clean.as_deref().unwrap_or(key)) {
                Some(Treatment::Remove(kind)) if is_removed(kind, value) => denied.push((key.clone(), kind)),
                Some(Treatment::Remove(Kind::ReviewBody)) => self.clean_value(value, below.in_body(), removed),
                Some(Treatment::Hash(kind)) => self.hash_value(value, kind, below, removed),
                Some(Treatment::Remove(_)) | None => self.clean_value(value, below, removed),
            }
            renamed.extend(clean.map(|clean| (key.clone(), clean)));
        }
        for (key, kind) in denied {
            if let Some(value) = fields.remove(&key) {
                dismantle(value);
                removed.add(kind);
            }
        }
        rename(fields, renamed);
    }

    /// Replaces all texts and numbers of a value by their hashes.
    fn hash_value(&self, value: &mut Value, kind: Kind, place: Place<'_>, removed: &mut Removed) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Array(_) | Value::Object(_) if place.depth >= DEPTH_MAX => self.clean_value(value, place, removed),
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| self.hash_value(item, kind, place.below(place.key), removed)),
            Value::Object(fields) => {
                for (key, value) in fields.iter_mut() {
                    self.hash_value(value, kind, place.below(key), removed);
                }
                let keys = fields
                    .keys()
                    .filter_map(|key| Some((key.clone(), self.search.clean(key, removed)?)));
                let renamed = keys.collect();
                rename(fields, renamed);
            }
            Value::Number(number) => {
                *value = Value::String(self.search.keys.hash(&number.to_string()));
                removed.add(kind);
            }
            Value::String(text) if text.trim().is_empty() || Kind::is_mark(text) || self.search.keys.is_hash(text) => {}
            Value::String(text) => {
                *text = self.search.keys.hash(text);
                removed.add(kind);
            }
        }
    }

    fn clean_number(&self, value: &mut Value, place: Place<'_>, removed: &mut Removed) {
        let Some(digits) = digits(value) else { return };
        let findings = self.search.find(&digits, 0);
        let found = findings.first().map(|finding| finding.kind);
        let weak = || (is_mobile_without_zero(&digits) && !is_identifier(place.key)).then_some(Kind::Phone);
        if let Some(kind) = found.or_else(weak) {
            *value = mark(kind);
            removed.add(kind);
        }
    }

    fn clean_string(&self, text: &str, place: Place<'_>, removed: &mut Removed) -> Option<String> {
        let is_body = place.is_in_body && !text.trim().is_empty() && !is_identifier(place.key);
        let kind = if (is_body || self.is_prose(text)) && !Kind::is_mark(text) {
            Kind::ReviewBody
        } else if is_mobile_without_zero(text) && !is_identifier(place.key) {
            Kind::Phone
        } else {
            return self.clean_json_or_text(text, place.json_level, removed);
        };
        removed.add(kind);
        Some(kind.mark().to_owned())
    }

    /// `None`: the text is clean.
    fn clean_json_or_text(&self, text: &str, json_level: usize, removed: &mut Removed) -> Option<String> {
        let may_be_json = json_level < JSON_LEVELS_MAX && text.trim_start().starts_with(['{', '[', '"']);
        let value: Option<Value> = may_be_json.then(|| serde_json::from_str(text).ok()).flatten();
        // A parser keeps the last of several fields with one key. The text has all of them.
        let value = value.filter(|value| entries_of_text(text) == entries(value));
        match value {
            Some(value) => self.clean_json(value, json_level, removed),
            None => self.search.clean(text, removed),
        }
    }

    /// Cleans a text that is JSON by its keys.
    fn clean_json(&self, mut value: Value, json_level: usize, removed: &mut Removed) -> Option<String> {
        let mut inside = Removed::default();
        let place = Place::root(json_level + 1);
        self.clean_value(&mut value, place, &mut inside);
        removed.merge(&inside);
        (!inside.is_empty()).then(|| value.to_string())
    }

    fn is_prose(&self, text: &str) -> bool {
        let width = |c: char| if matches!(c, '가'..='힣') { 2 } else { 1 };
        self.prose_width_max.is_some_and(|max| {
            text.len() > max
                && text
                    .split_whitespace()
                    .filter(|word| word.chars().all(is_of_prose))
                    .count()
                    >= PROSE_WORDS_MIN
                && text.chars().map(width).sum::<usize>() > max
        })
    }

    /// The kind of a number whose groups are the texts of an array: `["010", "1234", "5678"]`.
    fn split_number(&self, items: &[Value]) -> Option<Kind> {
        let is_group = |text: &&str| (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if !matches!(items.len(), 2..=5) {
            return None;
        }
        let groups: Option<Vec<&str>> = items.iter().map(|item| item.as_str().filter(is_group)).collect();
        let findings = self.search.find(&groups?.join("-"), 0);
        findings.first().map(|finding| finding.kind)
    }
}

/// Whether a value goes away because of its key. A flag, and a number under the key of a review, cannot be personal data.
fn is_removed(kind: Kind, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(_) | Value::Object(_) => kind != Kind::ReviewBody,
        Value::String(text) => !text.trim().is_empty() && !Kind::is_mark(text),
        Value::Array(items) if kind == Kind::ReviewBody => {
            items.iter().any(|item| item.is_string() && is_removed(kind, item))
        }
        Value::Array(items) => !items.is_empty(),
    }
}

fn is_of_prose(c: char) -> bool {
    c.is_alphabetic()
        || matches!(
            c,
            '.' | ',' | '!' | '?' | '~' | '\'' | '’' | '"' | '…' | '-' | '(' | ')' | '^'
        )
}

/// `1012345678`: a Korean mobile number that lost its zero as a number.
fn is_mobile_without_zero(digits: &str) -> bool {
    digits.len() == 10 && digits.starts_with("10") && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The digits of a whole number.
fn digits(value: &Value) -> Option<String> {
    /// Beyond this, an `f64` has no exact digits.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if let Some(number) = value.as_u64() {
        return Some(number.to_string());
    }
    if let Some(number) = value.as_i64() {
        return Some(number.unsigned_abs().to_string());
    }
    let number = value.as_f64()?.abs();
    (number.fract() == 0.0 && number <= WHOLE_MAX).then(|| format!("{number:.0}"))
}

/// The number of fields in a JSON text: its colons outside of strings.
fn entries_of_text(text: &str) -> usize {
    let (mut entries, mut is_in_string, mut is_escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_in_string,
            b'"' => is_in_string = !is_in_string,
            b':' if !is_in_string => entries += 1,
            _ => {}
        }
    }
    entries
}

/// The number of fields in a parsed document, whose depth the parser has limited.
fn entries(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(entries).sum(),
        Value::Object(fields) => fields.len() + fields.values().map(entries).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn mark(kind: Kind) -> Value {
    Value::String(kind.mark().to_owned())
}

/// Gives fields new keys. A key that is taken gets a number: `[email] 2`.
fn rename(fields: &mut Map<String, Value>, renamed: Vec<(String, String)>) {
    let mut numbers = std::collections::HashMap::new();
    for (key, clean) in renamed {
        let Some(value) = fields.remove(&key) else { continue };
        let number = numbers.entry(clean.clone()).or_insert(1_u64);
        let mut free: Cow<'_, str> = Cow::Borrowed(&clean);
        while fields.contains_key(&*free) {
            *number += 1;
            free = Cow::Owned(format!("{clean} {number}"));
        }
        fields.insert(free.into_owned(), value);
    }
}

/// Drops a value level by level: a drop of deep values by recursion would overflow the stack.
fn dismantle(value: Value) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.into_iter().map(|(_, value)| value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
