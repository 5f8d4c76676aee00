//! More about a connection: it reports the result of each message, and ends with its token.

#![expect(clippy::indexing_slicing, reason = "a test harness: a panic fails the test")]

use std::time::Duration;

use serde_json::json;

use super::town::{Town, bodies};
use crate::world::{Place, on_every_way};

on_every_way! {
    n_10_a_sender_sees_that_a_message_is_sent_and_stored
    n_10_everything_can_be_done_over_the_connection
    n_10_a_connection_ends_with_its_token_unless_it_gets_another
}

async fn n_10_a_sender_sees_that_a_message_is_sent_and_stored(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let mut socket = ada.socket().await;
    let message = json!({ "type": "send", "roomId": room, "clientMsgId": "c-1", "body": "hi" });
    socket.send(&message).await;
    let sent = socket.named("sent").await;
    assert_eq!(
        sent,
        json!({ "event": "sent", "clientMsgId": "c-1", "roomId": room, "seq": 1, "messageId": 1 })
    );
    let stored = json!({ "event": "stored", "roomId": room, "seq": 1 });
    assert_eq!(socket.named("stored").await, stored);
    assert_eq!(bob.history(room).await[0]["body"], "hi");

    let mut again = town.member(1, 1).socket().await;
    again.send(&message).await;
    assert_eq!(
        again.named("sent").await,
        sent,
        "a client that comes back sends it again"
    );
    assert_eq!(again.named("stored").await, stored);
    town.close().await;
}

async fn n_10_everything_can_be_done_over_the_connection(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let mut other = bob.follow(room, None).await;
    let mut socket = ada.follow(room, None).await;
    for request in [
        json!({ "type": "send", "roomId": room, "clientMsgId": "c", "body": "helo" }),
        json!({ "type": "edit", "roomId": room, "messageId": 1, "body": "hello" }),
        json!({ "type": "delete", "roomId": room, "messageId": 1 }),
    ] {
        socket.send(&request).await;
        socket.0.next_named("sent").await;
    }
    let seen = other.entries(0, 3).await;
    assert_eq!(seen[0]["data"]["clientMsgId"], "c");
    assert_eq!(
        (&seen[2]["event"], seen[2]["data"]["body"].is_null()),
        (&json!("deleted"), true)
    );

    other.send(&json!({ "type": "leave", "roomId": room })).await;
    other.send(&json!({ "type": "pong" })).await;
    other.send(&json!({ "type": "dance" })).await;
    other.named("error").await;
    ada.say(room, "unseen").await;
    assert_eq!(
        other.join(room, None).await,
        4,
        "leaving the connection is not leaving the room"
    );
    ada.say(room, "seen").await;
    assert_eq!(bodies(&other.entries(4, 5).await), ["seen"]);
    town.close().await;
}

async fn n_10_a_connection_ends_with_its_token_unless_it_gets_another(place: Place) {
    let town = Town::open(place).await;
    let mut ada = town.member(1, 0);
    let room = ada.room(&[]).await;
    // A token is accepted for 30 s after its expiry.
    ada.token = town.token(1, Duration::from_secs(1));
    let mut short = ada.socket().await;
    let mut renewed = ada.socket().await;
    let warned = renewed.named("expiring").await;
    assert!(
        warned["inSeconds"].as_u64().is_some_and(|seconds| seconds <= 30),
        "{warned}"
    );
    renewed
        .send(&json!({ "type": "refresh", "token": town.token(2, Duration::from_secs(600)) }))
        .await;
    assert_eq!(
        renewed.named("error").await["code"],
        "forbidden",
        "the token of another member"
    );
    renewed
        .send(&json!({ "type": "refresh", "token": town.token(1, Duration::from_secs(600)) }))
        .await;
    renewed.named("refreshed").await;
    assert_eq!(short.0.closed().await.0, 4001);
    assert_eq!(renewed.join(room, None).await, 0);
    town.close().await;
}
