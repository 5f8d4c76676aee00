//! The keys of `[modules.activity.pii]`.

#![expect(clippy::indexing_slicing, reason = "what goes wrong fails the test")]

use serde_json::{Value, json};
use toml::Table;

use super::{BOTH, By, FakePosthog, Place, Setting, Site, base, set, setting, until};

const SECRET: &str = "an invented secret of another year";

/// The properties of what is stored, when it is one event.
async fn properties(site: &Site) -> Value {
    until("an event is stored", async || {
        let listed = site.place.json(&["activity", "list"]).await;
        listed.as_array().unwrap().len() == 1
    })
    .await;
    site.place.json(&["activity", "list"]).await[0]["properties"].clone()
}

async fn search(site: &Site) -> Value {
    let (code, answer) = site.daemon.request("GET", "/tasteam/search?q=noodles", "").await;
    assert_eq!(code, 200, "{answer}");
    properties(site).await
}

/// One event of a client with a `User-Agent`; its property `path` may be called otherwise.
async fn send(site: &Site, property: &str, value: &str) -> Value {
    let event = json!({
        "eventId": uuid::Uuid::now_v7(), "eventName": "page.viewed", "eventVersion": "v1", "anonymousId": "a", "sessionId": "s",
        "occurredAt": postroom::clock::now().format(&super::Rfc3339).unwrap(), "properties": { property: value },
    });
    let headers = "content-type: application/json\r\nuser-agent: Invented/1.0\r\n";
    let body = json!({ "events": [event] }).to_string();
    let (code, answer) = site.daemon.request_with("POST", super::EVENTS, headers, &body).await;
    assert_eq!(code, 200, "{answer}");
    properties(site).await
}

#[tokio::test]
async fn pii_keyword_mode() {
    let plain = setting("pii.keyword_mode", "ANALYTICS_KEYWORD_MODE", "PLAIN");
    for by in BOTH {
        let stored = search(&Site::open(by, plain).await).await;
        assert_eq!(
            (&stored["query"], &stored["queryHash"]),
            (&json!("noodles"), &Value::Null),
            "{by:?}"
        );
    }
    let stored = search(&Site::open(By::Nobody, plain).await).await;
    assert!(stored["queryHash"].is_string() && stored["query"].is_null(), "{stored}");
    let none = setting("pii.keyword_mode", "ANALYTICS_KEYWORD_MODE", "DROP");
    let stored = search(&Site::open(By::File, none).await).await;
    assert!(stored["queryHash"].is_null() && stored["query"].is_null(), "{stored}");
}

#[tokio::test]
async fn pii_store_ip() {
    let on = setting("pii.store_ip", "ANALYTICS_STORE_IP", "true");
    for by in BOTH {
        let stored = send(&Site::open(by, on).await, "path", "/").await;
        assert!(
            stored["clientIpHash"].is_string() && stored["userAgentHash"].is_null(),
            "{by:?}: {stored}"
        );
    }
    assert_eq!(
        send(&Site::open(By::Nobody, on).await, "path", "/").await,
        json!({ "path": "/" })
    );
}

#[tokio::test]
async fn pii_store_user_agent() {
    let on = setting("pii.store_user_agent", "ANALYTICS_STORE_USER_AGENT", "true");
    for by in BOTH {
        let stored = send(&Site::open(by, on).await, "path", "/").await;
        assert!(
            stored["userAgentHash"].is_string() && stored["clientIpHash"].is_null(),
            "{by:?}: {stored}"
        );
    }
}

/// A site whose harness gives no secret.
async fn with_secret(by: By, secret: Setting, change: impl FnOnce(&mut Place, &mut Table)) -> Site {
    let posthog = FakePosthog::open().await;
    let (mut place, mut toml) = (Place::without_hash_secret(), base(&posthog));
    set(&mut toml, "client_events", r#"{ "page.viewed" = { v1 = ["query"] } }"#);
    change(&mut place, &mut toml);
    match by {
        By::Nobody => {}
        By::File => set(&mut toml, secret.key, secret.value),
        By::Variable => place.set(secret.variable, secret.value),
    }
    place.configure(&toml.to_string());
    let daemon = place.start(&["up"]).await;
    Site { place, daemon, posthog }
}

/// The same secret makes the same hash, wherever it is set; without it, each place has a secret of its own.
#[tokio::test]
async fn pii_hash_secret() {
    let secret = setting("pii.hash_secret", "ANALYTICS_HASH_SECRET", SECRET);
    let hash = async |by: By| {
        let stored = search(&with_secret(by, secret, |_, _| ()).await).await;
        stored["queryHash"].as_str().unwrap().to_owned()
    };
    let [by_file, by_variable] = [hash(By::File).await, hash(By::Variable).await];
    assert_eq!(by_file, by_variable);
    assert_ne!(by_file, hash(By::Nobody).await);
}

/// A hash by a former secret is known as one, and not hashed again.
#[tokio::test]
async fn pii_hash_secrets_old() {
    let old = setting(
        "pii.hash_secrets_old",
        "ANALYTICS_HASH_SECRETS_OLD",
        r#"["an invented secret of another year"]"#,
    );
    let former = setting("pii.hash_secret", "ANALYTICS_HASH_SECRET", SECRET);
    let hash = search(&with_secret(By::File, former, |_, _| ()).await).await["queryHash"].clone();
    let again = async |by: By| {
        let new =
            |_: &mut Place, toml: &mut Table| set(toml, "pii.hash_secret", "an invented secret of the present year");
        let site = with_secret(by, old, new).await;
        send(&site, "query", hash.as_str().unwrap()).await["queryHash"].clone()
    };
    for by in BOTH {
        assert_eq!(again(by).await, hash, "{by:?}");
    }
    assert_ne!(again(By::Nobody).await, hash);
}
