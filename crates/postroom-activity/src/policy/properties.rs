//! Properties of client events: which are kept, and what every database can store.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The properties of one event, as JSON.
const BYTES_MAX: usize = 32 << 10;
/// Objects and lists within each other. MariaDB reads 32 levels.
const DEPTH_MAX: usize = 8;

/// Removes the properties that are not listed; returns their names.
pub(super) fn keep_listed(properties: &mut Map<String, Value>, listed: &BTreeSet<String>) -> Vec<String> {
    let unlisted = properties.keys().filter(|name| !listed.contains(*name));
    let removed: Vec<String> = unlisted.map(|name| format!("properties.{name}")).collect();
    properties.retain(|name, _| listed.contains(name));
    removed
}

/// Checks what a database would refuse or cut; the error says what is wrong.
pub(super) fn check(properties: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in properties {
        if depth(value) > DEPTH_MAX {
            return Err(format!("the property {name} has more than {DEPTH_MAX} levels"));
        }
        if has_nul(value) {
            return Err(format!("the property {name} contains a NUL character"));
        }
    }
    let bytes = serde_json::to_string(properties).map_or(0, |text| text.len());
    if bytes > BYTES_MAX {
        return Err(format!("the properties have {bytes} bytes, the limit is {BYTES_MAX}"));
    }
    Ok(())
}

/// At most the depth that the JSON reader allows, so the recursion has a bound.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_named() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |value, _| json!([value]));
        let check = |value: Value, words: &str| {
            let said = check(json!({ "p": value }).as_object().unwrap())
                .err()
                .unwrap_or_default();
            assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{said}");
        };
        check(nested(8), "");
        check(nested(9), "the property p has more than 8 levels");
        check(json!("x".repeat(32_000)), "");
        check(json!("x".repeat(32_768)), "the limit is 32768");
        check(json!({"a": ["b\0"]}), "the property p contains a NUL character");
        check(json!({"a\0": 1}), "the property p contains a NUL character");
    }
}
