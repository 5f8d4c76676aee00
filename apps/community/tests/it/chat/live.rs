//! The live order of a room: the same for everybody, whatever happens to connections and to history.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use futures::future::join_all;
use serde_json::{Value, json};

use super::town::{Member, Socket, Town, bodies};
use crate::world::{Place, on_every_way};

on_every_way! {
    n_10_all_receivers_see_a_room_in_the_same_order
    n_10_a_client_that_comes_back_sees_each_entry_once
    n_10_edits_and_deletes_are_seen_by_those_who_were_away
    n_10_a_removed_member_sees_nothing_more
    n_10_a_member_who_is_added_again_goes_on_there
    n_10_an_instance_that_was_killed_loses_nothing
    n_10_messages_of_others_come_by_server_sent_events
}

const SENDERS: i64 = 4;
const EACH: usize = 12;

async fn chatter(member: &Member, room: i64) {
    for number in 0..EACH {
        member.say(room, &format!("{} says {number}", member.id)).await;
    }
}

/// Senders and receivers are at both instances.
async fn n_10_all_receivers_see_a_room_in_the_same_order(place: Place) {
    let town = Town::open(place).await;
    let senders: Vec<Member> = (1..=SENDERS)
        .map(|id| town.member(id, usize::from(id % 2 == 0)))
        .collect();
    let room = senders[0].room(&(1..=SENDERS + 4).collect::<Vec<_>>()).await;
    let other = senders[0].room(&[]).await;
    let receivers = (SENDERS + 1..=SENDERS + 4).map(|id| town.member(id, usize::from(id % 2 == 0)));
    let mut sockets: Vec<Socket> =
        join_all(receivers.map(|member| async move { member.follow(room, None).await })).await;
    let talking = join_all(senders.iter().map(|sender| chatter(sender, room)));
    let total = SENDERS * EACH as i64;
    let listening = join_all(sockets.iter_mut().map(|socket| socket.entries(0, total)));
    let aside = async {
        for _ in 0..5 {
            senders[0].say(other, "aside").await;
        }
    };
    let (_, seen, ()) = tokio::join!(talking, listening, aside);
    for entries in &seen {
        assert_eq!(bodies(entries), bodies(&seen[0]));
    }
    for sender in 1..=SENDERS {
        let own = bodies(&seen[0])
            .into_iter()
            .filter(|body| body.starts_with(&format!("{sender} ")));
        let expected = (0..EACH).map(|number| format!("{sender} says {number}"));
        assert!(own.eq(expected), "in the order of the sender {sender}");
    }
    let history = senders[0].until_stored(room, senders.len() * EACH).await;
    let history: Vec<_> = history
        .iter()
        .map(|message| message["body"].as_str().unwrap())
        .collect();
    assert_eq!(history, bodies(&seen[0]), "history has the same order");
    town.close().await;
}

/// The client breaks its connection again and again while others speak, and comes back to one instance or the other.
async fn n_10_a_client_that_comes_back_sees_each_entry_once(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 0));
    let room = ada.room(&[2]).await;
    let talking = async {
        for number in 1..=60 {
            ada.say(room, &number.to_string()).await;
        }
    };
    let listening = async {
        let (mut seen, mut turn): (Vec<Value>, usize) = (Vec::new(), 0);
        while seen.len() < 60 {
            let member = Member {
                client: town.member(2, turn % 2).client,
                ..bob.clone()
            };
            let after = seen.len() as i64;
            let mut socket = member.follow(room, Some(after)).await;
            seen.extend(socket.entries(after, (after + 7).min(60)).await);
            turn += 1;
        }
        seen
    };
    let ((), seen) = tokio::join!(talking, listening);
    let expected: Vec<String> = (1..=60).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&seen), expected);
    town.close().await;
}

async fn n_10_edits_and_deletes_are_seen_by_those_who_were_away(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let mut socket = bob.follow(room, None).await;
    let (first, second) = (ada.say(room, "helo").await, ada.say(room, "regret").await);
    assert_eq!(bodies(&socket.entries(0, 2).await), ["helo", "regret"]);
    drop(socket);
    ada.edit(room, first, "hello").await.ok();
    ada.delete(room, second).await.ok();
    ada.say(room, "news").await;
    let missed = bob.follow(room, Some(2)).await.entries(2, 5).await;
    let shown: Vec<_> = missed
        .iter()
        .map(|frame| (&frame["event"], &frame["data"]["messageId"]))
        .collect();
    let expected =
        [("edited", first), ("deleted", second), ("message", 5)].map(|(event, id)| (json!(event), json!(id)));
    assert!(
        shown.into_iter().eq(expected.iter().map(|(event, id)| (event, id))),
        "{missed:#?}"
    );
    assert_eq!(bodies(&missed), ["hello", "-", "news"]);
    town.close().await;
}

/// The last entry that the member sees is the one by which it left.
async fn n_10_a_removed_member_sees_nothing_more(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let (room, other) = (ada.room(&[2]).await, ada.room(&[2]).await);
    let mut socket = bob.follow(room, None).await;
    socket.join(other, None).await;
    ada.say(room, "hello").await;
    assert_eq!(bodies(&socket.entries(0, 1).await), ["hello"]);
    ada.remove(room, 2).await.ok();
    for number in 0..20 {
        ada.say(room, &format!("not for bob {number}")).await;
    }
    let left = socket.named("left").await;
    assert_eq!(
        (&left["seq"], &left["data"]["memberId"], &left["data"]["actorId"]),
        (&json!(2), &json!(2), &json!(1))
    );
    ada.say(other, "for bob").await;
    assert_eq!(
        socket.named("message").await["data"]["body"],
        "for bob",
        "the other room goes on"
    );

    socket
        .send(&json!({ "type": "join", "roomId": room, "after": 1 }))
        .await;
    let refused = socket.named("error").await;
    assert_eq!(
        (&refused["code"], &refused["roomId"]),
        (&json!("unknown_room"), &json!(room))
    );
    ada.until_stored(room, 21).await;
    ada.say(other, "done").await;
    assert_eq!(
        socket.named("message").await["data"]["body"],
        "done",
        "nothing came between"
    );
    town.until_no_row_contains("community_member_event", "not for bob")
        .await;
    town.close().await;
}

async fn n_10_a_member_who_is_added_again_goes_on_there(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let mut socket = bob.follow(room, None).await;
    ada.remove(room, 2).await.ok();
    socket.named("left").await;
    ada.say(room, "away").await;
    ada.add(room, 2).await.ok();
    ada.say(room, "back").await;
    socket
        .send(&json!({ "type": "join", "roomId": room, "after": 1 }))
        .await;
    let reset = socket.named("reset").await;
    assert_eq!(
        (&reset["roomId"], &reset["seq"]),
        (&json!(room), &json!(4)),
        "its number is one of another stay"
    );
    assert_eq!(socket.named("joined").await["seq"], 4);
    ada.say(room, "news").await;
    assert_eq!(bodies(&socket.entries(4, 5).await), ["news"]);
    let seen = bob.follow(room, Some(2)).await.entries(2, 5).await;
    assert_eq!(seen[0]["event"], "entered");
    town.close().await;
}

/// The events that it has not delivered are delivered by the other one.
async fn n_10_an_instance_that_was_killed_loses_nothing(place: Place) {
    let mut town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let mut socket = bob.follow(room, None).await;
    for number in 1..=20 {
        ada.say(room, &number.to_string()).await;
    }
    town.0.kill(0);
    let seen = socket.entries(0, 20).await;
    let expected: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&seen), expected);
    bob.until_stored(room, 20).await;
    town.0.start(0).await;
    let mut again = town.member(2, 0).follow(room, Some(18)).await;
    assert_eq!(bodies(&again.entries(18, 20).await), ["19", "20"]);
    town.close().await;
}

/// The stream of a member has the messages of others, and no text that is gone.
async fn n_10_messages_of_others_come_by_server_sent_events(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let (own, other) = (town.0.member_at(1, 0), town.0.member_at(2, 1));
    let (mut at_ada, ..) = own.begin(0).await;
    let (mut at_bob, reset, _) = other.begin(0).await;
    other.mute(true).await;
    let message = ada.say(room, "secret").await;
    let chat = at_bob.next_named("chat").await;
    let cursor = chat.id.clone();
    let chat = chat.json();
    assert_eq!(
        (&chat["roomId"], &chat["senderId"], &chat["message"]),
        (&json!(room), &json!(1), &json!("secret"))
    );
    assert_eq!(
        (&chat["messageId"], &chat["roomSeq"], &chat["kind"]),
        (&json!(message), &json!(1), &json!("message"))
    );
    assert!(chat["seq"].as_i64() > reset["top"].as_i64(), "{chat}");

    ada.delete(room, message).await.ok();
    let gone = at_bob.next_named("chat").await.json();
    assert_eq!(
        (&gone["kind"], &gone["message"], &gone["isDeleted"]),
        (&json!("delete"), &json!(""), &json!(true))
    );
    town.until_no_row_contains("community_member_event", "secret").await;
    let again = other.stream(cursor.as_deref()).await.next_named("chat").await.json();
    assert_eq!(again, gone, "it resumes behind the message");

    ada.remove(room, 2).await.ok();
    ada.say(room, "not for bob").await;
    let open = bob.room(&[1]).await;
    bob.say(open, "for ada").await;
    assert_eq!(
        at_ada.next_named("chat").await.json()["message"],
        "for ada",
        "not what it said itself"
    );
    ada.say(open, "for bob").await;
    assert_eq!(
        at_bob.next_named("chat").await.json()["message"],
        "for bob",
        "nothing of the room that it left"
    );
    town.close().await;
}
