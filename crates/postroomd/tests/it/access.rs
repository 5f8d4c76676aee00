//! Locked doors: tokens from the command line, their scopes, and addresses that other machines can reach.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use postroom_testkit::walk;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use crate::harness::{Daemon, Place};

const LOCKED: &str = "[access]\nlocked = true\n";

/// A token that the command line makes.
async fn token(place: &Place, arguments: &[&str]) -> String {
    let made = place.json(&[&["token", "create"], arguments].concat()).await;
    made["token"].as_str().unwrap().to_owned()
}

/// A folder with a configuration and tables.
async fn place(toml: &str) -> Place {
    let place = Place::new();
    place.configure(toml);
    place.ok(&["migrate"]).await;
    place
}

async fn send(up: &Daemon, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let headers = format!("content-type: application/json\r\nauthorization: Bearer {token}\r\n");
    let (code, answer) = up.request_with(method, path, &headers, body).await;
    (code, serde_json::from_str(&answer).unwrap_or_default())
}

async fn post_event(up: &Daemon, event_type: &str, token: &str) -> (u16, Value) {
    let event = json!({ "specversion": "1.0", "id": event_type, "source": "/till", "type": event_type, "subject": "7", "data": {} });
    let headers = format!("content-type: application/cloudevents+json\r\nauthorization: Bearer {token}\r\n");
    let (code, answer) = up
        .request_with("POST", "/api/v1/events", &headers, &event.to_string())
        .await;
    (code, serde_json::from_str(&answer).unwrap())
}

#[tokio::test]
async fn the_guides_can_be_walked_with_locked_doors() {
    let place = place(LOCKED).await;
    let admin = token(&place, &["walker", "--role", "admin"]).await;
    let up = place.start(&["up"]).await;
    let url = format!("http://{}", up.address);
    for (page, title, name, path) in [
        ("docs/guide/ledger.md", "walk-through", "LEDGER", "/ledger"),
        ("docs/guide/commerce.md", "walk", "SHOP", ""),
        ("docs/guide/umbra.md", "walk", "UMBRA", "/umbra"),
    ] {
        let (script, server) = (walk::blocks(page, title), format!("{url}{path}"));
        walk::run_with(&script, [(name, server.as_str()), ("POSTROOM_TOKEN", &admin)])
            .await
            .done();
        let without = walk::run_with(&script, [(name, server.as_str()), ("POSTROOM_TOKEN", "")]).await;
        assert!(!without.is_done, "{page} without a token: {without:?}");
    }
    up.stop().await;
}

#[tokio::test]
async fn a_service_reaches_its_module_and_its_event_types_and_nothing_else() {
    let place = place(LOCKED).await;
    let ledger = token(&place, &["billing", "--module", "ledger"]).await;
    let till = token(&place, &["till", "--emit", "till.*.v1"]).await;
    let shop = token(&place, &["shop", "--module", "hello", "--emit", "hello.order.*.v1"]).await;
    let wide = token(&place, &["wide", "--emit", "**"]).await;
    let up = place.start(&["up"]).await;
    let account = r#"{"owner":"ada","name":"Savings","currency":"KRW"}"#;
    let headers = format!("content-type: application/json\r\nidempotency-key: 1\r\nauthorization: Bearer {ledger}\r\n");
    let (code, opened) = up.request_with("POST", "/ledger/accounts", &headers, account).await;
    assert_eq!(code, 201, "{opened}");
    let (code, refused) = send(&up, "POST", "/umbra/users", &ledger, "{}").await;
    assert_eq!((code, &refused["code"]), (403, &json!("forbidden")), "{refused}");
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("a service with --module umbra"),
        "{refused}"
    );

    assert_eq!(post_event(&up, "till.opened.v1", &till).await.0, 202);
    let (code, refused) = post_event(&up, "shop.order.paid.v1", &till).await;
    assert_eq!((code, &refused["code"]), (403, &json!("forbidden")), "{refused}");
    assert_eq!(
        post_event(&up, "till.opened.v1", &ledger).await.0,
        403,
        "it has no event types"
    );
    // A type that a module declares needs a scope for the module, too.
    assert_eq!(post_event(&up, "hello.order.placed.v1", &wide).await.0, 422);
    assert_eq!(post_event(&up, "hello.order.placed.v1", &shop).await.0, 202);
    assert_eq!(send(&up, "GET", "/health/live", "", "").await.0, 200, "health is open");
    assert_eq!(send(&up, "GET", "/metrics", &ledger, "").await.0, 403);
    assert_eq!(send(&up, "GET", "/metrics", "postroom_viewer_leaked", "").await.0, 401);
    up.signal("INT").await;
    let (_, log) = up.end(std::time::Duration::from_secs(10)).await;
    assert!(log.contains("refused tokens") && !log.contains("leaked"), "{log}");
    assert!(
        [&ledger, &till, &shop, &wide]
            .iter()
            .all(|token| !log.contains(token.as_str())),
        "{log}"
    );
    let types = place.ok(&["tail", "--json"]).await;
    assert!(
        !types.contains("shop.order.paid.v1"),
        "nothing that was refused is recorded"
    );
}

#[tokio::test]
async fn a_module_that_the_program_does_not_have_is_named() {
    let place = place("").await;
    let create = async |module: &str| place.run(&["token", "create", module, "--module", module]).await;
    let (known, unknown) = (create("ledger").await, create("leger").await);
    assert_eq!((known.code, known.err.as_str()), (Some(0), ""));
    assert_eq!(
        unknown.code,
        Some(0),
        "it may be a module of another service on this store"
    );
    let says = "--module leger opens no route of this program; its modules are hello, ledger, ";
    assert!(unknown.err.contains(says), "{}", unknown.err);
}

#[tokio::test]
async fn a_token_is_shown_once_listed_and_revoked() {
    let place = place("").await;
    let printed = place
        .ok(&[
            "token",
            "create",
            "billing",
            "--module",
            "ledger",
            "--expires-in",
            "90d",
        ])
        .await;
    assert!(
        printed.trim().starts_with("postroom_service_") && printed.lines().count() == 1,
        "{printed}"
    );
    let listed = place.ok(&["token", "list"]).await;
    assert!(
        listed.contains("billing") && listed.contains("module ledger"),
        "{listed}"
    );
    assert!(!listed.contains(printed.trim()), "{listed}");
    assert!(
        place
            .fails(&["token", "create", "billing", "--module", "x"])
            .await
            .contains("is in use")
    );
    assert!(place.fails(&["token", "create", "kim"]).await.contains("needs a scope"));
    place.ok(&["token", "revoke", "billing"]).await;
    assert!(place.ok(&["token", "list"]).await.contains("revoked"));
    assert!(
        place
            .fails(&["token", "revoke", "billing"])
            .await
            .contains("revoked already")
    );
    assert!(
        place
            .fails(&["token", "member", "42"])
            .await
            .contains("[access.members]")
    );
    place.configure("[access.members]\nsecret = \"thirty-two bytes that nobody knows\"\n");
    assert_eq!(
        place.ok(&["token", "member", "42"]).await.trim().split('.').count(),
        3,
        "a JWT"
    );
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_everything_and_says_so_at_once() {
    let place = Place::new();
    let refused = place.fails(&["up", "--listen", "0.0.0.0:0"]).await;
    for missing in [
        "[server.tls]",
        "server.plain_http = true",
        "postroom token create NAME --role admin",
        "[access.members]",
    ] {
        assert!(refused.contains(missing), "{refused}");
    }
    place.configure("[server]\nhosts = [\"events.example.com\"]\n");
    let refused_behind_proxy = place.fails(&["up", "--listen", "127.0.0.1:0"]).await;
    assert!(refused_behind_proxy.contains("token create"), "{refused_behind_proxy}");
    place.configure("");
    token(&place, &["kim", "--role", "admin"]).await;
    let refused = place
        .fails(&["serve", "--roles", "relay", "--listen", "0.0.0.0:0"])
        .await;
    assert!(
        refused.contains("[server.tls]") && !refused.contains("token create"),
        "{refused}"
    );
    let members = "[access.members]\nsecret = \"thirty-two bytes that nobody knows\"\n";
    place.configure(&format!("{members}[server]\ntrusted_proxies = [\"127.0.0.1\"]\n"));
    let mut through_proxy = place.command(&["up", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    wait_until_it_listens(&mut through_proxy).await;
    place.configure(&format!("{members}[server]\nplain_http = true\n"));
    let mut child = place.command(&["up", "--listen", "0.0.0.0:0"]).spawn().unwrap();
    wait_until_it_listens(&mut child).await;
}

async fn wait_until_it_listens(daemon: &mut Child) {
    let mut out = BufReader::new(daemon.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        let read = out.read_line(&mut line).await.unwrap();
        assert!(read > 0, "it ended");
    }
    daemon.kill().await.unwrap();
}
