//! Connections that are refused, and what connections may not do.

#![expect(clippy::indexing_slicing, reason = "a test harness: a panic fails the test")]

use std::time::Duration;

use postroom_testkit::web_socket::WebSocket;
use serde_json::{Value, json};

use super::town::{Socket, Town};
use crate::world::{Place, on_every_way};

on_every_way! {
    n_10_a_connection_needs_the_token_of_a_member
    n_10_rooms_of_others_are_refused_without_being_revealed
    n_10_a_connection_has_limits
}

async fn n_10_a_connection_needs_the_token_of_a_member(place: Place) {
    let town = Town::open(place).await;
    let ada = town.member(1, 0);
    let room = ada.room(&[]).await;
    let open = async |path: &str, headers: &[(&str, &str)]| WebSocket::open(&ada.client.0, path, headers).await;

    let mut first = open("/api/chat/ws", &[]).await;
    assert_eq!(first.status, 101);
    first.send(&json!({ "type": "auth", "token": ada.token })).await;
    assert_eq!(Socket(first).join(room, None).await, 0, "in the first message");

    let mut forged = open("/api/chat/ws", &[]).await;
    forged
        .send(&json!({ "type": "auth", "token": format!("{}x", ada.token) }))
        .await;
    assert_eq!(forged.closed().await.0, 4006);
    let mut silent = open("/api/chat/ws", &[("authorization", "Bearer nonsense")]).await;
    silent.send(&json!({ "type": "join", "roomId": room })).await;
    assert_eq!(silent.closed().await.0, 4005, "a header that is not accepted is none");

    let made = ada.ask("POST", "/api/chat/ticket", &Value::Null).await.ok();
    assert_eq!(made["expiresInSeconds"], 30);
    let path = format!("/api/chat/ws?ticket={}", made["ticket"].as_str().unwrap_or_default());
    let socket = open(&path, &[]).await;
    assert_eq!(socket.status, 101);
    assert_eq!(Socket(socket).join(room, None).await, 0, "by a ticket");
    assert_eq!(open(&path, &[]).await.status, 401, "it is spent");
    assert_eq!(open("/api/chat/ws?ticket=made-up", &[]).await.status, 401);
    let anonymous = ada.client.must("POST", "/api/chat/ticket", &[], "").await;
    assert_eq!(anonymous.status, 401);

    let header = ada.header();
    let foreign = [("authorization", header.as_str()), ("origin", "https://evil.example")];
    assert_eq!(open("/api/chat/ws", &foreign).await.status, 403);
    let own = [("authorization", header.as_str()), ("origin", "http://localhost:3000")];
    assert_eq!(open("/api/chat/ws", &own).await.status, 101);
    town.close().await;
}

async fn n_10_rooms_of_others_are_refused_without_being_revealed(place: Place) {
    let town = Town::open(place).await;
    let (ada, eve) = (town.member(1, 0), town.member(3, 1));
    let room = ada.room(&[2]).await;
    let message = ada.say(room, "hello").await;
    let mut socket = eve.socket().await;
    for room in [room, 999_999] {
        for request in [
            json!({ "type": "join", "roomId": room, "after": 0 }),
            json!({ "type": "join", "roomId": room }),
            json!({ "type": "send", "roomId": room, "clientMsgId": "c-1", "body": "hi" }),
            json!({ "type": "edit", "roomId": room, "messageId": message, "body": "hi" }),
            json!({ "type": "delete", "roomId": room, "messageId": message }),
        ] {
            socket.send(&request).await;
            let mut refused = socket.named("error").await;
            assert_eq!(
                (&refused["code"], &refused["roomId"]),
                (&json!("unknown_room"), &json!(room)),
                "{request}"
            );
            assert_eq!(refused["clientMsgId"], request["clientMsgId"], "it names the message");
            refused["roomId"] = json!(0);
            assert_eq!(refused["detail"], "there is no such room, or you are not in it");
        }
    }
    ada.say(room, "still here").await;
    socket.send(&json!({ "type": "dance" })).await;
    assert_eq!(
        socket.named("error").await["code"],
        "malformed",
        "no frame of the room came"
    );
    town.close().await;
}

async fn n_10_a_connection_has_limits(place: Place) {
    let town = Town::open(place).await;
    let ada = town.member(1, 0);
    let room = ada.room(&[]).await;
    let mut socket = ada.socket().await;
    for text in ["no json", "[]", r#"{"type":"send","roomId":1}"#] {
        socket.0.send_text(text).await;
        assert_eq!(socket.named("error").await["code"], "malformed", "{text}");
    }
    socket
        .send(&json!({ "type": "send", "roomId": room, "clientMsgId": "c", "body": "" }))
        .await;
    let refused = socket.named("error").await;
    assert_eq!(
        (&refused["code"], &refused["clientMsgId"]),
        (&json!("invalid"), &json!("c"))
    );

    let begun = tokio::time::Instant::now();
    for _ in 0..450 {
        socket.send(&json!({ "type": "dance" })).await;
    }
    for _ in 0..450 {
        assert_eq!(
            socket.named("error").await["code"],
            "malformed",
            "it waits, and is not refused"
        );
    }
    let passed = begun.elapsed();
    assert!(passed >= Duration::from_secs(1), "200 messages in a second: {passed:?}");

    let mut large = ada.socket().await;
    large
        .0
        .send_text(&format!(r#"{{"type":"send","body":"{}"}}"#, "x".repeat(70_000)))
        .await;
    assert_eq!(large.0.closed().await.0, 1009);
    town.close().await;
}
