//! Chat over a WebSocket: rooms that go on exactly, and messages that are sent until they are stored.

use postroom_testkit::browser::Page;
use serde_json::{Value, json};

use super::Stand;

impl Stand {
    /// Opens a tab that chats as `chat`.
    async fn chatting(&mut self, rooms: &str) -> Page {
        let page = self.tab().await;
        self.chat(&page, rooms).await;
        page
    }

    async fn chat(&mut self, page: &Page, rooms: &str) {
        let script = format!(
            "globalThis.sends = []; globalThis.chat = client.connectChat({{ url: '/ws', backoffMaxMs: 50, rooms: {rooms}, \
             token: async ({{ isStale }}) => {{ asked.push(isStale); return jwt('1'); }}, onEvent: (event) => got.push(event), \
             onSend: ({{ body, state }}) => sends.push(`${{body}} ${{state}}`), \
             onState: ({{ state, reason }}) => states.push(reason ? `${{state}} ${{reason}}` : state) }}); 0"
        );
        self.run(page, &script).await;
    }

    fn message(&self, seq: u64, body: &str) {
        let data = json!({ "roomId": 10, "messageId": seq, "senderId": 2, "body": body });
        self.server
            .script
            .tell(&json!({ "event": "message", "id": format!("e{seq}"), "seq": seq, "data": data }));
    }

    fn joined(&self, seq: u64) {
        self.server
            .script
            .tell(&json!({ "event": "joined", "roomId": 10, "seq": seq }));
    }
}

fn join(after: Value) -> Value {
    json!({ "type": "join", "roomId": 10, "after": after })
}

#[tokio::test]
async fn a_room_goes_on_exactly_after_its_last_event() {
    let mut stand = Stand::start().await;
    let page = stand.chatting("[10]").await;
    stand.server.script.hear(json!({ "type": "auth" })).await;
    stand.server.script.hear(join(Value::Null)).await;
    stand.joined(41);
    stand.message(42, "a");
    stand.message(42, "a");
    stand.until(&page, "chat.counts.duplicates === 1").await;
    stand.server.script.hang_up(1012);
    stand.server.script.hear(join(json!(42))).await;
    stand.joined(42);
    stand.message(43, "b");
    // One is missing: the room is joined anew.
    stand.message(45, "d");
    stand.server.script.hear(json!({ "type": "leave", "roomId": 10 })).await;
    stand.server.script.hear(join(json!(43))).await;
    stand.message(44, "c");
    stand.message(45, "d");
    stand.until(&page, "got.at(-1).seq === 45").await;
    let bodies = stand
        .run(
            &page,
            "got.filter(({ event }) => event === 'message').map(({ data }) => data.body).join('')",
        )
        .await;
    assert_eq!(bodies, "abcd");
    stand
        .server
        .script
        .tell(&json!({ "event": "reset", "roomId": 10, "seq": 90, "reason": "expired" }));
    stand.joined(90);
    stand.message(91, "z");
    stand.until(&page, "got.at(-1).seq === 91").await;
    stand.run(&page, "chat.leave(10)").await;
    stand.server.script.hear(json!({ "type": "leave", "roomId": 10 })).await;
    stand.message(92, "not for a page that has left");
    stand.run(&page, "chat.join(11, 5)").await;
    stand
        .server
        .script
        .hear(json!({ "type": "join", "roomId": 11, "after": 5 }))
        .await;
    assert_eq!(
        stand.run(&page, "[chat.after(10) ?? null, got.at(-1).seq]").await,
        json!([null, 91])
    );
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_message_is_sent_until_it_is_stored() {
    let mut stand = Stand::start().await;
    let page = stand.chatting("[{ roomId: 10, after: 0 }]").await;
    stand.server.script.hear(join(json!(0))).await;
    stand.joined(0);
    stand.until(&page, "chat.state === 'open'").await;
    stand.run(&page, "chat.send(10, 'a')").await;
    let first = stand
        .server
        .script
        .hear(json!({ "type": "send", "roomId": 10, "body": "a" }))
        .await;
    assert_eq!(stand.run(&page, "sends").await, json!(["a waiting"]));
    // The answer is lost with the connection; another message is written meanwhile.
    stand.server.script.hang_up(1013);
    stand.until(&page, "chat.state !== 'open'").await;
    stand.run(&page, "chat.send(10, 'b')").await;
    let again = stand.server.script.hear(json!({ "type": "send", "body": "a" })).await;
    assert_eq!(again, first, "the same id");
    let second = stand.server.script.hear(json!({ "type": "send", "body": "b" })).await;
    let sent = |message: &Value, seq: u64| json!({ "event": "sent", "roomId": 10, "clientMsgId": message["clientMsgId"], "seq": seq, "messageId": seq });
    stand.server.script.tell(&sent(&first, 1));
    // Storing may be told before the answer.
    stand
        .server
        .script
        .tell(&json!({ "event": "stored", "roomId": 10, "seq": 2 }));
    stand.server.script.tell(&sent(&second, 2));
    stand.until(&page, "sends.length === 5").await;
    let expected = json!(["a waiting", "b waiting", "a sending", "b sending", "b stored"]);
    assert_eq!(stand.run(&page, "sends").await, expected);
    stand
        .server
        .script
        .tell(&json!({ "event": "stored", "roomId": 10, "seq": 1 }));
    stand.until(&page, "chat.outbox.length === 0").await;
    assert_eq!(stand.run(&page, "sends.at(-1)").await, "a stored");
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn a_page_that_is_loaded_again_sends_what_was_not_stored() {
    let mut stand = Stand::start().await;
    let page = stand.chatting("[10]").await;
    stand.run(&page, "chat.send(10, 'a')").await;
    let first = stand.server.script.hear(json!({ "type": "send", "body": "a" })).await;
    let address = format!("{}/page?again", stand.server.url);
    stand.browser.visit(&page, &address).await;
    stand.load(&page).await;
    stand.chat(&page, "[10]").await;
    assert_eq!(
        stand.server.script.hear(json!({ "type": "send", "body": "a" })).await,
        first
    );
    let refusal =
        json!({ "event": "error", "code": "unknown_room", "detail": "no", "clientMsgId": first["clientMsgId"] });
    stand.server.script.tell(&refusal);
    stand
        .until(&page, "chat.outbox.length === 0 && sends.at(-1) === 'a refused'")
        .await;
}

#[tokio::test]
async fn edits_and_deletes_are_answered_once_the_room_shows_them() {
    let mut stand = Stand::start().await;
    let page = stand.chatting("[{ roomId: 10, after: 5 }]").await;
    stand.server.script.hear(join(json!(5))).await;
    stand.joined(5);
    stand.until(&page, "chat.state === 'open'").await;
    stand.run(&page, "globalThis.edited = chat.edit(10, 4, 'new'); 0").await;
    stand
        .server
        .script
        .hear(json!({ "type": "edit", "roomId": 10, "messageId": 4, "body": "new" }))
        .await;
    stand.server.script.hang_up(4003);
    stand
        .server
        .script
        .hear(json!({ "type": "edit", "messageId": 4, "body": "new" }))
        .await;
    let data = json!({ "roomId": 10, "messageId": 4, "senderId": 1, "body": "new" });
    stand
        .server
        .script
        .tell(&json!({ "event": "edited", "id": "x", "seq": 6, "data": data }));
    assert_eq!(stand.run(&page, "edited.then(({ seq }) => seq)").await, 6);
    stand
        .run(
            &page,
            "globalThis.removed = chat.remove(10, 4).catch(({ code }) => code); 0",
        )
        .await;
    stand
        .server
        .script
        .hear(json!({ "type": "delete", "roomId": 10, "messageId": 4 }))
        .await;
    let refusal = json!({ "event": "error", "code": "not_your_message", "detail": "no", "roomId": 10, "messageId": 4 });
    stand.server.script.tell(&refusal);
    assert_eq!(stand.run(&page, "removed").await, "not_your_message");
    stand.assert_no_errors(&page).await;
}

#[tokio::test]
async fn the_server_says_how_a_connection_ends() {
    let mut stand = Stand::start().await;
    let page = stand.chatting("[10]").await;
    stand.server.script.hear(join(Value::Null)).await;
    stand.joined(0);
    stand.until(&page, "chat.state === 'open'").await;
    stand.server.script.tell(&json!({ "event": "ping" }));
    stand.server.script.hear(json!({ "type": "pong" })).await;
    stand
        .server
        .script
        .tell(&json!({ "event": "expiring", "inSeconds": 60 }));
    stand.server.script.hear(json!({ "type": "refresh" })).await;
    assert_eq!(stand.run(&page, "asked").await, json!([false, false, true]));
    stand.server.script.hang_up(4006); // the token is refused
    stand.server.script.hear(json!({ "type": "auth" })).await;
    stand.server.script.hear(join(json!(0))).await;
    assert_eq!(stand.run(&page, "asked").await, json!([false, false, true, true]));
    stand.joined(0);
    stand
        .server
        .script
        .tell(&json!({ "event": "end", "reason": "drain", "retryMs": 20 }));
    stand.server.script.hang_up(1012);
    stand.server.script.hear(join(json!(0))).await;
    assert!(stand.run(&page, "states.includes('waiting drain')").await == true);
    stand.joined(0);
    stand.server.script.hang_up(4002);
    stand.until(&page, "chat.state === 'evicted'").await;
    stand.run(&page, "chat.reconnect()").await;
    stand.server.script.hear(join(json!(0))).await;
    stand.run(&page, "chat.close()").await;
    assert_eq!(stand.run(&page, "chat.state").await, "closed");
    stand.assert_no_errors(&page).await;
}
