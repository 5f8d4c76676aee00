//! Members are told of the events that concern them, and of each event once.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use postroom::replay::{self, Range, Replay, ReplayState};
use postroom_testkit::wait::until;
use serde_json::{Value, json};

use crate::world::{Place, World, numbers, on_every_way, run, texts};

on_every_way! {
    n_02_a_follow_a_like_and_a_comment_are_told_once_and_not_to_oneself
    n_02_a_closed_vote_is_told_to_its_author_and_to_each_of_its_many_voters
    n_02_an_event_that_comes_again_is_not_told_again
}

async fn n_02_a_follow_a_like_and_a_comment_are_told_once_and_not_to_oneself(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    ada.join("ada").await;
    bob.join("밥 🍚").await;
    let post = ada.publish("Noodles").await;
    for _ in 0..2 {
        bob.put("/community/members/1/follow", Value::Null).await.ok();
        bob.like(post).await;
    }
    bob.comment(post, "맛있다\n정말").await;
    ada.like(post).await; // not told: it is her own
    ada.comment(post, "thanks").await;

    let told = ada.until_told(3).await;
    let mut kinds = texts(&told, "type");
    kinds.sort_unstable();
    assert_eq!(kinds, ["FOLLOW", "POST_COMMENT", "POST_LIKE"]);
    let find = |kind: &str| told.iter().find(|one| one["type"] == kind).unwrap();
    assert_eq!(find("FOLLOW")["message"], "밥 🍚 follows you");
    assert_eq!(find("FOLLOW")["refId"], 2);
    assert_eq!(find("POST_LIKE")["message"], "밥 🍚 likes “Noodles”");
    assert_eq!(find("POST_LIKE")["refId"], post);
    assert_eq!(
        find("POST_COMMENT")["message"],
        "밥 🍚 commented on “Noodles”: 맛있다 정말"
    );
    assert_eq!(numbers(&told, "actorId"), [2, 2, 2]);
    assert_eq!(ada.unread().await, 3);
    assert_eq!(bob.inbox().await, Vec::<Value>::new());
    world.close().await;
}

/// More voters than one transaction tells.
const VOTERS: i64 = 250;

async fn n_02_a_closed_vote_is_told_to_its_author_and_to_each_of_its_many_voters(place: Place) {
    let world = World::on(place).await;
    let (author, voter) = (world.member(1), world.member(2));
    let vote = vote(&author, 1_500).await;
    for option in [1, 2] {
        voter
            .put(&format!("/community/votes/{vote}/ballot"), json!({ "option": option }))
            .await
            .ok();
    }
    let others: Vec<String> = (3..=VOTERS).map(|member| format!("({vote}, {member}, 1, 0)")).collect();
    let sql = format!(
        "insert into community_ballot (vote_id, member_id, option_number, cast_ms) values {}",
        others.join(", ")
    );
    run(&world.fresh, &sql).await;

    let told = author.until_told(1).await;
    assert_eq!(told[0]["type"], "VOTE_CLOSED");
    assert_eq!(told[0]["message"], "The vote “Lunch?” closed");
    assert_eq!(told[0]["refId"], vote);
    until("all voters are told", || async {
        world.number("select count(*) as n from community_notification").await >= VOTERS
    })
    .await;
    for sql in [
        "select count(*) as n from community_notification",
        "select count(distinct member_id) as n from community_notification",
        "select count(*) as n from community_member_event where name = 'notification' and seq = 1",
        "select count(*) as n from community_member_stream where unread = 1",
    ] {
        assert_eq!(world.number(sql).await, VOTERS, "{sql}");
    }
    let shown = voter.look(&format!("/community/votes/{vote}")).await;
    assert_eq!(shown["ballots"], VOTERS - 1);
    assert_eq!(
        numbers(shown["options"].as_array().unwrap(), "ballots"),
        [VOTERS - 2, 1]
    );
    let late = voter
        .put(&format!("/community/votes/{vote}/ballot"), json!({ "option": 1 }))
        .await;
    assert_eq!((late.status, late.code()), (409, "vote_closed"));
    world.close().await;
}

async fn vote(author: &crate::world::Member, open_ms: i64) -> i64 {
    let closes_at = postroom::clock::now() + time::Duration::milliseconds(open_ms);
    let wanted = json!({
        "question": "Lunch?",
        "options": ["김밥", "라면"],
        "closesAt": i64::try_from(closes_at.unix_timestamp_nanos() / 1_000_000).unwrap(),
    });
    let opened = author.post("/community/votes", wanted).await.created();
    opened["voteId"].as_i64().unwrap()
}

/// The worker gets every event once more, as after a crash between commit and acknowledgement.
async fn n_02_an_event_that_comes_again_is_not_told_again(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    for number in 0..5 {
        bob.comment(post, &number.to_string()).await;
    }
    ada.until_told(5).await;
    let again = Replay {
        route: "notification".to_owned(),
        range: Range::default(),
        per_second: 1_000,
        again: true,
    };
    until("the worker has passed these events", || async {
        replay::start(&*world.fresh, &again, "test").await.is_ok()
    })
    .await;
    until("they were delivered again", || async {
        let replays = replay::list(world.fresh.db(), 1).await.unwrap();
        let parked = world.platform_table("outbox_parked");
        let waiting = format!("select count(*) as n from {parked} where route = 'notification'");
        replays[0].state == ReplayState::Done && replays[0].parked >= 5 && world.number(&waiting).await == 0
    })
    .await;
    assert_eq!(ada.until_told(5).await.len(), 5);
    assert_eq!(ada.unread().await, 5);
    world.close().await;
}
