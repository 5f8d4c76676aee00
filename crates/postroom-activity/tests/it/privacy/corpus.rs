//! The corpus of the firewall's own tests.

use std::sync::LazyLock;

use postroom_activity::ActivityEvent;
use serde_json::{Map, Value};

use super::trace::{forms, plain};

const HIDDEN: &str = include_str!("../../../../postroom-pii/tests/corpus/hidden.jsonl");
const HARMLESS: &str = include_str!("../../../../postroom-pii/tests/corpus/harmless.jsonl");

/// Keys that say nothing about their values.
const NEUTRAL: [&str; 8] = ["x", "url", "path", "href", "link", "note", "label", "log"];
/// Fields of an event take no longer texts.
const TEXT_MAX: usize = 100;
/// Shorter numbers can be a part of any other number.
const DIGITS_MIN: usize = 9;

/// A document that hides personal data.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) number: usize,
    pub(crate) document: Value,
    pub(crate) secrets: Vec<String>,
    /// The text of the document, if it hides the data by itself.
    pub(crate) text: Option<String>,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let lines = HIDDEN.lines().enumerate();
    lines.map(|(number, line)| read(number, line)).collect()
});

/// All cases.
pub(crate) fn hidden() -> &'static [Case] {
    &CASES
}

/// Secrets that are secret wherever they are, in their plain form: no document has them for something harmless.
pub(crate) static SECRETS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let documents: Vec<(&Case, String)> = hidden()
        .iter()
        .map(|case| (case, forms(&case.document).into_iter().collect::<Vec<_>>().join("\n")))
        .collect();
    let is_of = |case: &Case, secret: &str| case.secrets.iter().any(|own| plain(own).contains(secret));
    let is_harmless_elsewhere = |secret: &str| {
        documents
            .iter()
            .any(|(case, forms)| forms.contains(secret) && !is_of(case, secret))
    };
    let is_short_number =
        |secret: &str| secret.len() < DIGITS_MIN && secret.chars().all(|c| c.is_ascii_digit() || c == '-');
    let all = hidden()
        .iter()
        .flat_map(|case| &case.secrets)
        .map(|secret| plain(secret));
    let mut secrets: Vec<String> = all
        .filter(|secret| !is_short_number(secret) && !is_harmless_elsewhere(secret))
        .collect();
    secrets.sort();
    secrets.dedup();
    assert!(secrets.len() >= 100, "{}", secrets.len());
    secrets
});

/// Events without personal data, as they are stored.
pub(crate) fn harmless() -> Vec<ActivityEvent> {
    let read = |(number, line): (usize, &str)| {
        let document: Map<String, Value> = serde_json::from_str(line).unwrap();
        let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut event = ActivityEvent::new(text("event_name").unwrap_or_default(), "v1");
        event.event_id = text("event_id").unwrap_or_else(|| format!("harmless-{number}"));
        event.occurred_at = event.occurred_at.truncate_to_millisecond();
        event.anonymous_id = text("anonymous_id");
        event.session_id = text("session_id");
        event.device_id = text("device_id");
        event.platform = text("platform");
        event.app_version = text("app_version");
        event.locale = text("locale");
        event.request_path = text("request_path");
        event.properties = match document.get("properties") {
            Some(Value::Object(properties)) => properties.clone(),
            _ => document,
        };
        event
    };
    let events = HARMLESS.lines().enumerate().map(read);
    events.filter(|event| event.check().is_ok()).collect()
}

fn read(number: usize, line: &str) -> Case {
    let case: Value = serde_json::from_str(line).unwrap();
    let document = case["document"].clone();
    let secrets = case["secrets"].as_array().unwrap().iter();
    let fields = document.as_object().filter(|fields| fields.len() == 1);
    let only = fields.and_then(|fields| fields.iter().next());
    let text = only
        .filter(|(key, _)| NEUTRAL.contains(&key.as_str()))
        .and_then(|(_, value)| value.as_str())
        .filter(|text| text.chars().count() <= TEXT_MAX && !text.contains('\0') && !is_id(text));
    Case {
        number,
        secrets: secrets.map(|secret| secret.as_str().unwrap().to_owned()).collect(),
        text: text.map(str::to_owned),
        document,
    }
}

/// Ten digits may be an id: as the value of an id they stay.
fn is_id(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit())
}
