//! The inbox: list, unread, read one, read all, of the member alone.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use futures::future::join_all;
use serde_json::Value;

use crate::world::{Member, Place, World, numbers, on_every_way, run};

on_every_way! {
    n_09_an_inbox_is_paged_and_read_one_by_one_and_at_once
    n_09_another_members_notification_is_one_that_does_not_exist
    n_09_the_number_of_unread_never_drifts
}

async fn n_09_an_inbox_is_paged_and_read_one_by_one_and_at_once(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    for number in 0..7 {
        bob.comment(post, &number.to_string()).await;
    }
    let all = ada.until_told(7).await;
    let ids = numbers(&all, "id");
    assert!(ids.is_sorted_by(|one, next| one > next), "newest first: {ids:?}");

    let (mut paged, mut path) = (Vec::new(), "/api/notifications?limit=3".to_owned());
    let mut pages = Vec::new();
    loop {
        let page = ada.look(&path).await;
        let items = page["notifications"].as_array().unwrap().clone();
        pages.push(items.len());
        paged.extend(items);
        match page["next"].as_i64() {
            Some(next) => path = format!("/api/notifications?limit=3&before={next}"),
            None => break,
        }
    }
    assert_eq!((paged, pages), (all, vec![3, 3, 1]));
    for odd in ["limit=0", "limit=101", "limit=x", "before=x", "after=1"] {
        let refused = ada.get(&format!("/api/notifications?{odd}")).await;
        assert_eq!((refused.status, refused.code()), (422, "invalid"), "{odd}");
    }

    let read = |id: i64| format!("/api/notifications/{id}/read");
    for _ in 0..2 {
        let answer = ada.post(&read(ids[2]), Value::Null).await.ok();
        assert_eq!(answer["unread"], 6);
    }
    assert_eq!(ada.unread().await, 6);
    let read_at: Vec<bool> = ada.inbox().await.iter().map(|one| one["readAt"].is_i64()).collect();
    assert_eq!(read_at, [false, false, true, false, false, false, false]);
    for _ in 0..2 {
        let answer = ada.post("/api/notifications/read-all", Value::Null).await.ok();
        assert_eq!(answer["unread"], 0);
    }
    assert_eq!(ada.unread().await, 0);
    assert!(ada.inbox().await.iter().all(|one| one["readAt"].is_i64()));
    world.close().await;
}

async fn n_09_another_members_notification_is_one_that_does_not_exist(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    bob.like(post).await;
    let told = ada.until_told(1).await;
    assert_eq!(bob.inbox().await, Vec::<Value>::new());
    assert_eq!(bob.unread().await, 0);
    let of_ada = format!("/api/notifications/{}/read", told[0]["id"]);
    let unknown = "/api/notifications/999999/read";
    let refused = bob.post(&of_ada, Value::Null).await;
    assert_eq!(refused.status, 404);
    assert_eq!(
        refused,
        bob.post(unknown, Value::Null).await,
        "nothing tells them apart"
    );
    assert_eq!(
        bob.post("/api/notifications/read-all", Value::Null).await.ok()["unread"],
        0
    );
    assert_eq!(ada.unread().await, 1);
    for (method, path) in [
        ("GET", "/api/notifications"),
        ("GET", "/api/notifications/unread"),
        ("GET", "/api/notifications/settings"),
        ("POST", "/api/notifications/read-all"),
        ("GET", "/api/notifications/stream"),
        ("GET", "/community/posts"),
    ] {
        let refused = ada.client.must(method, path, &[], "").await;
        assert_eq!(
            (refused.status, refused.code()),
            (401, "unauthenticated"),
            "{method} {path}"
        );
    }
    let service = world.keys.mint("till", std::time::Duration::from_secs(60)).unwrap();
    let service = Member { token: service, ..ada };
    assert_eq!(service.get("/api/notifications").await.code(), "not_a_member");
    world.close().await;
}

/// Notifications come, are read one by one and at once, and are removed, all at the same time. Again and again the number that is
/// kept is compared with the rows.
async fn n_09_the_number_of_unread_never_drifts(place: Place) {
    let world = World::on(place).await;
    let (ada, members) = (world.member(1), [2, 3, 4, 5].map(|id| world.member(id)));
    let post = ada.publish("Noodles").await;
    let mut expected = 0;
    for round in 0..6_u32 {
        let write = async |member: &Member| {
            for number in 0..4 {
                member.comment(post, &format!("{round} {number}")).await;
            }
        };
        let read = async |turn: usize| {
            let inbox = ada.inbox().await;
            for one in inbox.iter().skip(turn).step_by(3).take(4) {
                ada.post(&format!("/api/notifications/{}/read", one["id"]), Value::Null)
                    .await
                    .ok();
            }
            if (round as usize + turn).is_multiple_of(3) {
                ada.post("/api/notifications/read-all", Value::Null).await.ok();
            }
        };
        let prune = async {
            let some = "update community_notification set created_ms = 0 where notification_id % 5 = 0";
            run(&world.fresh, some).await;
            world.run_soon("community-retention").await;
        };
        tokio::join!(join_all(members.iter().map(write)), join_all((0..3).map(read)), prune);
        expected += 16;
        // Each event made exactly one frame, whatever became of its notification.
        let frames = "select count(*) as n from community_member_event where member_id = 1 and name = 'notification'";
        postroom_testkit::wait::until("all are told", || async { world.number(frames).await == expected }).await;
        assert_eq!(ada.unread().await, unread_rows(&world).await, "after round {round}");
    }
    world.until_removed("community_notification where created_ms = 0").await;
    assert_eq!(ada.unread().await, unread_rows(&world).await, "after retention");
    let highest = "select max(seq) as n from community_member_event where member_id = 1";
    let rows = "select count(*) as n from community_member_event where member_id = 1";
    assert_eq!(
        world.number(highest).await,
        world.number(rows).await,
        "no hole in the stream"
    );
    world.close().await;
}

async fn unread_rows(world: &World) -> i64 {
    let sql = "select count(*) as n from community_notification where member_id = 1 and read_ms is null";
    world.number(sql).await
}
