//! Conversations over WebSockets.

use std::time::Duration;

use postroom_host::{Hosts, Serving};
use postroom_realtime::HubSettings;
use postroom_testkit::web_socket::{Message, WebSocket};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::stand::{Instance, Shared, limits, settings};

async fn join(socket: &mut WebSocket, after: Option<u64>) {
    socket
        .send(&json!({ "type": "join", "roomId": 1, "after": after }))
        .await;
}

/// The numbers of the room's messages up to this one.
async fn numbers(socket: &mut WebSocket, last: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        let message = socket.next_named("message").await;
        assert_eq!(message["id"], message["seq"].to_string());
        numbers.push(message["seq"].as_u64().unwrap());
    }
    numbers
}

#[tokio::test]
async fn a_client_authenticates_itself_and_follows_a_room_without_a_gap() {
    let instance = Instance::start(settings()).await;
    for _ in 0..10 {
        instance.publish("room/1").await;
    }
    let mut socket = instance.socket("").await;
    assert_eq!(socket.status, 101);
    socket.send(&json!({ "type": "auth", "token": "42" })).await;
    assert_eq!(socket.json().await, json!({ "event": "hello", "member": "42" }));
    join(&mut socket, Some(4)).await;
    instance.shared.journal.append("room/1"); // published by nobody
    instance.publish("room/1").await;
    assert_eq!(numbers(&mut socket, 12).await, (5..=12).collect::<Vec<_>>());
    socket.send(&json!({ "type": "leave", "roomId": 1 })).await;
    socket.next_named("left").await;
    instance.publish("room/1").await;
    join(&mut socket, Some(13)).await;
    socket.next_named("joined").await;
    instance.publish("room/1").await;
    assert_eq!(numbers(&mut socket, 14).await, [14]);
    socket.close().await;
    instance.has(0).await;
}

#[tokio::test]
async fn a_client_that_does_not_authenticate_itself_in_time_is_closed() {
    let instance = Instance::start(settings()).await;
    let mut socket = instance.socket("").await;
    let begun = Instant::now();
    assert_eq!(socket.closed().await, (4005, "auth_timeout".to_owned()));
    let waited = begun.elapsed();
    assert!(
        waited > Duration::from_secs(9) && waited < Duration::from_secs(12),
        "{waited:?}"
    );
}

#[tokio::test]
async fn a_client_that_breaks_the_rules_is_closed_with_a_code() {
    let instance = Instance::start(settings()).await;
    let check = async |first: Value, expected: u16| {
        let mut socket = instance.socket("").await;
        socket.send(&first).await;
        assert_eq!(socket.closed().await.0, expected, "{first}");
    };
    check(json!({ "type": "auth", "token": "x" }), 4006).await;
    check(json!({ "type": "auth" }), 4005).await;
    check(json!({ "type": "join", "roomId": 1 }), 4005).await;
    check(json!([]), 4005).await;
    let mut socket = instance.socket("member=1").await;
    socket.send_binary(b"\x01").await;
    assert_eq!(socket.closed().await.0, 1003);
    let mut socket = instance.socket("member=1").await;
    socket.send(&json!({ "type": "x".repeat(64 << 10) })).await;
    assert_eq!(socket.closed().await, (1009, "too_large".to_owned()));
    let mut socket = instance.socket("").await;
    socket
        .send(&json!({ "type": "auth", "token": "x".repeat(64 << 10) }))
        .await;
    assert_eq!(socket.closed().await.0, 1009);
    instance.has(0).await;
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_ends_nothing() {
    let instance = Instance::start(settings()).await;
    let mut socket = instance.socket("member=1").await;
    for text in ["", "{", "7", "{}", r#"{"type":7}"#, r#"{"type":"refresh"}"#] {
        socket.send_text(text).await;
        assert_eq!(socket.next_named("error").await["code"], "malformed", "{text}");
    }
    socket.send(&json!({ "type": "pong" })).await;
    let largest = "x".repeat((64 << 10) - 30);
    socket.send(&json!({ "type": "other", "x": largest })).await;
    assert_eq!(socket.next_named("unknown").await["type"], "other");
}

#[tokio::test]
async fn frames_go_on_while_a_message_is_handled() {
    let instance = Instance::start(settings()).await;
    let mut socket = instance.socket("member=1").await;
    join(&mut socket, None).await;
    socket.next_named("joined").await;
    socket.send(&json!({ "type": "wait", "ms": 1_000 })).await;
    socket.send(&json!({ "type": "other" })).await;
    let begun = Instant::now();
    for expected in 1..=10_u64 {
        instance.publish("room/1").await;
        assert_eq!(socket.next_named("message").await["seq"], expected);
    }
    assert!(begun.elapsed() < Duration::from_millis(900));
    let answers = async |socket: &mut WebSocket| loop {
        let answer = socket.json().await;
        if answer["event"] != "ping" {
            return answer["event"].clone();
        }
    };
    assert_eq!(answers(&mut socket).await, "waited");
    assert_eq!(
        answers(&mut socket).await,
        "unknown",
        "messages are handled in their order"
    );
}

#[tokio::test]
async fn a_conversation_ends_with_its_token_unless_it_is_refreshed() {
    let settings = HubSettings {
        ping_every: Duration::from_secs(1),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let mut socket = instance.socket("").await;
    socket.send(&json!({ "type": "auth", "token": "42/2" })).await;
    let warning = socket.next_named("expiring").await;
    assert!(warning["inSeconds"].as_u64().unwrap() <= 2, "{warning}");
    socket.send(&json!({ "type": "refresh", "token": "43/9" })).await;
    assert_eq!(socket.next_named("error").await["code"], "forbidden");
    socket.send(&json!({ "type": "refresh", "token": "x" })).await;
    assert_eq!(socket.next_named("error").await["code"], "unauthenticated");
    let begun = Instant::now();
    socket.send(&json!({ "type": "refresh", "token": "42/4" })).await;
    socket.next_named("refreshed").await;
    let end = socket.next_named("end").await;
    let lived = begun.elapsed();
    assert_eq!(end["reason"], "expired");
    assert_eq!(socket.closed().await, (4001, "expired".to_owned()));
    assert!(
        lived >= Duration::from_secs(4) && lived < Duration::from_secs(5),
        "{lived:?}"
    );
}

#[tokio::test]
async fn an_evicted_conversation_says_that_it_is_final() {
    let instance = Instance::start(settings().limits(limits())).await;
    let mut oldest = instance.socket("member=42&tab=a").await;
    oldest.json().await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(instance.socket("member=42").await);
    }
    assert_eq!(oldest.closed().await, (4002, "evicted".to_owned()));
    assert_eq!(instance.socket("member=42&tab=a").await.status, 204);
}

#[tokio::test]
async fn a_slow_conversation_is_closed() {
    let settings = HubSettings {
        stall_max: Duration::from_secs(1),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let mut socket = instance.socket("member=1").await;
    join(&mut socket, None).await;
    socket.next_named("joined").await;
    let text = "x".repeat(50_000);
    for _ in 0..400 {
        let frame = instance.shared.journal.append_text("room/1", &text);
        instance.send("room/1", &frame).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut last = 0;
    loop {
        match socket.next().await {
            Some(Message::Text(json)) if json["event"] == "message" => {
                assert_eq!(json["seq"], last + 1);
                last += 1;
            }
            Some(Message::Text(json)) => assert_eq!(json["reason"], "slow", "{json}"),
            Some(Message::Close(code, _)) => break assert_eq!(code, 4000),
            None => panic!("no close"),
        }
    }
    assert!(last < 400);
}

#[tokio::test]
async fn a_client_that_reads_no_answer_is_closed() {
    let instance = Instance::start(settings()).await;
    let mut socket = instance.socket("member=1").await;
    let message = json!({ "type": "x".repeat(60_000) }); // it is answered with the same
    for _ in 0..500 {
        if timeout(Duration::from_secs(1), socket.send(&message)).await.is_err() {
            break; // the server reads no longer
        }
    }
    assert_eq!(socket.closed().await, (4000, "slow".to_owned()));
}

#[tokio::test]
async fn a_page_of_a_foreign_origin_opens_no_socket() {
    let check = async |serving: Serving, origin: &str, expected: u16| {
        let named = format!("{serving:?} {origin}");
        let instance = Instance::join(settings(), Shared::new(), serving).await;
        let headers = [("origin", origin)];
        let socket = WebSocket::open(&instance.url, "/stand/ws?member=1", &headers).await;
        assert_eq!(socket.status, expected, "{named}");
    };
    let only = || Serving {
        hosts: Hosts::Only(vec!["localhost".parse().unwrap(), "app.example.com".parse().unwrap()]),
        origins: vec!["https://page.example.com".parse().unwrap()],
        ..Serving::default()
    };
    check(Serving::default(), "http://localhost:3000", 101).await;
    check(Serving::default(), "https://evil.example", 403).await;
    check(only(), "https://page.example.com", 101).await;
    check(only(), "http://localhost", 101).await; // the host that the client of this test asks for
    check(only(), "https://evil.example", 403).await;
    check(only(), "null", 403).await;
    let any = Serving {
        hosts: Hosts::Any,
        ..Serving::default()
    };
    check(any, "https://evil.example", 101).await;
}
