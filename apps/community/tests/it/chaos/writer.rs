//! Writers: they go on whatever is killed, and send again what has had no answer.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_testkit::client::Answer;
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use crate::world::Member;

/// Between two requests of a writer.
const PACE: Duration = Duration::from_millis(200);
/// Before a request is sent again.
const PAUSE: Duration = Duration::from_millis(300);

/// Says something in the rooms in turn until the end; answers how often. A message without an answer is sent again under its id, so
/// it is one message.
pub(super) async fn talk(writer: &Member, rooms: &[i64], is_over: &AtomicBool) -> i64 {
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let room = rooms[count % rooms.len()];
        let message = json!({ "clientMsgId": Uuid::now_v7().to_string(), "body": format!("{count} 안녕") });
        let path = format!("/api/chat/rooms/{room}/messages");
        while accepted(writer, &path, &message).await.is_none() {
            sleep(PAUSE).await;
        }
        count += 1;
        sleep(PACE).await;
    }
    count as i64
}

/// Comments on the posts in turn until the end; answers how many comments were confirmed. What became of others is in the database.
pub(super) async fn comment(writer: &Member, posts: &[i64], is_over: &AtomicBool) -> i64 {
    let (mut turn, mut count) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let path = format!("/community/posts/{}/comments", posts[turn % posts.len()]);
        turn += 1;
        match accepted(writer, &path, &json!({ "body": "맛있다" })).await {
            Some(_comment) => count += 1,
            None => sleep(PAUSE).await,
        }
        sleep(PACE).await;
    }
    count
}

/// The answer to a request that was accepted; none, if its instance was killed or could not do it now.
async fn accepted(writer: &Member, path: &str, body: &Value) -> Option<Value> {
    match writer.try_post(path, body).await {
        Ok(Answer { status: 201, body, .. }) => Some(body),
        Ok(Answer {
            status: 429 | 500..600, ..
        }) => None,
        Ok(odd) => panic!("{odd:?}"),
        Err(_broken) => None,
    }
}
