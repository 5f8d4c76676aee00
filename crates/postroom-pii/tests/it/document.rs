//! Documents before and after.

use postroom_pii::{ClientMode, Firewall, KeywordMode, Kind, Rules};
use serde_json::{Value, json};

use crate::{firewall, keys};

fn check(document: Value, expected: Value) {
    assert_eq!(firewall().clean(document.clone()).value, expected, "{document}");
}

#[test]
fn denied_fields_go_away_and_findings_in_texts_become_marks() {
    let cleaned = firewall().clean(json!({
        "memberId": 7,
        "email": "kim@example.com",
        "memo": "전화번호는 010-1234-5678이에요",
        "who": {"kim@example.com": true, "lee@example.com": false},
        "card": 4_111_111_111_111_111_u64,
    }));
    let expected = json!({
        "memberId": 7,
        "memo": "전화번호는 [phone]이에요",
        "who": {"[email]": true, "[email] 2": false},
        "card": "[card]",
    });
    assert_eq!(cleaned.value, expected);
    let counts: Vec<_> = cleaned.removed.iter().collect();
    assert_eq!(counts, [(Kind::Email, 3), (Kind::Phone, 1), (Kind::Card, 1)]);
    assert_eq!(
        format!("{:?}", cleaned.removed),
        r#"{"email": 3, "phone": 1, "card": 1}"#
    );
}

#[test]
fn flags_nulls_and_empty_values_of_denied_keys_stay() {
    let document =
        json!({"email": null, "phone": "", "token": true, "comments": 12, "content": [], "review": {"id": 7}});
    check(document.clone(), document);
}

#[test]
fn objects_of_a_review_keep_only_identifiers() {
    check(
        json!({"review": {"id": 7, "createdAt": "2026-02-18", "text": "맛있어요", "author": {"memberId": 3, "nick": "홍"}}}),
        json!({"review": {"id": 7, "createdAt": "2026-02-18", "text": "[review_body]", "author": {"memberId": 3, "nick": "[review_body]"}}}),
    );
}

#[test]
fn search_words_are_hashed_wherever_they_stand() {
    let hash = keys().hash("강남 맛집");
    check(json!({"query": " 강남  맛집 "}), json!({ "query": hash }));
    check(
        json!({"keywords": ["강남 맛집", "", null]}),
        json!({"keywords": [hash, "", null]}),
    );
    check(
        json!({"query": {"text": "강남 맛집"}}),
        json!({"query": {"text": hash}}),
    );
    check(json!({"query": 24}), json!({ "query": keys().hash("24") }));
    for encoded in [
        "%EA%B0%95%EB%82%A8+%EB%A7%9B%EC%A7%91",
        "%EA%B0%95%EB%82%A8%20%EB%A7%9B%EC%A7%91",
        "강남 맛집",
    ] {
        check(
            json!({ "url": format!("https://shop.example/search?q={encoded}&page=2") }),
            json!({ "url": format!("https://shop.example/search?q={hash}&page=2") }),
        );
    }
    check(
        json!({ "raw": r#"{"keyword":"강남 맛집","n":1}"# }),
        json!({ "raw": format!(r#"{{"keyword":"{hash}","n":1}}"#) }),
    );
}

#[test]
fn modes_drop_or_keep_search_words_and_hash_clients() {
    let clean = |rules: Rules, document: Value| Firewall::new(rules, keys()).unwrap().clean(document);
    let document = json!({"query": "국밥 010-1234-5678", "url": "/search?q=국밥&page=2"});
    let dropped = clean(Rules::default().keywords(KeywordMode::Drop), document.clone());
    assert_eq!(dropped.value, json!({"url": "/search?q=[keyword]&page=2"}));
    assert_eq!(dropped.removed.count(Kind::Keyword), 2);
    let plain = clean(Rules::default().keywords(KeywordMode::Plain), document);
    assert_eq!(
        plain.value,
        json!({"query": "국밥 [phone]", "url": "/search?q=국밥&page=2"})
    );
    let client = json!({"ip": "192.0.2.7", "userAgent": "Invented/1.0"});
    assert_eq!(clean(Rules::default(), client.clone()).value, json!({}));
    let hashed = clean(
        Rules::default()
            .addresses(ClientMode::Hash)
            .user_agents(ClientMode::Hash),
        client,
    )
    .value;
    assert_eq!(
        hashed,
        json!({"ip": keys().hash("192.0.2.7"), "userAgent": keys().hash("invented/1.0")})
    );
}

#[test]
fn rules_of_users_are_followed_in_documents_and_texts() {
    let rules = Rules::default()
        .deny("nickName", Kind::Custom)
        .allow("content")
        .pattern(r"\bEMP-\d{4}\b");
    let firewall = Firewall::new(rules, keys()).unwrap();
    let document = json!({"nick_name": "길동", "content": "home", "x": "by EMP-1234", "u": "/a?nickName=길동&b=1", "userContent": "x"});
    let cleaned = firewall.clean(document);
    assert_eq!(
        cleaned.value,
        json!({"content": "home", "x": "by [custom]", "u": "/a?nickName=[custom]&b=1"})
    );
    assert_eq!(
        (
            cleaned.removed.count(Kind::Custom),
            cleaned.removed.count(Kind::ReviewBody)
        ),
        (3, 1)
    );
}

#[test]
fn patterns_that_would_match_their_own_result_are_refused() {
    let refused = |pattern: &str| {
        Firewall::new(Rules::default().pattern(pattern), keys())
            .unwrap_err()
            .to_string()
    };
    assert!(refused("a*").contains(r#"matches """#), "{}", refused("a*"));
    assert!(
        refused("[a-z]+").contains(r#"matches "[token]""#),
        "{}",
        refused("[a-z]+")
    );
    assert_eq!(refused("("), r#"the pattern "(" is no regular expression"#);
}

#[test]
fn long_prose_is_removed_under_any_key_unless_the_limit_is_off() {
    let prose = "The soup was rich and the noodles were firm, the staff was kind, and we will come again. ".repeat(3);
    let document = json!({ "zz": prose });
    check(document.clone(), json!({"zz": "[review_body]"}));
    let firewall = Firewall::new(Rules::default().prose_width_max(None), keys()).unwrap();
    assert_eq!(firewall.clean(document.clone()).value, document);
    assert_eq!(firewall.clean_text(&prose).value, prose);
}

#[test]
fn json_in_a_text_is_cleaned_by_its_keys_and_kept_as_it_is_otherwise() {
    let harmless = r#"{ "b": 1,  "a": {"reviews": [{"id": 7}], "email": null} }"#;
    check(json!({ "raw": harmless }), json!({ "raw": harmless }));
    check(
        json!({ "raw": r#"{"b":1,"password":"x","a":["kim@example.com"]}"# }),
        json!({ "raw": r#"{"a":["[email]"],"b":1}"# }),
    );
}

#[test]
fn ids_that_look_like_a_phone_number_without_its_zero_stay() {
    check(
        json!({"memberId": 1_012_345_678, "contact": 1_012_345_678, "order_no": "1012345678"}),
        json!({"memberId": 1_012_345_678, "contact": "[phone]", "order_no": "1012345678"}),
    );
}

#[test]
fn the_result_of_a_hash_stays_and_nothing_names_the_secret() {
    let firewall = firewall();
    let once = firewall.clean(json!({"query": "국밥"})).value;
    assert_eq!(firewall.clean(once.clone()).value, once);
    assert!(firewall.keys().matches("국밥", once["query"].as_str().unwrap()));
    let debug = format!("{firewall:?}");
    assert!(!debug.contains("invented secret"), "{debug}");
}
