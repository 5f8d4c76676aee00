//! Documents at the limits of what anyone can send.

use postroom_pii::Kind;
use serde_json::{Map, Value, json};

use crate::alone::SHAPES;
use crate::firewall;

fn nested(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(json!("kim@example.com"), |value, _| wrap(value))
}

fn array(value: Value) -> Value {
    Value::Array(vec![value])
}

fn field(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

#[test]
fn a_document_that_is_too_deep_is_cut_where_parsers_stop() {
    let firewall = firewall();
    for levels in [1_000, 200_000] {
        for wrap in [array, |value| field("a", value), |value| field("query", value)] {
            let cleaned = firewall.clean(nested(levels, wrap));
            assert_eq!(cleaned.removed.count(Kind::TooDeep), 1);
            let text = cleaned.value.to_string();
            assert!(text.contains("[too_deep]") && !text.contains("kim@"), "{text}");
            let again: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(firewall.clean(again).value, cleaned.value);
        }
    }
}

#[test]
fn a_deep_document_under_a_denied_key_goes_away_as_a_whole() {
    let cleaned = firewall().clean(field("password", nested(200_000, array)));
    assert_eq!(cleaned.value, json!({}));
}

#[test]
fn the_deepest_document_that_a_parser_takes_is_cleaned_inside() {
    let text = format!("{}\"kim@example.com\"{}", "[".repeat(119), "]".repeat(119));
    let cleaned = firewall().clean(serde_json::from_str(&text).unwrap());
    assert_eq!(cleaned.removed.count(Kind::Email), 1);
    assert_eq!(cleaned.removed.total(), 1);
}

#[test]
fn keys_of_a_megabyte_are_searched() {
    let mut fields = Map::new();
    fields.insert("k".repeat(1 << 20), json!("kim@example.com"));
    fields.insert(format!("{}kim@example.com", "k ".repeat(1 << 19)), json!(1));
    fields.insert(format!("{}Password", "k".repeat(1 << 20)), json!("hunter2"));
    let cleaned = firewall().clean(Value::Object(fields));
    let text = cleaned.value.to_string();
    assert!(!text.contains("kim@example.com") && !text.contains("hunter2"));
    assert_eq!(cleaned.value.as_object().unwrap().len(), 2);
}

#[test]
fn many_keys_that_clean_to_one_name_are_all_kept() {
    let fields: Map<String, Value> = (0..2_000)
        .map(|at| (format!("kim{at}@example.com"), json!(at)))
        .collect();
    let cleaned = firewall().clean(Value::Object(fields));
    let keys: Vec<_> = cleaned.value.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 2_000);
    assert!(keys.iter().all(|key| key.starts_with("[email]")), "{:?}", keys.first());
    assert_eq!(firewall().clean(cleaned.value.clone()).value, cleaned.value);
}

#[test]
fn numbers_of_any_size_are_taken() {
    let document = json!({
        "past": 9_007_199_254_740_993_u64, "max": u64::MAX, "min": i64::MIN, "huge": 1e308, "tiny": 5e-324, "minus": -0.0,
        "big": serde_json::from_str::<Value>("123456789012345678901234567890").unwrap(),
    });
    assert_eq!(firewall().clean(document.clone()).value, document);
}

#[test]
fn empty_and_strange_texts_are_taken() {
    for text in [
        "",
        " ",
        "\0",
        "\u{fffd}",
        "\u{10ffff}",
        "\u{202e}",
        "[",
        "]",
        "{",
        "\"",
        "%",
        "=",
        ":",
        "@",
        "+",
        "ᄀ",
        "[email]",
    ] {
        let document = json!({ text: text });
        assert_eq!(firewall().clean(document.clone()).value, document, "{text:?}");
    }
}

#[test]
fn a_text_that_is_too_long_is_removed_as_a_whole() {
    let cleaned = firewall().clean_text(&"a".repeat((16 << 20) + 1));
    assert_eq!(
        (cleaned.value.as_str(), cleaned.removed.count(Kind::TooLong)),
        ("[too_long]", 1)
    );
}

#[test]
fn every_bad_shape_is_clean_after_one_time() {
    let firewall = firewall();
    for shape in SHAPES {
        for times in [1, 2, 3, 5, 11, 300] {
            let once = firewall.clean_text(&shape.repeat(times)).value;
            let twice = firewall.clean_text(&once);
            assert_eq!(
                (twice.value.as_str(), twice.removed.total()),
                (once.as_str(), 0),
                "{times} × {shape:?}"
            );
        }
    }
}

#[test]
fn deep_json_in_texts_of_deep_json_is_cleaned() {
    let wrap = |inner: &str| format!("{}{inner}{}", "[".repeat(119), "]".repeat(119));
    let text = (0..4).fold("\"kim@example.com\"".to_owned(), |text, _| {
        wrap(&Value::String(wrap(&text)).to_string())
    });
    let cleaned = firewall().clean_text(&text);
    assert!(!cleaned.value.contains("kim@"), "{:?}", cleaned.removed);
    assert_eq!(firewall().clean_text(&cleaned.value).value, cleaned.value);
}
