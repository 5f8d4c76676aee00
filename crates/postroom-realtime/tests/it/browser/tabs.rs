//! Several tabs of one origin: one connection, and every event in every tab, whichever tab closes, freezes or hangs.

use std::time::Duration;

use postroom_testkit::browser::Page;
use serde_json::json;

use super::{Stand, through};

/// A tab that hangs is noticed soon.
const HASTY: &str = "{ leaderSilentMs: 500, leaderAnswerMs: 300 }";

impl Stand {
    /// Opens tabs that receive, one after the other.
    async fn tabs(&mut self, count: usize, options: &str) -> Vec<Page> {
        let mut pages = Vec::new();
        for _ in 0..count {
            let page = self.receiving(options).await;
            self.until(&page, "stream.state === 'open' && got.length > 0").await;
            pages.push(page);
        }
        pages
    }

    async fn is_leader(&mut self, page: &Page) -> bool {
        self.run(page, "stream.isLeader").await == true
    }
}

#[tokio::test]
async fn tabs_share_one_connection_and_all_see_all() {
    let mut stand = Stand::start().await;
    stand.server.script.publish(7);
    let pages = stand.tabs(4, "{}").await;
    stand.server.script.publish(20);
    for (number, page) in pages.iter().enumerate() {
        assert_eq!(stand.numbers(page).await, through(8, 27));
        assert_eq!(stand.is_leader(page).await, number == 0);
        let reason = if number == 0 { "no_cursor" } else { "joined" };
        assert_eq!(
            stand.resets(page).await,
            json!([reason]),
            "each is told to load what it shows"
        );
        assert_eq!(stand.run(page, "got[0].data.top").await, 7);
        stand.assert_no_errors(page).await;
    }
    assert_eq!(stand.server.script.requests().len(), 1);
}

#[tokio::test]
async fn the_next_tab_takes_over_when_the_leader_is_closed() {
    let mut stand = Stand::start().await;
    let mut pages = stand.tabs(3, "{}").await;
    while pages.len() > 1 {
        stand.server.script.publish(5);
        let leader = pages.remove(0);
        stand.browser.close(leader).await;
        stand.server.script.publish(5);
        stand
            .until(&pages[0], "stream.isLeader && stream.state === 'open'")
            .await;
        stand.server.script.publish(5);
        for page in &pages {
            let numbers = stand.numbers(page).await;
            assert_eq!(numbers, through(1, stand.server.script.events()));
        }
    }
    let page = pages.remove(0);
    assert_eq!(stand.run(&page, "stream.counts.duplicates").await, 0);
    assert_eq!(stand.resets(&page).await, json!(["joined"]));
    assert_eq!(stand.server.script.requests().len(), 3);
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn the_next_tab_takes_over_when_the_leader_is_frozen() {
    let mut stand = Stand::start().await;
    let pages = stand.tabs(2, "{}").await;
    stand.server.script.publish(5);
    stand.numbers(&pages[0]).await;
    stand.browser.set_frozen(&pages[0], true).await;
    stand
        .until(&pages[1], "stream.isLeader && stream.state === 'open'")
        .await;
    stand.server.script.publish(5);
    assert_eq!(stand.numbers(&pages[1]).await, through(1, 10));
    stand.browser.set_frozen(&pages[0], false).await;
    stand.server.script.publish(5);
    for page in &pages {
        assert_eq!(stand.numbers(page).await, through(1, 15));
        stand.assert_no_errors(page).await;
    }
    assert!(!stand.is_leader(&pages[0]).await);
    stand.server.script.until_open(1).await;
}

#[tokio::test]
async fn another_tab_takes_the_lead_from_one_that_hangs() {
    let mut stand = Stand::start().await;
    let pages = stand.tabs(2, HASTY).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        stand.is_leader(&pages[0]).await,
        "a leader that only has nothing to say keeps the lead"
    );
    let hang = "setTimeout(() => { for (const end = Date.now() + 6_000; Date.now() < end;); })";
    stand.run(&pages[0], hang).await;
    stand.server.script.publish(5);
    stand
        .until(&pages[1], "stream.isLeader && stream.state === 'open'")
        .await;
    stand.server.script.publish(5);
    assert_eq!(stand.numbers(&pages[1]).await, through(1, 10));
    // It answers nothing until it has ended; then it follows.
    stand.until(&pages[0], "!stream.isLeader").await;
    stand.server.script.publish(5);
    for page in &pages {
        assert_eq!(stand.numbers(page).await, through(1, 15));
        stand.assert_no_errors(page).await;
    }
    stand.server.script.until_open(1).await;
}

/// The channel between tabs loses so many of the next messages that a leader sends about events.
fn lose(count: u32) -> String {
    format!(
        "(() => {{ const send = BroadcastChannel.prototype.postMessage; let left = {count}; \
         BroadcastChannel.prototype.postMessage = function (message) {{ \
         if (message.kind === 'entry' && left-- > 0) return; send.call(this, message); }}; }})()"
    )
}

#[tokio::test]
async fn a_tab_that_missed_events_gets_them_from_the_leader() {
    let mut stand = Stand::start().await;
    let pages = stand.tabs(2, "{}").await;
    stand.run(&pages[0], &lose(100)).await;
    stand.server.script.publish(101);
    assert_eq!(stand.numbers(&pages[1]).await, through(1, 101));
    assert_eq!(stand.resets(&pages[1]).await, json!(["joined"]));
    assert_eq!(stand.server.script.requests().len(), 1);
}

#[tokio::test]
async fn a_tab_that_missed_too_many_events_begins_anew() {
    let mut stand = Stand::start().await;
    let pages = stand.tabs(2, "{}").await;
    stand.run(&pages[0], &lose(400)).await;
    stand.server.script.publish(401);
    stand.until(&pages[1], "got.at(-1).data.reason === 'missed'").await;
    assert_eq!(stand.run(&pages[1], "got.at(-1).seq").await, 401);
    stand.server.script.publish(2);
    assert_eq!(stand.numbers(&pages[1]).await, through(402, 403));
}

/// A tab that hears nothing of the leader while `isDeaf` is set.
const DEAF: &str = "(() => { const name = 'onmessage', { set } = Object.getOwnPropertyDescriptor(BroadcastChannel.prototype, name); \
    Object.defineProperty(BroadcastChannel.prototype, name, { set(hear) { \
    set.call(this, (event) => { if (!globalThis.isDeaf || !event.data.isLeader) hear(event); }); } }); })()";

#[tokio::test]
async fn a_new_leader_goes_on_where_the_tab_with_most_events_is() {
    let mut stand = Stand::start().await;
    let first = stand.receiving("{}").await;
    stand.until(&first, "stream.state === 'open'").await;
    let second = stand.tab().await;
    stand.run(&second, DEAF).await;
    stand.connect(&second, "{}").await;
    stand.until(&second, "stream.state === 'open'").await;
    let third = stand.receiving("{}").await;
    stand.until(&third, "stream.state === 'open'").await;
    stand.run(&second, "globalThis.isDeaf = true").await;
    stand.server.script.publish(3);
    assert_eq!(stand.numbers(&third).await, through(1, 3));
    assert_eq!(stand.run(&second, "got.length").await, 1);
    stand.browser.close(first).await;
    stand.until(&second, "stream.isLeader && stream.state === 'open'").await;
    stand.server.script.publish(2);
    for page in [&second, &third] {
        assert_eq!(stand.numbers(page).await, through(1, 5));
        assert_eq!(stand.run(page, "stream.counts.duplicates").await, 0);
    }
    let asked = stand.server.script.requests();
    assert_eq!(asked[1].last_event_id.as_deref(), Some("e3"), "the other tab had them");
}

#[tokio::test]
async fn an_eviction_ends_all_tabs_and_each_may_ask_for_a_connection() {
    let mut stand = Stand::start().await;
    let mut pages = stand.tabs(3, "{}").await;
    stand.server.script.send("event: evicted\ndata: {}\n\n");
    stand.server.script.cut();
    for page in &pages {
        stand.until(page, "stream.state === 'evicted'").await;
    }
    let leader = pages.remove(0);
    stand.browser.close(leader).await;
    stand.until(&pages[0], "stream.isLeader").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stand.server.script.requests().len(), 1, "the new leader was not asked");
    stand.server.script.publish(2);
    stand.run(&pages[1], "stream.reconnect()").await;
    for page in &pages {
        assert_eq!(stand.numbers(page).await, through(1, 2));
    }
    assert_eq!(stand.server.script.requests().len(), 2);
}

#[tokio::test]
async fn tabs_of_different_members_share_nothing() {
    let mut stand = Stand::start().await;
    let one = stand.receiving("{}").await;
    let two = stand.receiving("{ token: async () => jwt('2') }").await;
    for page in [&one, &two] {
        stand.until(page, "stream.state === 'open' && stream.isLeader").await;
    }
    let tokens: Vec<_> = stand
        .server
        .script
        .requests()
        .into_iter()
        .map(|asked| asked.token)
        .collect();
    assert_eq!(tokens.len(), 2);
    assert_ne!(tokens[0], tokens[1]);
}

#[tokio::test]
async fn a_tab_that_shares_nothing_has_a_connection_of_its_own() {
    let mut stand = Stand::start().await;
    let pages = stand.tabs(2, "{ share: false }").await;
    stand.server.script.until_open(2).await;
    stand.run(&pages[0], "stream.close()").await;
    stand.server.script.until_open(1).await;
    stand.server.script.publish(2);
    assert_eq!(stand.numbers(&pages[1]).await, through(1, 2));
    assert_eq!(
        stand.run(&pages[0], "[stream.state, got.length]").await,
        json!(["closed", 1])
    );
}
