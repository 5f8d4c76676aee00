//! Storing that is broken, and what instances share that is away.

#![expect(clippy::unwrap_used, reason = "a test harness: a panic fails the test")]

use postroom::dead::{self, LetterState, Selection};
use postroom_testkit::event_stream::EventStream;
use postroom_testkit::fresh;
use postroom_testkit::redis_server;
use postroom_testkit::wait::until;
use serde_json::{Value, json};

use crate::world::{Place, World, on_every_way, run};

on_every_way! {
    n_11_notifications_that_cannot_be_stored_become_dead_letters_and_are_stored_when_they_are_retried
}

const LIKES: usize = 3;

async fn n_11_notifications_that_cannot_be_stored_become_dead_letters_and_are_stored_when_they_are_retried(
    place: Place,
) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let first = ada.publish("before").await;
    bob.like(first).await;
    ada.until_told(1).await;
    let (mut stream, ..) = ada.begin(1).await;
    rename(&world, "community_notification", "community_notification_away").await;
    for number in 0..LIKES {
        let post = ada.publish(&number.to_string()).await;
        bob.like(post).await;
    }
    let letters = Selection {
        routes: vec!["notification".to_owned()],
        state: Some(LetterState::Dead),
        ..Selection::default()
    };
    let count = async || dead::list(world.fresh.db(), &letters, None, 100).await.unwrap().len();
    until("each is a dead letter", || async { count().await == LIKES }).await;
    rename(&world, "community_notification_away", "community_notification").await;
    let retried = dead::retry(world.fresh.db(), &letters, "test").await.unwrap();
    assert_eq!(retried, LIKES as u64);
    let told = ada.until_told(1 + LIKES).await;
    assert!(told.iter().all(|one| one["type"] == "POST_LIKE"));
    assert_eq!(count().await, 0);
    assert_eq!(ada.unread().await, i64::try_from(1 + LIKES).unwrap());
    for _ in 0..LIKES {
        stream.next_named("notification").await;
    }
    world.close().await;
}

async fn rename(world: &World, from: &str, to: &str) {
    run(&world.fresh, &format!("alter table {from} rename to {to}")).await;
}

/// Without Redis, streams are refused clearly and end with a reason. The inbox answers, and notifications are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_08_without_redis_there_is_no_stream_and_the_inbox_answers() {
    let mut server = redis_server::redis(&[]).await;
    let world = World::on(Place::from(fresh::mysql().await).on_redis(server.url())).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    let (mut stream, ..) = ada.begin(0).await;
    server.stop().await.unwrap();
    let end = stream.next_named("end").await.json();
    assert_eq!(end["reason"], "unavailable");
    bob.comment(post, "good").await;
    assert_eq!(ada.until_told(1).await[0]["type"], "POST_COMMENT");
    assert_eq!(ada.unread().await, 1);
    until("the comment is shown", || async { ada.comment_count(post).await == 1 }).await;
    let bearer = format!("Bearer {}", ada.token);
    let refused = ada
        .client
        .must("GET", "/api/notifications/stream", &[("authorization", &bearer)], "")
        .await;
    assert_eq!((refused.status, refused.code()), (503, "unavailable"));
    assert!(refused.header("retry-after").is_some());
    server.restart().await.unwrap();
    until("streams open again", || async {
        let headers = [("authorization", bearer.as_str())];
        let opened = EventStream::open(&ada.client.0, "/api/notifications/stream", &headers).await;
        opened.status == 200
    })
    .await;
    let (_, reset, latest) = ada.begin(1).await;
    assert_eq!(
        (&reset["unread"], &latest[0]["type"]),
        (&json!(1), &json!("POST_COMMENT"))
    );
    world.close().await;
}

/// A browser's `EventSource` sends no header: a ticket opens one stream, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_03_a_ticket_opens_one_stream_once() {
    let world = World::on(Place::as_specified(fresh::mysql().await)).await;
    let ada = world.member(1);
    let issued = ada.post("/api/notifications/stream/ticket", Value::Null).await.ok();
    assert_eq!(issued["expiresInSeconds"], 30);
    let path = format!(
        "/api/notifications/stream?ticket={}&tab=a",
        issued["ticket"].as_str().unwrap()
    );
    let mut stream = EventStream::open(&ada.client.0, &path, &[]).await;
    assert_eq!(stream.status, 200);
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    stream.next_named("reset").await;
    for path in [
        path.as_str(),
        "/api/notifications/stream?ticket=forged",
        "/api/notifications/stream",
    ] {
        let refused = ada.client.must("GET", path, &[], "").await;
        assert_eq!((refused.status, refused.code()), (401, "unauthenticated"), "{path}");
    }
    // A member ends its own connections, and no other's.
    let id = stream.header("x-connection-id").unwrap().to_owned();
    let bob = world.member(2);
    assert_eq!(
        bob.delete(&format!("/api/notifications/connections/{id}")).await.status,
        204
    );
    let listed = ada.look("/api/notifications/connections").await;
    assert_eq!(listed["connections"][0]["id"], id.as_str(), "{listed}");
    assert_eq!(
        bob.look("/api/notifications/connections").await,
        json!({ "connections": [] })
    );
    assert_eq!(
        ada.delete(&format!("/api/notifications/connections/{id}")).await.status,
        204
    );
    stream.next_named("evicted").await;
    assert_eq!(stream.next().await, None);
    world.close().await;
}
