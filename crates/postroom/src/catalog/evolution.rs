//! How an event's payload may change: fields may be added, and only ones that may be absent. Events live longer than code: old
//! ones wait in logs, archives and topics for new readers, new ones reach readers that are not deployed yet.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// A change that somebody's reader breaks on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which field, for example `lines[].quantity`.
    pub field: String,
    /// What happened to it.
    pub says: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.says)
    }
}

/// What breaks when payloads of the schema `before` become payloads of the schema `after`.
pub fn breaches(before: &Value, after: &Value) -> Vec<Breach> {
    let (before, after) = (fields(before), fields(after));
    let removed = before.iter().filter_map(|(path, was)| {
        let says = match after.get(path) {
            None => Some("was removed".to_owned()),
            Some(is) => changed(was, is),
        };
        says.map(|says| (path, says))
    });
    let added = after
        .iter()
        .filter(|(path, is)| is.is_required && !before.contains_key(*path) && has_parent(path, &before))
        .map(|(path, _)| {
            (
                path,
                "is new and must be optional: older events do not have it".to_owned(),
            )
        });
    let breach = |(path, says): (&String, String)| Breach {
        field: path.clone(),
        says,
    };
    removed.chain(added).map(breach).collect()
}

/// What a schema says about one field.
#[derive(Debug, PartialEq)]
struct Field {
    kind: Kind,
    is_required: bool,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// One of these values.
    OneOf(Vec<String>),
    /// Anything else, in words.
    Is(String),
}

fn changed(was: &Field, is: &Field) -> Option<String> {
    match (&was.kind, &is.kind) {
        (Kind::OneOf(before), Kind::OneOf(after)) => {
            let gone = before.iter().find(|value| !after.contains(value));
            if let Some(gone) = gone {
                return Some(format!("can no longer be {gone}"));
            }
        }
        (before, after) if before != after => return Some(format!("was {before} and is {after}")),
        _ => {}
    }
    match (was.is_required, is.is_required) {
        (true, false) => Some("was always there and may now be absent".to_owned()),
        (false, true) => Some("could be absent and must not any more: older events may not have it".to_owned()),
        _ => None,
    }
}

/// A field inside one that is new is as new as that.
fn has_parent(path: &str, before: &BTreeMap<String, Field>) -> bool {
    match path.rfind(['.', '[']) {
        Some(at) => path.get(..at).is_some_and(|parent| before.contains_key(parent)),
        None => true,
    }
}

/// Every field of a schema by its path.
fn fields(schema: &Value) -> BTreeMap<String, Field> {
    let mut fields = BTreeMap::new();
    walk(schema, "", &mut fields);
    fields
}

fn walk(schema: &Value, path: &str, fields: &mut BTreeMap<String, Field>) {
    let required = |name: &str| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|known| known == name))
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, inner) in properties.into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        add(inner, path, required(name), fields);
    }
    if let Some(items) = schema.get("items") {
        add(items, format!("{path}[]"), true, fields);
    }
}

fn add(schema: &Value, path: String, is_required: bool, fields: &mut BTreeMap<String, Field>) {
    let inner = not_null(schema);
    walk(inner, &path, fields);
    let kind = kind(schema, inner);
    fields.insert(path, Field { kind, is_required });
}

/// An optional struct is written as "this or null"; the struct is what it is about.
fn not_null(schema: &Value) -> &Value {
    let either = schema.get("anyOf").and_then(Value::as_array);
    let is_null = |one: &Value| one.get("type").is_some_and(|kind| kind == "null");
    match either.map(Vec::as_slice) {
        Some([one, null]) if is_null(null) => one,
        _ => schema,
    }
}

fn kind(schema: &Value, inner: &Value) -> Kind {
    let null = if std::ptr::eq(schema, inner) { "" } else { " or null" };
    if let Some(values) = inner.get("enum").and_then(Value::as_array) {
        return Kind::OneOf(values.iter().map(Value::to_string).collect());
    }
    let is_plain = inner.get("oneOf").is_none() && inner.get("anyOf").is_none() && inner.get("allOf").is_none();
    let format = inner
        .get("format")
        .and_then(Value::as_str)
        .map(|format| format!(" ({format})"));
    let words = match inner.get("type") {
        Some(Value::String(one)) if is_plain => one.clone(),
        Some(Value::Array(several)) if is_plain => {
            let names: Vec<&str> = several.iter().filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        _ => bare(inner).to_string(),
    };
    Kind::Is(format!("{words}{}{null}", format.unwrap_or_default()))
}

/// A schema without what only people read.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let kept = object
                .iter()
                .filter(|(key, _)| !matches!(key.as_str(), "description" | "title"));
            Value::Object(
                kept.map(|(key, value)| (key.clone(), bare(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(values) => Value::Array(values.iter().map(bare).collect()),
        other => other.clone(),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(values) => write!(f, "one of {}", values.join(", ")),
            Self::Is(words) => f.write_str(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::json;

    use super::breaches;
    use crate::catalog::event_type::schema_of;

    fn check(before: serde_json::Value, after: serde_json::Value, expected: &[&str]) {
        let found: Vec<String> = breaches(&before, &after).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{before} -> {after}");
    }

    fn object(properties: serde_json::Value, required: &[&str]) -> serde_json::Value {
        json!({ "type": "object", "properties": properties, "required": required })
    }

    #[test]
    fn fields_are_only_added() {
        let text = || json!({ "type": "string" });
        let before = || object(json!({ "a": text(), "b": text() }), &["a"]);
        check(before(), before(), &[]);
        check(
            before(),
            object(json!({ "a": text(), "b": text(), "c": text() }), &["a"]),
            &[],
        );
        check(
            before(),
            object(json!({ "a": text(), "b": text(), "c": text() }), &["a", "c"]),
            &["c is new and must be optional: older events do not have it"],
        );
        check(before(), object(json!({ "b": text() }), &[]), &["a was removed"]);
        check(
            before(),
            object(
                json!({ "a": { "type": "integer", "format": "int64" }, "b": text() }),
                &["a"],
            ),
            &["a was string and is integer (int64)"],
        );
        check(
            before(),
            object(json!({ "a": text(), "b": text() }), &[]),
            &["a was always there and may now be absent"],
        );
        check(
            before(),
            object(json!({ "a": text(), "b": text() }), &["a", "b"]),
            &["b could be absent and must not any more: older events may not have it"],
        );
        let described = json!({ "type": "string", "description": "now with words" });
        check(before(), object(json!({ "a": described, "b": text() }), &["a"]), &[]);
    }

    #[test]
    fn a_value_that_could_be_stays_possible() {
        let one_of = |values: &[&str]| object(json!({ "a": { "type": "string", "enum": values } }), &["a"]);
        check(one_of(&["x"]), one_of(&["x", "y"]), &[]);
        check(one_of(&["x", "y"]), one_of(&["y"]), &["a can no longer be \"x\""]);
    }

    #[expect(dead_code, reason = "only their shape is asked for")]
    #[test]
    fn what_is_nested_counts() {
        #[derive(JsonSchema)]
        struct Before {
            lines: Vec<Line>,
            address: Option<Address>,
        }
        #[derive(JsonSchema)]
        struct Line {
            quantity: u32,
        }
        #[derive(JsonSchema)]
        struct Address {
            city: String,
        }
        mod after {
            use schemars::JsonSchema;
            #[derive(JsonSchema)]
            pub(super) struct After {
                lines: Vec<Line>,
                address: Option<Address>,
                note: Option<String>,
            }
            #[derive(JsonSchema)]
            struct Line {
                quantity: u64,
            }
            #[derive(JsonSchema)]
            struct Address {
                town: String,
            }
        }
        let before = schema_of::<Before>().to_value();
        let after = schema_of::<after::After>().to_value();
        check(
            before,
            after,
            &[
                "address.city was removed",
                "lines[].quantity was integer (uint32) and is integer (uint64)",
                "address.town is new and must be optional: older events do not have it",
            ],
        );
    }
}
