//! Notifications.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

use std::time::Duration;

use postroom_testkit::wait::until;
use serde_json::{Value, json};

use super::{Stand, through};
use crate::world::Member;

/// Ada has a post on which Bob comments: each comment is a notification of Ada.
async fn a_post(stand: &Stand) -> (Member, Member, i64) {
    let (ada, bob) = (stand.site.member(1), stand.site.member(2));
    ada.join("ada").await;
    bob.join("bob").await;
    let post = ada.publish("Noodles").await;
    (ada, bob, post)
}

async fn comment(bob: &Member, post: i64, count: usize) {
    for number in 0..count {
        bob.comment(post, &format!("comment {number}")).await;
    }
}

#[tokio::test]
async fn a_page_receives_what_a_member_is_told() {
    let mut stand = Stand::start().await;
    let (ada, bob, post) = a_post(&stand).await;
    comment(&bob, post, 2).await;
    ada.until_told(2).await;
    let page = stand.receiving(1, "{}").await;
    comment(&bob, post, 1).await;
    assert_eq!(stand.numbers(&page, 3).await, through(1, 3), "the unread ones first");
    assert_eq!(
        stand
            .run(&page, "[got[0].event, got[0].data.reason, got[0].data.top]")
            .await,
        json!(["reset", "no_cursor", 2])
    );
    let last = stand.run(&page, "got.at(-1)").await;
    assert_eq!(
        (&last["event"], &last["data"]["type"]),
        (&json!("notification"), &json!("POST_COMMENT"))
    );
    assert_eq!(
        (&last["data"]["actorId"], &last["data"]["unread"]),
        (&json!(2), &json!(3))
    );
    ada.post("/api/notifications/read-all", Value::Null).await.ok();
    stand
        .until(&page, "got.at(-1).event === 'unread' && got.at(-1).data.unread === 0")
        .await;
    stand.assert_no_errors(&page).await;
}

/// The browser is away twice, because its server is killed; Bob goes on at the other instance.
async fn resumes_exactly_after_the_server_was_killed(function: &str) {
    let mut stand = Stand::start().await;
    let (_, bob, post) = a_post(&stand).await;
    let page = stand.tab().await;
    stand.connect(&page, function, 1, "{}").await;
    stand.until(&page, "stream.state === 'open' && got.length > 0").await;
    for _ in 0..2 {
        comment(&bob, post, 3).await;
        stand.site.kill();
        comment(&bob, post, 4).await;
        stand.site.restart().await;
        comment(&bob, post, 3).await;
        stand.until(&page, "stream.state === 'open'").await;
    }
    assert_eq!(stand.numbers(&page, 20).await, through(1, 20));
    let counts = stand.run(&page, "stream.counts").await;
    assert!(
        counts["connections"].as_i64().unwrap() >= 3 && counts["duplicates"] == 0,
        "{counts}"
    );
    assert_eq!(
        stand
            .run(&page, "got.filter(({ event }) => event === 'reset').length")
            .await,
        1
    );
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_page_resumes_exactly_after_the_server_was_killed() {
    resumes_exactly_after_the_server_was_killed("connectNotifications").await;
}

#[tokio::test]
async fn a_native_event_source_resumes_exactly_after_the_server_was_killed() {
    resumes_exactly_after_the_server_was_killed("openEventSource").await;
}

#[tokio::test]
async fn three_tabs_and_one_share_one_connection() {
    let mut stand = Stand::start().await;
    let (ada, bob, post) = a_post(&stand).await;
    let mut pages = Vec::new();
    for _ in 0..4 {
        pages.push(stand.receiving(1, "{}").await);
    }
    let open = async || {
        ada.look("/api/notifications/connections").await["connections"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(open().await, 1);
    comment(&bob, post, 5).await;
    for page in &pages {
        assert_eq!(stand.numbers(page, 5).await, through(1, 5));
    }
    // Bob goes on while the tab with the connection is closed.
    comment(&bob, post, 2).await;
    stand.browser.close(pages.remove(0)).await;
    comment(&bob, post, 3).await;
    for page in &pages {
        assert_eq!(stand.numbers(page, 10).await, through(1, 10));
        stand.assert_no_errors(page).await;
    }
    until("one connection is open", async || open().await == 1).await;
}

#[tokio::test]
async fn a_muted_member_gets_chat_and_no_notification() {
    let mut stand = Stand::start().await;
    let (ada, bob, post) = a_post(&stand).await;
    let room = ada
        .post("/api/chat/rooms", json!({ "name": "r", "memberIds": [2] }))
        .await
        .created();
    let page = stand.receiving(1, "{}").await;
    comment(&bob, post, 1).await;
    stand.until(&page, "got.at(-1).event === 'notification'").await;
    ada.mute(true).await;
    comment(&bob, post, 3).await;
    ada.until_told(4).await;
    let path = format!("/api/chat/rooms/{}/messages", room["roomId"]);
    bob.post(&path, json!({ "clientMsgId": "1", "body": "still here" }))
        .await
        .created();
    stand
        .until(
            &page,
            "got.at(-1).event === 'chat' && got.at(-1).data.message === 'still here'",
        )
        .await;
    ada.mute(false).await;
    comment(&bob, post, 1).await;
    stand
        .until(
            &page,
            "got.at(-1).event === 'notification' && got.at(-1).data.unread === 5",
        )
        .await;
    let names = stand.run(&page, "got.slice(1).map(({ event }) => event)").await;
    assert_eq!(names, json!(["notification", "chat", "notification"]));
    assert_eq!(
        stand.run(&page, "stream.counts.connections").await,
        1,
        "silent numbers are no gap"
    );
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_page_outlives_its_token() {
    let mut stand = Stand::start().await;
    let (_, bob, post) = a_post(&stand).await;
    let short = stand.site.token_for(1, Duration::from_secs(4));
    // A page that ignores the expiry until the server ends the stream, and one that asks in time.
    let long = stand.site.token(1);
    let opaque = format!("{{ share: false, token: async ({{ isStale }}) => isStale ? '{long}' : '{short}' }}");
    let page = stand.receiving(1, &opaque).await;
    comment(&bob, post, 2).await;
    stand.until(&page, "stream.counts.connections === 2").await;
    comment(&bob, post, 2).await;
    assert_eq!(stand.numbers(&page, 4).await, through(1, 4));
    assert_eq!(
        stand
            .run(&page, "got.filter(({ event }) => event === 'reset').length")
            .await,
        1
    );
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_stream_ends_when_its_token_expires_and_comes_back_with_a_new_one() {
    let mut stand = Stand::start().await;
    let (_, bob, post) = a_post(&stand).await;
    let (short, long) = (stand.site.token_for(1, Duration::from_secs(3)), stand.site.token(1));
    let page = stand.tab().await;
    // A clock that is ten minutes behind: the page does not know that its token expires.
    stand
        .run(
            &page,
            "(() => { const now = Date.now; Date.now = () => now() - 600_000; })()",
        )
        .await;
    let options = format!("{{ token: async ({{ isStale }}) => isStale ? '{long}' : '{short}' }}");
    stand.connect(&page, "connectNotifications", 1, &options).await;
    stand.until(&page, "states.includes('waiting expired')").await;
    comment(&bob, post, 3).await;
    assert_eq!(stand.numbers(&page, 3).await, through(1, 3));
}

#[tokio::test]
async fn four_native_event_sources_do_not_evict_each_other_for_ever() {
    let mut stand = Stand::start().await;
    let (ada, _, _) = a_post(&stand).await;
    let page = stand.tab().await;
    let token = stand.site.token(1);
    let open = format!(
        "(async () => {{ globalThis.opened = 0; globalThis.sources = []; for (let i = 0; i < 4; i++) {{ \
         const answer = await fetch('/api/notifications/stream/ticket', {{ method: 'POST', headers: {{ authorization: 'Bearer {token}' }} }}); \
         const {{ ticket }} = await answer.json(); const source = new EventSource(`/api/notifications/stream?ticket=${{ticket}}&tab=t${{i}}`); \
         source.onopen = () => {{ opened += 1; }}; sources.push(source); await until(() => source.readyState === 1); }} }})()"
    );
    stand.run(&page, &open).await;
    stand
        .until(
            &page,
            "sources.filter(({ readyState }) => readyState === 2).length === 1",
        )
        .await;
    // Longer than an EventSource waits before it reconnects.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let states = stand
        .run(&page, "[opened, ...sources.map(({ readyState }) => readyState)]")
        .await;
    assert_eq!(
        states,
        json!([4, 2, 1, 1, 1]),
        "the oldest gave way, and was refused with 204"
    );
    let open = ada.look("/api/notifications/connections").await;
    assert_eq!(open["connections"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_evicted_page_stays_away_until_its_member_asks() {
    let mut stand = Stand::start().await;
    let (ada, bob, post) = a_post(&stand).await;
    let mut pages = Vec::new();
    for _ in 0..4 {
        pages.push(stand.receiving(1, "{ share: false }").await);
    }
    stand.until(&pages[0], "stream.state === 'evicted'").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for page in &pages[1..] {
        assert_eq!(stand.run(page, "states.at(-1)").await, "open");
    }
    assert_eq!(stand.run(&pages[0], "stream.counts.connections").await, 1);
    comment(&bob, post, 2).await;
    stand.run(&pages[0], "stream.reconnect()").await;
    assert_eq!(stand.numbers(&pages[0], 2).await, through(1, 2));
    stand.until(&pages[1], "stream.state === 'evicted'").await;
    // A member ends one of its own connections.
    let open = ada.look("/api/notifications/connections").await;
    let oldest = open["connections"][0]["id"].as_str().unwrap().to_owned();
    ada.delete(&format!("/api/notifications/connections/{oldest}"))
        .await
        .ok();
    stand.until(&pages[2], "stream.state === 'evicted'").await;
    stand.assert_no_errors(&pages[0]).await;
}
