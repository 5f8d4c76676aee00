//! Sending, changing and deleting messages.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use futures::future::join_all;
use serde_json::{Value, json};

use super::town::{Town, bodies};
use crate::world::{Place, on_every_way};

on_every_way! {
    n_10_ten_resends_at_once_over_two_instances_are_one_message
    n_10_what_is_no_message_is_refused
    n_10_the_sender_alone_changes_a_message
    n_10_a_deleted_message_has_no_text_anywhere
}

/// They also have one number, and no number is lost.
async fn n_10_ten_resends_at_once_over_two_instances_are_one_message(place: Place) {
    let town = Town::open(place).await;
    let senders = [town.member(1, 0), town.member(1, 1)];
    let room = senders[0].room(&[]).await;
    for round in 1..=5_i64 {
        let id = format!("resend-{round}");
        let resends = (0..10).map(|number: usize| senders[number % 2].say_as(room, &id, "once"));
        let answers: Vec<Value> = join_all(resends)
            .await
            .into_iter()
            .map(|answer| answer.created())
            .collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
        assert_eq!(
            (&answers[0]["seq"], &answers[0]["messageId"]),
            (&json!(round), &json!(round))
        );
        assert!(answers[0]["eventId"].is_string());
    }
    let stored = senders[1].until_stored(room, 5).await;
    let numbers: Vec<_> = stored
        .iter()
        .map(|message| message["messageId"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(senders[0].say(room, "next").await, 6);
    town.close().await;
}

async fn n_10_what_is_no_message_is_refused(place: Place) {
    let town = Town::open(place).await;
    let ada = town.member(1, 0);
    let room = ada.room(&[]).await;
    let path = format!("/api/chat/rooms/{room}/messages");
    let check = async |body: Value, says: &str| {
        let refused = ada.ask("POST", &path, &body).await;
        assert_eq!(refused.status, 422, "{body}: {refused:?}");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{detail}");
    };
    let message = |body: &str| json!({ "clientMsgId": "c", "body": body });
    check(message(" \n "), "body is empty; give 1 to 4000 characters").await;
    check(
        message(&"x".repeat(4_001)),
        "body has 4001 characters, the limit is 4000",
    )
    .await;
    check(message("a\u{0}b"), r"the control character '\0'").await;
    check(
        json!({ "clientMsgId": "", "body": "b" }),
        "clientMsgId must have 1 to 64",
    )
    .await;
    check(
        json!({ "clientMsgId": "x".repeat(65), "body": "b" }),
        "clientMsgId must have 1 to 64",
    )
    .await;
    check(json!({ "body": "b" }), "missing field `clientMsgId`").await;
    check(
        json!({ "clientMsgId": "c", "body": "b", "seq": 7 }),
        "unknown field `seq`",
    )
    .await;
    let refused = ada.ask("POST", "/api/chat/rooms", &json!({ "name": "\n" })).await;
    assert_eq!((refused.status, refused.code()), (422, "invalid"));

    let first = ada.say_as(room, "c", "안녕 👋\n\ttab").await.created();
    assert_eq!(first["seq"], 1, "what was refused took no number");
    let reused = ada.say_as(room, "c", "another text").await;
    assert_eq!((reused.status, reused.code()), (422, "client_msg_id_reused"));
    assert_eq!(ada.say_as(room, "C", "another id").await.created()["seq"], 2);
    assert_eq!(ada.until_stored(room, 2).await[0]["body"], "안녕 👋\n\ttab");
    town.close().await;
}

async fn n_10_the_sender_alone_changes_a_message(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let message = ada.say(room, "helo").await;
    for refused in [bob.edit(room, message, "mine").await, bob.delete(room, message).await] {
        assert_eq!((refused.status, refused.code()), (403, "not_your_message"));
    }
    let edited = ada.edit(room, message, "hello").await.ok();
    assert_eq!((&edited["seq"], &edited["messageId"]), (&json!(2), &json!(message)));
    assert_eq!(
        ada.edit(room, message, "hello").await.ok(),
        edited,
        "the text that it has"
    );
    let odd = ada.edit(room, message, "").await;
    assert_eq!((odd.status, odd.code()), (422, "invalid"));
    for unknown in [ada.edit(room, 2, "an edit").await, ada.delete(room, 99).await] {
        assert_eq!((unknown.status, unknown.code()), (404, "unknown_message"));
    }
    postroom_testkit::wait::until("history shows the edit", || async {
        ada.history(room)
            .await
            .first()
            .is_some_and(|message| message["body"] == "hello")
    })
    .await;
    let stored = ada.history(room).await;
    assert_eq!(
        (stored.len(), &stored[0]["seq"], &stored[0]["isDeleted"]),
        (1, &json!(2), &json!(false))
    );
    assert!(stored[0]["editedAt"].as_i64().unwrap() >= stored[0]["at"].as_i64().unwrap());

    let deleted = ada.delete(room, message).await.ok();
    assert_eq!(deleted["seq"], 3);
    assert_eq!(ada.delete(room, message).await.ok(), deleted, "it is deleted already");
    let refused = ada.edit(room, message, "again").await;
    assert_eq!((refused.status, refused.code()), (409, "message_deleted"));
    town.close().await;
}

/// History, the replay of the room and the streams of the members are read again.
async fn n_10_a_deleted_message_has_no_text_anywhere(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    ada.say(room, "stays").await;
    let message = ada.say(room, "secret one").await;
    ada.edit(room, message, "secret two").await.ok();
    ada.until_stored(room, 2).await;
    let mut live = bob.follow(room, Some(0)).await;
    assert_eq!(bodies(&live.entries(0, 3).await), ["stays", "secret one", "secret two"]);

    ada.delete(room, message).await.ok();
    let history = ada.history(room).await;
    assert_eq!(
        (&history[1]["body"], &history[1]["isDeleted"]),
        (&Value::Null, &json!(true)),
        "at once"
    );
    let deleted = live.entries(3, 4).await;
    assert_eq!(
        (&deleted[0]["event"], &deleted[0]["data"]["messageId"]),
        (&json!("deleted"), &json!(message))
    );

    let replay = bob.follow(room, Some(0)).await.entries(0, 4).await;
    let names: Vec<_> = replay.iter().map(|frame| frame["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["message", "message", "edited", "deleted"], "each number once");
    assert_eq!(bodies(&replay), ["stays", "-", "-", "-"]);
    assert_eq!(replay[1]["data"]["isDeleted"], true);
    for table in [
        "community_chat_send",
        "community_chat_message",
        "community_member_event",
    ] {
        town.until_no_row_contains(table, "secret").await;
    }
    town.close().await;
}
