//! One tab and one connection: the format, the answers, the token, the network.

use std::time::Duration;

use serde_json::json;

use super::{Stand, through};

/// A stream with everything that the format allows.
const STREAM: &str = "\u{feff}: a comment\n\
    retry: 50\n\
    retry: soon\n\
    id: a\n\n\
    event: notification\ndata: {\"seq\":1,\ndata: \"text\":\"안녕 👋\"}\nid: b\n\n\
    data:no space\r\n\r\n\
    data:  two spaces\rid\rdata\r\r\
    event: unfinished\n\n\
    event: chat\nfield: unknown\nnocolon\ndata: {\"seq\":2}\nid: c\u{0}c\n\n\
    :\n\n\
    event: notification\ndata: {\"seq\":3}\nid: d\n\n\
    event: notification\ndata: {\"seq\":4}";

#[tokio::test]
async fn an_event_stream_is_read_however_it_is_cut() {
    let mut stand = Stand::start().await;
    let page = stand.tab().await;
    let expected = json!([
        ["notification", "b", { "seq": 1, "text": "안녕 👋" }],
        ["message", "b", "no space"],
        ["message", "", " two spaces\n"],
        ["chat", "", { "seq": 2 }],
        ["notification", "d", { "seq": 3 }],
    ]);
    for size in [1, 2, 3, 5, 7, 64, 10_000] {
        let script = format!(
            "(async () => {{ const bytes = new TextEncoder().encode({}), events = []; let at = 0; \
             const pull = (to) => at < bytes.length ? to.enqueue(bytes.slice(at, at += {size})) : to.close(); \
             const answer = () => new Response(new ReadableStream({{ pull }}), {{ headers: {{ 'content-type': 'text/event-stream' }} }}); \
             globalThis.fetch = async () => at ? new Response(null, {{ status: 204 }}) : answer(); \
             const stream = client.connectNotifications({{ url: '/stream', share: false, token: async () => jwt('1'), \
             onEvent: ({{ event, id, data }}) => events.push([event, id, data]) }}); \
             await until(() => stream.state === 'evicted'); stream.close(); return {{ events, cursor: stream.cursor }}; }})()",
            json!(STREAM)
        );
        let read = stand.run(&page, &script).await;
        assert_eq!(read["events"], expected, "{size} bytes");
        assert_eq!(read["cursor"], json!({ "id": "d", "seq": 3 }), "{size} bytes");
    }
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_connection_that_breaks_goes_on_exactly_after_its_last_event() {
    let mut stand = Stand::start().await;
    stand.server.script.publish(4);
    let page = stand.receiving("{}").await;
    stand.until(&page, "stream.state === 'open'").await;
    for _ in 0..5 {
        stand.server.script.publish(3);
        stand.server.script.cut();
        stand.server.script.publish(2);
        stand.server.script.until_open(1).await;
    }
    assert_eq!(stand.numbers(&page).await, through(5, 29));
    let counts = stand
        .run(&page, "[stream.counts.duplicates, stream.counts.connections]")
        .await;
    assert_eq!(counts, json!([0, 6]));
    assert_eq!(stand.resets(&page).await, json!(["no_cursor"]));
    let ids: Vec<_> = stand
        .server
        .script
        .requests()
        .into_iter()
        .map(|asked| asked.last_event_id)
        .collect();
    let expected = [None, Some("e7"), Some("e12"), Some("e17"), Some("e22"), Some("e27")];
    assert_eq!(ids, expected.map(|id| id.map(str::to_owned)));
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_its_first_event_misses_none() {
    let mut stand = Stand::start().await;
    let page = stand.receiving("{}").await;
    stand.until(&page, "stream.state === 'open' && got.length === 1").await;
    stand.server.script.cut();
    stand.server.script.publish(3);
    assert_eq!(stand.numbers(&page).await, through(1, 3));
    assert_eq!(stand.resets(&page).await, json!(["no_cursor"]));
}

#[tokio::test]
async fn an_event_that_comes_again_is_shown_once() {
    let mut stand = Stand::start().await;
    let page = stand.receiving("{}").await;
    stand.until(&page, "stream.state === 'open'").await;
    stand.server.script.publish(2);
    stand.server.script.send(&super::scripted::event(1));
    stand.server.script.send(&super::scripted::event(2));
    // A word to the client, and no event of the stream.
    stand
        .server
        .script
        .send("event: expiring\ndata: {\"inSeconds\":60}\n\n");
    stand.server.script.publish(1);
    assert_eq!(stand.numbers(&page).await, through(1, 3));
    assert_eq!(stand.run(&page, "got.length").await, 4);
    assert_eq!(stand.run(&page, "stream.counts.duplicates").await, 2);
}

#[tokio::test]
async fn a_page_goes_on_where_it_says_that_it_was() {
    let mut stand = Stand::start().await;
    stand.server.script.publish(9);
    let page = stand.receiving("{ cursor: { id: 'e6', seq: 6 } }").await;
    assert_eq!(stand.numbers(&page).await, through(7, 9));
    assert_eq!(stand.resets(&page).await, super::none());
}

#[tokio::test]
async fn a_refused_token_is_replaced_at_once() {
    let mut stand = Stand::start().await;
    stand.server.script.answer(401, &[]);
    let page = stand.receiving("{}").await;
    stand.until(&page, "stream.state === 'open'").await;
    // The first one names the member, so that the tabs of a member find each other.
    assert_eq!(stand.run(&page, "asked").await, json!([false, false, true]));
    assert_eq!(
        stand.run(&page, "states").await,
        json!(["connecting", "connecting", "open"])
    );
    stand.server.script.publish(1);
    stand
        .server
        .script
        .send("retry: 50\nevent: end\ndata: {\"reason\":\"expired\",\"retryMs\":50}\n\n");
    stand.server.script.cut();
    stand.server.script.publish(1);
    assert_eq!(stand.numbers(&page).await, through(1, 2));
    assert_eq!(stand.run(&page, "asked").await, json!([false, false, true, true]));
}

#[tokio::test]
async fn a_server_that_refuses_every_token_is_asked_more_and_more_rarely() {
    let mut stand = Stand::start().await;
    (0..100).for_each(|_| stand.server.script.answer(401, &[]));
    let page = stand.receiving("{ backoffMaxMs: 2_000 }").await;
    stand
        .until(
            &page,
            "states.filter((state) => state === 'waiting token').length === 3",
        )
        .await;
    let asked = stand.server.script.requests().len();
    assert!(asked <= 4, "{asked} requests");
}

#[tokio::test]
async fn a_token_is_replaced_before_it_expires() {
    let mut stand = Stand::start().await;
    let page = stand
        .receiving("{ token: async ({ isStale }) => { asked.push(isStale); return jwt('1', Date.now() / 1000 + 3); } }")
        .await;
    stand.until(&page, "stream.counts.connections === 3").await;
    stand.server.script.publish(2);
    assert_eq!(stand.numbers(&page).await, through(1, 2));
    let states = stand.run(&page, "states.slice(0, 6)").await;
    assert_eq!(
        states,
        json!(["connecting", "open", "connecting", "open", "connecting", "open"])
    );
    assert_eq!(
        stand.run(&page, "asked.slice(0, 4)").await,
        json!([false, false, true, true])
    );
}

#[tokio::test]
async fn the_token_of_another_member_opens_nothing() {
    let mut stand = Stand::start().await;
    let page = stand
        .receiving("{ token: async () => jwt(asked.push(1) === 1 ? '1' : '2') }")
        .await;
    stand.until(&page, "stream.state === 'refused'").await;
    assert_eq!(stand.server.script.requests().len(), 0);
    let page = stand.receiving("{ token: async () => undefined }").await;
    stand.until(&page, "states.at(-1) === 'refused no_token'").await;
    assert_eq!(stand.server.script.requests().len(), 0);
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says_so() {
    let mut stand = Stand::start().await;
    stand.server.script.answer(503, &[("retry-after", "1")]);
    stand.server.script.answer(500, &[]);
    let page = stand.receiving("{}").await;
    stand.until(&page, "stream.state === 'open'").await;
    let asked = stand.server.script.requests();
    let waited = asked[1].at - asked[0].at;
    assert!(
        waited >= Duration::from_secs(1) && waited < Duration::from_secs(4),
        "{waited:?}"
    );
    let states = json!([
        "connecting",
        "waiting status_503",
        "connecting",
        "waiting status_500",
        "connecting",
        "open"
    ]);
    assert_eq!(stand.run(&page, "states").await, states);
}

#[tokio::test]
async fn an_eviction_is_final_until_the_page_asks() {
    let mut stand = Stand::start().await;
    let page = stand.receiving("{}").await;
    stand.until(&page, "stream.state === 'open'").await;
    stand.server.script.publish(1);
    stand.server.script.send("event: evicted\ndata: {}\n\n");
    stand.server.script.cut();
    stand.until(&page, "stream.state === 'evicted'").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stand.server.script.requests().len(), 1);
    stand.server.script.publish(2);
    stand.run(&page, "stream.reconnect()").await;
    assert_eq!(stand.numbers(&page).await, through(1, 3));
    let asked = stand.server.script.requests();
    assert_ne!(asked[0].tab, asked[1].tab, "the evicted tab is refused for a while");
    for answer in [204, 404, 403] {
        stand.server.script.answer(answer, &[]);
        stand.run(&page, "stream.reconnect()").await;
        let state = if answer == 204 { "evicted" } else { "refused" };
        stand.until(&page, &format!("stream.state === '{state}'")).await;
    }
    stand.run(&page, "stream.reconnect()").await;
    stand.until(&page, "stream.state === 'open'").await;
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_server_that_falls_silent_is_left() {
    let mut stand = Stand::start().await;
    let page = stand.receiving("{ silenceMs: 400 }").await;
    stand.until(&page, "stream.state === 'open'").await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stand.server.script.send("event: ping\ndata: {\"at\":1}\n\n");
    }
    assert_eq!(stand.server.script.requests().len(), 1, "pings are signs of life");
    stand.until(&page, "states.includes('waiting silent')").await;
    stand.server.script.until_open(1).await;
    stand.server.script.publish(1);
    assert_eq!(stand.numbers(&page).await, through(1, 1));
}

#[tokio::test]
async fn a_page_without_a_network_goes_on_when_it_is_back() {
    let mut stand = Stand::start().await;
    let page = stand.receiving("{ backoffMaxMs: 60_000 }").await;
    stand.until(&page, "stream.state === 'open'").await;
    stand.server.script.publish(1);
    stand.numbers(&page).await;
    stand.browser.set_offline(&page, true).await;
    stand
        .until(
            &page,
            "states.includes('waiting offline') || states.includes('waiting network')",
        )
        .await;
    stand.server.script.publish(3);
    stand.browser.set_offline(&page, false).await;
    assert_eq!(stand.numbers(&page).await, through(1, 4));
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_mistake_of_the_page_ends_no_connection() {
    let mut stand = Stand::start().await;
    let page = stand
        .receiving("{ onEvent: (event) => { got.push(event); if (event.seq === 1) throw new Error('mine'); } }")
        .await;
    stand.until(&page, "stream.state === 'open'").await;
    stand.server.script.publish(2);
    assert_eq!(stand.numbers(&page).await, through(1, 2));
    let errors = stand.browser.errors(&page).await;
    assert!(errors.len() == 1 && errors[0].contains("mine"), "{errors:?}");
}

#[tokio::test]
async fn a_native_event_source_pays_each_connection_with_a_ticket() {
    let mut stand = Stand::start().await;
    let page = stand.tab().await;
    let open = "globalThis.stream = client.openEventSource({ url: '/stream', backoffMaxMs: 100, token: async () => jwt('1'), \
        onEvent: (event) => got.push(event), onState: ({ state }) => states.push(state) }); 0";
    stand.run(&page, open).await;
    stand.until(&page, "stream.state === 'open'").await;
    stand.server.script.publish(2);
    stand.numbers(&page).await;
    stand.server.script.cut();
    stand.server.script.publish(2);
    assert_eq!(stand.numbers(&page).await, through(1, 4));
    stand.server.script.send("event: evicted\ndata: {}\n\n");
    stand.server.script.cut();
    stand.until(&page, "stream.state === 'evicted'").await;
    let asked = stand.server.script.requests();
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0].ticket, asked[1].ticket);
    assert_eq!(
        (&asked[0].last_event_id, asked[1].last_event_id.as_deref()),
        (&None, Some("e2"))
    );
    assert!(asked.iter().all(|asked| asked.token.is_none()));
    stand.assert_no_errors(&page).await;
}
