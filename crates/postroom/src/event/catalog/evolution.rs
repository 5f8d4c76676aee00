//! How an event's payload may change: fields may be added, and only ones that may be absent. Events live longer than code: old
//! ones wait in logs, archives and topics for new readers, new ones reach readers that are not deployed yet.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// A change that somebody's reader breaks on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which field, for example `lines[].quantity`; nothing for the payload itself.
    pub field: String,
    /// The change.
    pub says: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() {
            "the payload"
        } else {
            &self.field
        };
        write!(f, "{field} {}", self.says)
    }
}

/// The breaking changes when payloads of the schema `before` become payloads of the schema `after`.
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

/// The rules of a schema for one field.
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
    match path.rfind(['.', '[', '<']) {
        Some(at) => path.get(..at).is_some_and(|parent| before.contains_key(parent)),
        None => true,
    }
}

/// Every field of a schema by its path, and the payload itself.
fn fields(schema: &Value) -> BTreeMap<String, Field> {
    let mut fields = BTreeMap::new();
    add(schema, String::new(), true, &mut fields);
    fields
}

/// The parts: the fields of an object, the values of a map, the places of a list, the shapes of a choice.
fn walk(schema: &Value, path: &str, fields: &mut BTreeMap<String, Field>) {
    let required = |name: &str| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|known| known == name))
    };
    let dot = if path.is_empty() { "" } else { "." };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, inner) in properties.into_iter().flatten() {
        add(inner, format!("{path}{dot}{name}"), required(name), fields);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        add(values, format!("{path}{dot}*"), true, fields);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        add(items, format!("{path}[]"), true, fields);
    }
    let places = schema.get("prefixItems").and_then(Value::as_array);
    for (at, place) in places.into_iter().flatten().enumerate() {
        add(place, format!("{path}[{at}]"), true, fields);
    }
    if values(schema).is_none() {
        for shape in choice(schema) {
            add(shape, format!("{path}<{}>", shape_name(shape)), false, fields);
        }
    }
}

/// The shapes of which it has one, if there are several.
fn choice(schema: &Value) -> impl Iterator<Item = &Value> {
    let shapes = schema.get("oneOf").or_else(|| schema.get("anyOf"));
    shapes.and_then(Value::as_array).into_iter().flatten()
}

/// The mark that distinguishes a shape from the others: its value, its tag, the one field it has, or its type.
fn shape_name(shape: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let properties = shape.get("properties").and_then(Value::as_object);
    let tag = || properties?.values().find_map(|inner| inner.get("const"));
    let only = || {
        let mut names = properties?.keys();
        names.next().filter(|_| names.next().is_none())
    };
    let value = shape.get("const").or_else(tag).map(text);
    let kind = || shape.get("type").and_then(Value::as_str).map(str::to_owned);
    let name = value.or_else(|| only().cloned()).or_else(kind);
    name.unwrap_or_else(|| bare(shape).to_string())
}

/// The values of which it has one, however they are written: in a row, or each with words of its own.
fn values(schema: &Value) -> Option<Vec<String>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(values.iter().map(Value::to_string).collect());
    }
    if let Some(value) = schema.get("const") {
        return Some(vec![value.to_string()]);
    }
    let each: Option<Vec<Vec<String>>> = choice(schema).map(values).collect();
    each.map(|each| each.concat()).filter(|values| !values.is_empty())
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
    if let Some(values) = values(inner) {
        return Kind::OneOf(values);
    }
    let format = inner
        .get("format")
        .and_then(Value::as_str)
        .map(|format| format!(" ({format})"));
    let words = match inner.get("type") {
        _ if choice(inner).next().is_some() => "one of several shapes".to_owned(),
        Some(Value::String(one)) => one.clone(),
        Some(Value::Array(several)) => {
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
    use crate::event::catalog::event_type::schema_of;

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
        let told = json!({ "oneOf": [{ "const": "x", "description": "with words" }, { "const": "y" }] });
        check(one_of(&["x"]), object(json!({ "a": told }), &["a"]), &[]);
        check(
            object(json!({ "a": told }), &["a"]),
            one_of(&["x"]),
            &["a can no longer be \"y\""],
        );
    }

    #[expect(dead_code, reason = "only their shape is asked for")]
    #[test]
    fn what_is_no_struct_counts_too() {
        #[derive(JsonSchema)]
        #[serde(tag = "kind")]
        enum Before {
            Paid { amount: u32 },
            Refused { code: String },
        }
        #[derive(JsonSchema)]
        #[serde(tag = "kind")]
        enum After {
            Paid { amount: String },
            Late { since: u32 },
        }
        let schemas = (schema_of::<Before>().to_value(), schema_of::<After>().to_value());
        let expected = [
            "<Paid>.amount was integer (uint32) and is string",
            "<Refused> was removed",
            "<Refused>.code was removed",
            "<Refused>.kind was removed",
        ];
        check(schemas.0, schemas.1, &expected);
        let map = |values| json!({ "type": "object", "additionalProperties": { "type": values } });
        check(map("integer"), map("string"), &["* was integer and is string"]);
        let pair = |second| json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": second }] });
        check(pair("integer"), pair("string"), &["[1] was integer and is string"]);
        check(
            json!({ "type": "string" }),
            map("string"),
            &[
                "the payload was string and is object",
                "* is new and must be optional: older events do not have it",
            ],
        );
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
