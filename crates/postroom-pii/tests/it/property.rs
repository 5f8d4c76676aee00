//! Properties of all documents: cleaning twice changes nothing more, and an injected secret never survives.

use std::sync::LazyLock;

use postroom_pii::Firewall;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::firewall;
use crate::trace::trace;

static FIREWALL: LazyLock<Firewall> = LazyLock::new(firewall);

/// Pieces that detectors and decoders care about.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "[가-힣0-9 .@-]{0,10}",
        "[공일이삼사0-9 -]{0,14}",
        "\\PC{0,6}",
        "[A-Za-z0-9+/=_-]{0,24}",
        prop::sample::select(vec![
            "kim@example.com",
            "010-1234-5678",
            "4111111111111111",
            "900101-1234567",
            "token=",
            "password: ",
            "\"content\":",
            "query=",
            "email",
            "[email]",
            "[phone]",
            "[token]",
            "%40",
            "%25",
            "\\u0040",
            "&#64;",
            "a2ltQGV4YW1wbGUuY29t",
            "eyJhbGciOiJub25l.eyJzdWIiOi",
            "Bearer ",
            "://",
            "&",
            "?",
            "+82",
            "골뱅이",
            " (at) ",
            "\u{200b}",
            "{\"a\":\"",
            "\"}",
            "h:k1:00000000000000000000000000000000",
            "비밀번호는 ",
        ])
        .prop_map(str::to_owned),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..6).prop_map(|pieces| pieces.concat())
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::String),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::hash_map(
                prop_oneof![text(), "email|content|query|ip|memberId|token"],
                inner.clone(),
                0..5
            )
            .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            inner.prop_map(|value| Value::String(value.to_string())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cleaning_a_text_twice_changes_nothing_more(text in text()) {
        let once = FIREWALL.clean_text(&text).value;
        let twice = FIREWALL.clean_text(&once);
        prop_assert_eq!(&twice.value, &once);
        prop_assert!(twice.removed.is_empty(), "{:?} in {:?}", twice.removed, once);
    }

    #[test]
    fn cleaning_a_document_twice_changes_nothing_more(document in document()) {
        let once = FIREWALL.clean(document).value;
        let twice = FIREWALL.clean(once.clone());
        prop_assert_eq!(&twice.value, &once);
        prop_assert!(twice.removed.is_empty(), "{:?} in {}", twice.removed, once);
    }

    #[test]
    fn cleaning_bytes_twice_changes_nothing_more(bytes in prop::collection::vec(any::<u8>(), 0..200), text in text()) {
        let once = FIREWALL.clean_bytes(&[bytes.as_slice(), text.as_bytes()].concat()).value;
        prop_assert_eq!(&FIREWALL.clean_bytes(&once).value, &once);
    }

    #[test]
    fn an_unchanged_document_counts_nothing_and_a_changed_one_counts_something(document in document()) {
        let cleaned = FIREWALL.clean(document.clone());
        prop_assert_eq!(cleaned.removed.is_empty(), cleaned.value == document, "{:?}", cleaned.removed);
    }

    #[test]
    fn an_injected_secret_never_survives(before in "[가-힣 ,.!?(]{0,9}", after in "[ 가-힣,!?)]{0,9}", key in "[a-z]{1,8}") {
        for secret in ["kim@example.com", "010-9876-5432", "5555-5555-5555-4444", "880704-5123456", "Bearer zzzz9999yyyy"] {
            let text = format!("{before} {secret} {after}");
            let documents = [
                json!({ &key: text }), json!([[text]]), json!({ &text: 1 }), json!(json!({ &key: text }).to_string()),
            ];
            for document in documents {
                let cleaned = FIREWALL.clean(document).value;
                prop_assert_eq!(trace(&cleaned, secret), None, "{}", cleaned);
            }
        }
    }
}
