//! Rooms, and who is in them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use serde_json::{Value, json};

use super::town::Town;
use crate::world::{Place, on_every_way};

on_every_way! {
    n_10_members_see_their_rooms_and_nobody_else_does
    n_10_members_come_and_go
    n_10_a_room_has_a_limited_number_of_members
    n_10_a_member_sees_what_is_said_while_it_is_in_the_room
}

async fn n_10_members_see_their_rooms_and_nobody_else_does(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob, eve) = (town.member(1, 0), town.member(2, 1), town.member(3, 0));
    let room = ada.room(&[2, 2, 1]).await;
    let other = bob.room(&[]).await;
    ada.say(room, "one").await;
    ada.say(room, "two").await;

    let shown = bob.get(&format!("/api/chat/rooms/{room}")).await.ok();
    assert_eq!(
        (&shown["name"], &shown["ownerId"], &shown["seq"]),
        (&json!("Lunch"), &json!(1), &json!(2))
    );
    let members: Vec<_> = shown["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["memberId"])
        .collect();
    assert_eq!(members, [&json!(1), &json!(2)]);

    let rooms = |answer: Value| -> Vec<(i64, i64)> {
        let rooms = answer["rooms"].as_array().unwrap().iter();
        rooms
            .map(|room| (room["roomId"].as_i64().unwrap(), room["seq"].as_i64().unwrap()))
            .collect()
    };
    assert_eq!(rooms(ada.get("/api/chat/rooms").await.ok()), [(room, 2)]);
    assert_eq!(rooms(bob.get("/api/chat/rooms").await.ok()), [(room, 2), (other, 0)]);
    let page = bob.get("/api/chat/rooms?limit=1").await.ok();
    assert_eq!(page["next"], room);
    assert_eq!(
        rooms(bob.get(&format!("/api/chat/rooms?after={room}")).await.ok()),
        [(other, 0)]
    );
    assert_eq!(rooms(eve.get("/api/chat/rooms").await.ok()), []);

    let unknown = eve.get("/api/chat/rooms/999999").await;
    assert_eq!((unknown.status, unknown.code()), (404, "unknown_room"));
    for (method, path, body) in [
        ("GET", "", Value::Null),
        ("GET", "/messages", Value::Null),
        ("POST", "/messages", json!({ "clientMsgId": "c", "body": "b" })),
        ("PATCH", "/messages/1", json!({ "body": "b" })),
        ("DELETE", "/messages/1", Value::Null),
        ("PUT", "/members/3", Value::Null),
        ("DELETE", "/members/1", Value::Null),
        ("DELETE", "/members/3", Value::Null),
    ] {
        let answer = eve.ask(method, &format!("/api/chat/rooms/{room}{path}"), &body).await;
        assert_eq!((answer.status, &answer.body), (404, &unknown.body), "{method} {path}");
    }
    assert_eq!(ada.get(&format!("/api/chat/rooms/{room}")).await.ok()["seq"], 2);
    town.close().await;
}

async fn n_10_members_come_and_go(place: Place) {
    let town = Town::open(place).await;
    let [ada, bob, eve] = [1, 2, 3].map(|id| town.member(id, 0));
    let room = ada.room(&[2]).await;
    let members = async || -> Vec<i64> {
        let shown = eve.get(&format!("/api/chat/rooms/{room}")).await.ok();
        let members = shown["members"].as_array().unwrap().iter();
        members.map(|one| one["memberId"].as_i64().unwrap()).collect()
    };
    assert_eq!(bob.add(room, 3).await.status, 204, "every member adds others");
    assert_eq!(bob.add(room, 3).await.status, 204);
    assert_eq!(members().await, [1, 2, 3]);
    let refused = bob.remove(room, 3).await;
    assert_eq!((refused.status, refused.code()), (403, "not_owner"));
    assert_eq!(ada.remove(room, 2).await.status, 204);
    assert_eq!(bob.get(&format!("/api/chat/rooms/{room}")).await.status, 404);
    assert_eq!(ada.remove(room, 2).await.status, 204, "not there any more");
    assert_eq!(members().await, [1, 3]);
    assert_eq!(ada.remove(room, 1).await.status, 204, "everybody may leave");
    assert_eq!(ada.remove(room, 1).await.status, 404);
    let shown = eve.get(&format!("/api/chat/rooms/{room}")).await.ok();
    assert_eq!(
        (&shown["ownerId"], &shown["seq"]),
        (&json!(3), &json!(3)),
        "one entry for each change"
    );
    let odd = eve.add(room, -1).await;
    assert_eq!((odd.status, odd.code()), (422, "invalid"));
    town.close().await;
}

async fn n_10_a_room_has_a_limited_number_of_members(place: Place) {
    let town = Town::open(place).await;
    let ada = town.member(1, 0);
    let many: Vec<i64> = (1..=501).collect();
    let refused = ada
        .ask("POST", "/api/chat/rooms", &json!({ "name": "all", "memberIds": many }))
        .await;
    assert_eq!((refused.status, refused.code()), (409, "room_full"));
    assert!(
        refused.body["detail"].as_str().unwrap().contains("at most 500 members"),
        "{refused:?}"
    );
    let room = ada.room(&many[..500]).await;
    let refused = ada.add(room, 501).await;
    assert_eq!((refused.status, refused.code()), (409, "room_full"));
    assert_eq!(ada.remove(room, 500).await.status, 204);
    assert_eq!(ada.add(room, 501).await.status, 204);
    town.close().await;
}

async fn n_10_a_member_sees_what_is_said_while_it_is_in_the_room(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[]).await;
    ada.say(room, "before").await;
    ada.add(room, 2).await.ok();
    let second = ada.say(room, "while").await;
    let seen = bob.until_stored(room, 1).await;
    assert_eq!(
        (&seen[0]["body"], &seen[0]["messageId"]),
        (&json!("while"), &json!(second))
    );
    assert_eq!(ada.until_stored(room, 2).await.len(), 2);
    let unknown = bob.edit(room, 1, "mine").await;
    assert_eq!(
        (unknown.status, unknown.code()),
        (404, "unknown_message"),
        "it does not see the first message"
    );
    ada.remove(room, 2).await.ok();
    assert_eq!(bob.get(&format!("/api/chat/rooms/{room}/messages")).await.status, 404);
    ada.say(room, "away").await;
    ada.add(room, 2).await.ok();
    ada.say(room, "again").await;
    assert_eq!(bob.until_stored(room, 1).await[0]["body"], "again");
    town.close().await;
}
