//! Documents that hide personal data, and documents that have none. All of them are invented.

use serde_json::Value;

use crate::trace::trace;
use crate::{firewall, plain_firewall};

const HIDDEN: &str = include_str!("../corpus/hidden.jsonl");
const HARMLESS: &str = include_str!("../corpus/harmless.jsonl");

fn lines(file: &str) -> Vec<Value> {
    file.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn no_hidden_secret_survives_in_any_form() {
    let cases = lines(HIDDEN);
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let firewall = firewall();
    let mut survivors = Vec::new();
    for case in &cases {
        let secrets: Vec<&str> = case["secrets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|secret| secret.as_str().unwrap())
            .collect();
        assert!(!secrets.is_empty(), "{case}");
        let cleaned = firewall.clean(case["document"].clone());
        let found = secrets.iter().find(|secret| trace(&cleaned.value, secret).is_some());
        if let Some(secret) = found {
            survivors.push(format!("{}: {secret:?} in {}", case["case"], cleaned.value));
        } else if cleaned.removed.is_empty() {
            survivors.push(format!("{}: nothing was counted", case["case"]));
        }
    }
    assert!(
        survivors.is_empty(),
        "{} of {} survive:\n{}",
        survivors.len(),
        cases.len(),
        survivors.join("\n")
    );
}

#[test]
fn a_text_hides_no_more_than_a_document() {
    let firewall = firewall();
    let mut survivors = Vec::new();
    for case in lines(HIDDEN) {
        let text = case["document"].to_string();
        let bytes = firewall.clean_bytes(text.as_bytes()).value;
        let clean = Value::String(String::from_utf8(bytes).unwrap());
        let secrets = case["secrets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|secret| secret.as_str().unwrap());
        let found = secrets.into_iter().find(|secret| trace(&clean, secret).is_some());
        survivors.extend(found.map(|secret| format!("{}: {secret:?} in {clean}", case["case"])));
    }
    assert!(
        survivors.is_empty(),
        "{} survive:\n{}",
        survivors.len(),
        survivors.join("\n")
    );
}

#[test]
fn harmless_documents_stay_as_they_are() {
    let documents = lines(HARMLESS);
    assert!(documents.len() >= 400, "{} documents", documents.len());
    let firewall = plain_firewall();
    let cleaned = documents
        .iter()
        .map(|document| (document, firewall.clean(document.clone())));
    let changed: Vec<String> = cleaned
        .filter(|(document, cleaned)| **document != cleaned.value)
        .map(|(document, cleaned)| format!("{:?} {document}\n   → {}", cleaned.removed, cleaned.value))
        .collect();
    assert!(
        changed.len() * 100 <= documents.len(),
        "{} of {} changed:\n{}",
        changed.len(),
        documents.len(),
        changed.join("\n")
    );
}

#[test]
fn cleaned_documents_stay_as_they_are() {
    let firewall = firewall();
    for line in lines(HIDDEN) {
        let once = firewall.clean(line["document"].clone()).value;
        let twice = firewall.clean(once.clone());
        assert_eq!(twice.value, once, "{}", line["case"]);
        assert!(
            twice.removed.is_empty(),
            "{}: {:?} from {once}",
            line["case"],
            twice.removed
        );
    }
}
