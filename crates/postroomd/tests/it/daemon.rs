//! Starting, serving, stopping, starting again.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::Place;

const ORDER: &str = r#"{"customer":"ada","item":"lamp","quantity":2}"#;

fn field(document: &str, name: &str) -> String {
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    document[name]
        .as_str()
        .unwrap_or_else(|| panic!("{document} has no {name}"))
        .to_owned()
}

#[tokio::test]
async fn up_serves_becomes_ready_and_stops_on_a_signal() {
    let place = Place::new();
    for signal in ["INT", "TERM"] {
        let up = place.start(&["up"]).await;
        up.wait_for("/health/ready", |code, body| {
            code == 200 && body.contains("hello-receipts")
        })
        .await;
        assert_eq!(up.request("GET", "/health/live", "").await.0, 200);
        assert!(up.request("GET", "/", "").await.1.contains("hello.order.placed.v1"));
        up.signal(signal).await;
        let (status, log) = up.end(Duration::from_secs(10)).await;
        assert!(status.success(), "{signal}: {status}: {log}");
    }
}

#[tokio::test]
async fn an_order_gets_its_receipt_and_a_second_start_goes_on() {
    let place = Place::new();
    let up = place.start(&["up", "--data", "elsewhere"]).await;
    let (code, placed) = up.request("POST", "/hello/orders", ORDER).await;
    assert_eq!(code, 201, "{placed}");
    let path = format!("/hello/orders/{}", field(&placed, "order_id"));
    let progress = up
        .wait_for(&path, |code, body| code == 200 && body.contains("2 x lamp for ada"))
        .await;
    assert_eq!(field(&progress, "order_id"), field(&placed, "order_id"));
    up.stop().await;

    let store = "sqlite://elsewhere/postroom.db";
    let delivered = |status: &serde_json::Value| -> i64 {
        status["routes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|route| route["delivered"].as_i64().unwrap())
            .sum()
    };
    let before = place.json(&["status", "--store", store]).await;
    let events = place.ok(&["tail", "--store", store]).await.lines().count();
    assert!(delivered(&before) > 0);
    let up = place.start(&["up", "--data", "elsewhere"]).await;
    let (_, placed) = up.request("POST", "/hello/orders", ORDER).await;
    let path = format!("/hello/orders/{}", field(&placed, "order_id"));
    up.wait_for(&path, |_, body| body.contains("2 x lamp for ada")).await;
    up.stop().await;
    let after = place.json(&["status", "--store", store]).await;
    assert!(
        delivered(&after) > delivered(&before),
        "progress goes on from where it was"
    );
    assert!(place.ok(&["tail", "--store", store]).await.lines().count() > events);
}

#[tokio::test]
async fn customers_come_by_themselves_but_not_into_a_store_of_ones_own() {
    let place = Place::new();
    let up = place.start(&["up"]).await;
    place
        .wait_for_route("hello-receipts", |route| route["delivered"].as_i64() >= Some(2))
        .await;
    up.stop().await;
    let own = ["--store", "sqlite://own.db"];
    let up = place.start(&["up", own[0], own[1]]).await;
    up.wait_for("/health/ready", |code, _| code == 200).await;
    let (code, _) = up.request("POST", "/hello/orders", ORDER).await;
    assert_eq!(code, 404, "the example is off");
    up.stop().await;
    assert_eq!(
        place.json(&["status", own[0], own[1]]).await["routes"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    let up = place.start(&["up", "--demo", own[0], own[1]]).await;
    up.wait_for("/", |_, body| body.contains("hello-receipts")).await;
    up.stop().await;
}

#[tokio::test]
async fn a_second_process_says_that_it_stands_by() {
    let place = Place::new();
    let first = place.start(&["up"]).await;
    place
        .wait_for_route("hello-receipts", |route| route["is_leased"] == true)
        .await;
    let mut second = place.start(&["up"]).await;
    let said = second
        .read_until("another process holds the routes of this store")
        .await;
    assert!(said.contains("stands by") && said.contains("process="), "{said}");
    second.stop().await;
    first.stop().await;
}

#[tokio::test]
async fn mistakes_over_http_are_problems() {
    let place = Place::new();
    let up = place.start(&["up"]).await;
    let check = async |method: &str, path: &str, body: &str, status: u16, code: &str| {
        let (answered, problem) = up.request(method, path, body).await;
        assert_eq!(answered, status, "{method} {path} {body}: {problem}");
        assert_eq!(field(&problem, "code"), code);
    };
    check("GET", "/nowhere", "", 404, "not_found").await;
    check("DELETE", "/hello/orders", "", 405, "method").await;
    check("POST", "/hello/orders", "{", 400, "malformed").await;
    check("POST", "/hello/orders", r#"{"customer":"ada"}"#, 422, "invalid").await;
    check("POST", "/hello/orders", &ORDER.replace('2', "0"), 422, "invalid").await;
    check(
        "POST",
        "/hello/orders",
        &format!("\"{}\"", "a".repeat(3_000_000)),
        413,
        "too_large",
    )
    .await;
    check("GET", "/hello/orders/7", "", 404, "not_found").await;
    up.stop().await;
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let place = Place::new();
    let mut up = place.start(&["up"]).await;
    up.wait_for("/health/ready", |code, _| code == 200).await;
    // A request whose body never comes keeps the drain waiting.
    let mut stuck = TcpStream::connect(&up.address).await.unwrap();
    let head =
        "POST /hello/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n";
    stuck.write_all(head.as_bytes()).await.unwrap();
    up.wait_for("/health/live", |code, _| code == 200).await;
    up.signal("INT").await;
    up.read_until("stopping").await;
    up.signal("INT").await;
    let (status, log) = up.end(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("error: stopped at once"), "{log}");
}

#[tokio::test]
async fn serve_wants_its_tables_and_logs_json() {
    let place = Place::new();
    place.configure(
        "[log]\nformat = \"json\"\n[modules.hello]\nenabled = false\n[[routes]]\nname = \"all\"\nto = \"log\"\n",
    );
    let refused = place
        .fails(&["serve", "--roles", "relay", "--listen", "127.0.0.1:0"])
        .await;
    assert!(refused.contains("`postroom migrate` makes its tables"), "{refused}");
    place.ok(&["migrate"]).await;
    let id = place.emit("1", r#"{"word":"unspoken"}"#).await;
    let mut child = place
        .command(&["serve", "--roles", "relay", "--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stderr.take().unwrap()));
    let mut log = String::new();
    while !log.contains("\"delivered\"") {
        let line = lines.next_line().await.unwrap().expect("it delivers before it ends");
        let document: serde_json::Value = serde_json::from_str(&line).expect("every line is JSON");
        assert!(
            document["level"].is_string() && document["message"].is_string(),
            "{line}"
        );
        log.push_str(&line);
    }
    assert!(log.contains(&id) && log.contains("order/1"), "ids yes: {log}");
    assert!(!log.contains("unspoken"), "payloads never: {log}");
}
