//! Looks for a secret in a document, in every normalised or decoded form. It shares no code with the firewall.

use std::collections::BTreeSet;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

/// The form in which a secret is still there.
pub(crate) fn trace(document: &Value, secret: &str) -> Option<String> {
    let secret = plain(secret);
    let forms = forms(document);
    forms.into_iter().find(|form| form.contains(&secret))
}

/// All readings of a document.
pub(crate) fn forms(document: &Value) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([plain(&document.to_string())]);
    let mut texts = Vec::new();
    collect(document, &mut texts);
    for text in texts {
        add_forms(&text, 2, &mut forms);
    }
    forms
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(fields) => {
            for (key, value) in fields {
                texts.push(key.clone());
                collect(value, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => texts.push(value.to_string()),
    }
}

fn add_forms(text: &str, levels: usize, forms: &mut BTreeSet<String>) {
    let once = percent_decoded(text);
    let twice = percent_decoded(&once);
    for text in [text, &once, &twice, &percent_decoded(&plain(&twice))] {
        let is_new = forms.insert(plain(text));
        if levels > 0 && is_new {
            for decoded in base64_decoded(text) {
                add_forms(&decoded, levels - 1, forms);
            }
        }
    }
}

/// NFKC in lower case, without characters that nobody sees.
pub(crate) fn plain(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization;
    let is_hidden =
        |c: char| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}');
    let visible: String = text.nfkc().filter(|c| !is_hidden(*c)).collect();
    visible.to_lowercase()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let pair = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let decoded = pair
            .filter(|_| *first == b'%')
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn base64_decoded(text: &str) -> Vec<String> {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let joined: String = text.split(['\r', '\n']).collect();
    let mut decoded = Vec::new();
    for (alphabet, extra) in [(&STANDARD, "+/"), (&URL_SAFE, "-_")] {
        let engine = GeneralPurpose::new(alphabet, config);
        let is_run = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
        let runs = joined
            .split(|c| !is_run(c))
            .chain(joined.split(|c: char| !c.is_ascii_alphanumeric()));
        for run in runs.filter(|run| run.len() >= 8) {
            let length = if run.len() % 4 == 1 { run.len() - 1 } else { run.len() };
            let bytes = engine.decode(&run[..length]);
            decoded.extend(bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()));
        }
    }
    decoded
}

#[test]
fn a_secret_is_found_in_every_form() {
    use serde_json::json;
    for document in [
        json!({"x": "KIM@example.com"}),
        json!({"kim@example.com": 1}),
        json!(["ｋｉｍ@example.com"]),
        json!("k\u{200b}im%2540example.com"),
        json!("/u/a2ltQGV4YW1wbGUuY29t"),
        json!("YTJsdFFHVjRZVzF3YkdVdVkyOXQ="),
    ] {
        assert!(trace(&document, "kim@example.com").is_some(), "{document}");
    }
    assert_eq!(trace(&json!("[email] kim"), "kim@example.com"), None);
}
