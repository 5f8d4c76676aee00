//! Where a stream begins: after its cursor exactly, or with the latest unread notifications.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::time::Duration;

use postroom_testkit::event_stream::{EventStream, ServerEvent};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::world::{Member, Place, World, number, numbers, on_every_way, run};

on_every_way! {
    n_05_a_stream_without_a_cursor_begins_with_the_latest_ten_unread_and_goes_on_live
    n_05_a_stream_resumes_exactly_after_its_last_event
    n_05_the_id_of_another_members_event_reveals_nothing
    n_05_a_cursor_whose_frames_were_removed_begins_anew
    n_04_what_is_muted_is_not_shown_and_leaves_no_gap
    n_09_reading_tells_the_other_tabs_how_many_are_unread
}

/// The next frames of a stream, without pings.
async fn frames(stream: &mut EventStream, count: usize) -> Vec<ServerEvent> {
    let mut frames = Vec::new();
    while frames.len() < count {
        let next = stream.next().await.unwrap();
        if !next.event.is_empty() && next.event != "ping" {
            frames.push(next);
        }
    }
    frames
}

fn data(frames: &[ServerEvent]) -> Vec<Value> {
    frames.iter().map(ServerEvent::json).collect()
}

/// Nothing but pings comes for a while.
async fn is_quiet(stream: &mut EventStream) {
    let next = timeout(Duration::from_secs(2), frames(stream, 1)).await;
    assert!(next.is_err(), "{next:?}");
}

async fn told(writer: &Member, reader: &Member, post: i64, texts: std::ops::Range<usize>) {
    let before = reader.inbox().await.len();
    let count = texts.len();
    for text in texts {
        writer.comment(post, &text.to_string()).await;
    }
    reader.until_told(before + count).await;
}

async fn n_05_a_stream_without_a_cursor_begins_with_the_latest_ten_unread_and_goes_on_live(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    let mut stream = ada.stream(None).await;
    let first = frames(&mut stream, 1).await;
    assert_eq!(first[0].event, "reset");
    assert_eq!(first[0].json(), json!({ "reason": "no_cursor", "unread": 0, "top": 0 }));
    told(&bob, &ada, post, 0..12).await;
    let live = frames(&mut stream, 12).await;
    assert_eq!(numbers(&data(&live), "seq"), (1..=12).collect::<Vec<_>>());
    assert_eq!(numbers(&data(&live), "unread"), (1..=12).collect::<Vec<_>>());

    // One is read; it is not among the latest unread.
    let inbox = ada.inbox().await;
    ada.post(&format!("/api/notifications/{}/read", inbox[1]["id"]), Value::Null)
        .await
        .ok();
    let (mut stream, reset, latest) = ada.begin(10).await;
    assert_eq!(reset, json!({ "reason": "no_cursor", "unread": 11, "top": 13 }));
    assert_eq!(
        numbers(&latest, "seq"),
        [2, 3, 4, 5, 6, 7, 8, 9, 10, 12],
        "oldest first"
    );
    let cursor = stream.next().await.unwrap();
    assert_eq!((cursor.id.as_deref(), cursor.event.as_str()), (Some("13"), ""));
    bob.like(post).await;
    let live = frames(&mut stream, 1).await;
    let shown = live[0].json();
    assert_eq!(live[0].event, "notification");
    assert_eq!(
        (&shown["seq"], &shown["unread"], &shown["type"]),
        (&14.into(), &12.into(), &"POST_LIKE".into())
    );
    Uuid::try_parse(live[0].id.as_ref().unwrap()).unwrap();
    world.close().await;
}

async fn n_05_a_stream_resumes_exactly_after_its_last_event(place: Place) {
    let world = World::with(place, 2, json!({})).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    told(&bob, &ada, post, 0..3).await;
    let (_, _, latest) = ada.begin(3).await;
    assert_eq!(numbers(&latest, "seq"), [1, 2, 3]);
    let inbox = ada.inbox().await;
    let second = inbox[1]["eventId"].as_str().unwrap();
    told(&bob, &ada, post, 3..5).await;
    // The other instance knows as well where it goes on.
    let elsewhere = world.member_at(1, 1);
    for cursor in [second, "2"] {
        let mut stream = elsewhere.stream(Some(cursor)).await;
        let replayed = frames(&mut stream, 3).await;
        assert_eq!(numbers(&data(&replayed), "seq"), [3, 4, 5], "after {cursor}");
        assert_eq!(numbers(&data(&replayed), "unread"), [5, 5, 5]);
        is_quiet(&mut stream).await;
    }
    let newest = ada.inbox().await[0]["eventId"].as_str().unwrap().to_owned();
    let mut stream = elsewhere.stream(Some(&newest)).await;
    is_quiet(&mut stream).await;
    let in_address = format!("/api/notifications/stream?lastEventId={second}");
    let bearer = format!("Bearer {}", ada.token);
    let mut stream = EventStream::open(&ada.client.0, &in_address, &[("authorization", &bearer)]).await;
    assert_eq!(numbers(&data(&frames(&mut stream, 3).await), "seq"), [3, 4, 5]);
    world.close().await;
}

async fn n_05_the_id_of_another_members_event_reveals_nothing(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    bob.like(post).await;
    let of_ada = ada.until_told(1).await[0]["eventId"].as_str().unwrap().to_owned();
    let mut beginnings = Vec::new();
    for cursor in [of_ada.as_str(), &Uuid::now_v7().to_string(), "7", "nonsense", "-1"] {
        let mut stream = bob.stream(Some(cursor)).await;
        let first = frames(&mut stream, 1).await;
        beginnings.push((first[0].event.clone(), first[0].json()));
        is_quiet(&mut stream).await;
    }
    let expected = json!({ "reason": "unknown_cursor", "unread": 0, "top": 0 });
    assert!(
        beginnings
            .iter()
            .all(|(event, data)| event == "reset" && *data == expected),
        "{beginnings:?}"
    );
    world.close().await;
}

async fn n_05_a_cursor_whose_frames_were_removed_begins_anew(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    told(&bob, &ada, post, 0..4).await;
    let inbox = ada.inbox().await;
    let id = |seq: usize| inbox[4 - seq]["eventId"].as_str().unwrap();
    // The second frame is as old as frames of chat become; the others stay.
    let old = "update community_member_event set name = 'chat', created_ms = 0 where seq = 2";
    run(&world.fresh, old).await;
    world.until_removed("community_member_event where seq = 2").await;
    for (cursor, expected) in [(id(1), "expired"), ("1", "expired"), (id(2), "unknown_cursor")] {
        let mut stream = ada.stream(Some(cursor)).await;
        let first = frames(&mut stream, 1).await;
        assert_eq!(
            first[0].json(),
            json!({ "reason": expected, "unread": 4, "top": 4 }),
            "{cursor}"
        );
    }
    for cursor in [id(3), "2", "3"] {
        let mut stream = ada.stream(Some(cursor)).await;
        assert_eq!(frames(&mut stream, 1).await[0].event, "notification", "{cursor}");
    }
    world.close().await;
}

async fn n_04_what_is_muted_is_not_shown_and_leaves_no_gap(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    told(&bob, &ada, post, 0..2).await;
    let (mut stream, ..) = ada.begin(2).await;
    let cursor = ada.inbox().await[1]["eventId"].as_str().unwrap().to_owned();
    ada.mute(true).await;
    assert_eq!(ada.look("/api/notifications/settings").await, json!({ "muted": true }));
    told(&bob, &ada, post, 2..52).await;
    is_quiet(&mut stream).await;
    assert_eq!(ada.unread().await, 52, "they are stored");
    // Muted, a connection begins with no notification, and resumes with none, also of those that came before.
    let (mut anew, reset, _) = ada.begin(0).await;
    assert_eq!(reset, json!({ "reason": "no_cursor", "unread": 52, "top": 52 }));
    is_quiet(&mut anew).await;
    let mut resumed = ada.stream(Some(&cursor)).await;
    is_quiet(&mut resumed).await;

    ada.mute(false).await;
    bob.like(post).await;
    for stream in [&mut stream, &mut anew, &mut resumed] {
        let live = frames(stream, 1).await;
        assert_eq!(live[0].json()["seq"], 53, "the muted frames are no gap");
    }
    // A client that resumes from the earlier cursor gets, in order, the notifications that were not muted when they came, and
    // nothing else.
    let mut resumed = ada.stream(Some(&cursor)).await;
    let replayed = frames(&mut resumed, 2).await;
    assert_eq!(numbers(&data(&replayed), "seq"), [2, 53]);
    is_quiet(&mut resumed).await;
    assert!(
        number(
            &world.fresh,
            "select count(*) as n from community_member_event where is_silent"
        )
        .await
            == 50
    );
    world.close().await;
}

async fn n_09_reading_tells_the_other_tabs_how_many_are_unread(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    told(&bob, &ada, post, 0..3).await;
    let (mut stream, ..) = ada.begin(3).await;
    let inbox = ada.inbox().await;
    ada.post(&format!("/api/notifications/{}/read", inbox[0]["id"]), Value::Null)
        .await
        .ok();
    ada.post("/api/notifications/read-all", Value::Null).await.ok();
    ada.post("/api/notifications/read-all", Value::Null).await.ok(); // nothing is unread: nothing is told
    let told = frames(&mut stream, 2).await;
    assert_eq!(told[0].event, "unread");
    assert_eq!(
        data(&told),
        [json!({ "seq": 4, "unread": 2 }), json!({ "seq": 5, "unread": 0 })]
    );
    is_quiet(&mut stream).await;
    world.close().await;
}
