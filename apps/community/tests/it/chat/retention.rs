//! Messages are kept for thirty days.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use postroom_testkit::wait::until;
use sea_orm::ConnectionTrait;
use serde_json::json;

use super::town::{Town, bodies};
use crate::world::{Place, on_every_way};

on_every_way! {
    n_10_messages_are_removed_after_thirty_days_and_cursors_from_before_are_told
}

async fn n_10_messages_are_removed_after_thirty_days_and_cursors_from_before_are_told(place: Place) {
    let town = Town::open(place).await;
    let ada = town.member(1, 0);
    let room = ada.room(&[]).await;
    for number in 1..=6 {
        ada.say(room, &number.to_string()).await;
    }
    ada.edit(room, 2, "edited lately").await.ok();
    ada.until_stored(room, 6).await;
    let db = town.0.fresh.db();
    let month = 31_i64 * 86_400_000;
    for sql in [
        format!("update community_chat_send set created_ms = created_ms - {month} where room_id = {room} and seq <= 4"),
        format!(
            "update community_chat_message set sent_ms = sent_ms - {month} where room_id = {room} and message_id <= 4"
        ),
    ] {
        db.execute_unprepared(&sql).await.unwrap();
    }
    let horizon = format!("select horizon as n from community_room where room_id = {room}");
    until("old messages are gone", || async {
        town.0.run_soon("community-chat-retention").await;
        ada.history(room).await.len() == 2 && town.0.number(&horizon).await == 4
    })
    .await;
    assert_eq!(ada.history(room).await[0]["body"], "5");

    let whole = ada.follow(room, Some(4)).await.entries(4, 7).await;
    assert_eq!(
        bodies(&whole),
        ["5", "6", "edited lately"],
        "nothing after this number is missing"
    );
    let mut late = ada.socket().await;
    late.send(&json!({ "type": "join", "roomId": room, "after": 3 })).await;
    let reset = late.named("reset").await;
    assert_eq!(
        reset,
        json!({ "event": "reset", "roomId": room, "seq": 7, "reason": "expired" })
    );
    assert_eq!(late.named("joined").await["seq"], 7);
    late.send(&json!({ "type": "join", "roomId": room, "after": 99 })).await;
    assert_eq!(late.named("reset").await["reason"], "unknown_cursor");
    assert_eq!(ada.say(room, "8").await, 8, "numbers go on");
    town.close().await;
}
