//! Chat.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

use postroom_testkit::browser::Page;
use serde_json::{Value, json};

use super::Stand;
use crate::world::Member;

impl Stand {
    /// Opens a tab in which a member chats as `chat`, and waits until it follows the room.
    async fn chatting(&mut self, member: i64, room: i64) -> Page {
        let (page, token) = (self.tab().await, self.site.token(member));
        let script = format!(
            "globalThis.sends = []; globalThis.chat = client.connectChat({{ url: '/api/chat/ws', backoffMaxMs: 500, \
             rooms: [{{ roomId: {room}, after: 0 }}], token: async () => '{token}', onEvent: (event) => got.push(event), \
             onSend: ({{ body, state }}) => sends.push(`${{body}} ${{state}}`), onState: ({{ state }}) => states.push(state) }}); 0"
        );
        self.run(&page, &script).await;
        self.until(
            &page,
            "chat.state === 'open' && got.some(({ event }) => event === 'joined')",
        )
        .await;
        page
    }

    /// The texts of the messages that a tab has received, in their order.
    async fn texts(&mut self, page: &Page) -> Value {
        let texts = "got.filter(({ event }) => event === 'message').map(({ data }) => data.body)";
        self.run(page, texts).await
    }
}

async fn a_room(stand: &Stand) -> (Member, i64) {
    let ada = stand.site.member(1);
    let room = ada
        .post("/api/chat/rooms", json!({ "name": "r", "memberIds": [2] }))
        .await
        .created();
    (ada, room["roomId"].as_i64().unwrap())
}

#[tokio::test]
async fn a_message_is_sent_stored_edited_and_deleted() {
    let mut stand = Stand::start().await;
    let (ada, room) = a_room(&stand).await;
    let (sender, receiver) = (stand.chatting(1, room).await, stand.chatting(2, room).await);
    stand.run(&sender, &format!("chat.send({room}, '안녕 👋')")).await;
    stand.until(&sender, "sends.length === 3").await;
    let expected = json!(["안녕 👋 waiting", "안녕 👋 sending", "안녕 👋 stored"]);
    assert_eq!(stand.run(&sender, "sends").await, expected);
    stand
        .until(&receiver, "got.some(({ event }) => event === 'message')")
        .await;
    assert_eq!(stand.texts(&receiver).await, json!(["안녕 👋"]));
    let id = stand
        .run(&receiver, "got.find(({ event }) => event === 'message').data.messageId")
        .await;
    let edited = stand
        .run(
            &sender,
            &format!("chat.edit({room}, {id}, 'hello').then(({{ seq }}) => seq)"),
        )
        .await;
    // The same text once more changes nothing, and is answered all the same.
    let again = stand
        .run(
            &sender,
            &format!("chat.edit({room}, {id}, 'hello').then(({{ seq }}) => seq)"),
        )
        .await;
    assert_eq!(edited, again);
    let refused = format!("chat.edit({room}, {id}, 'mine').catch(({{ code }}) => code)");
    assert_eq!(stand.run(&receiver, &refused).await, "not_your_message");
    stand.run(&sender, &format!("chat.remove({room}, {id})")).await;
    stand.until(&receiver, "got.at(-1).event === 'deleted'").await;
    let seen =
        "got.filter(({ event }) => ['edited', 'deleted'].includes(event)).map(({ event, data }) => [event, data.body])";
    assert_eq!(
        stand.run(&receiver, seen).await,
        json!([["edited", "hello"], ["deleted", null]])
    );
    let history = ada.look(&format!("/api/chat/rooms/{room}/messages")).await;
    assert_eq!(history["messages"][0]["messageId"], id);
    for page in [&sender, &receiver] {
        stand.assert_no_errors(page).await;
    }
}

#[tokio::test]
async fn a_message_that_is_sent_while_the_server_is_away_is_one_message() {
    let mut stand = Stand::start().await;
    let (ada, room) = a_room(&stand).await;
    let (sender, receiver) = (stand.chatting(1, room).await, stand.chatting(2, room).await);
    for round in 0..2 {
        // One whose answer is lost, and one for a server that is away.
        stand
            .run(&sender, &format!("chat.send({room}, 'before {round}')"))
            .await;
        stand.site.kill();
        stand.until(&sender, "chat.state !== 'open'").await;
        stand.run(&sender, &format!("chat.send({room}, 'away {round}')")).await;
        let path = format!("/api/chat/rooms/{room}/messages");
        let other = json!({ "clientMsgId": format!("o{round}"), "body": format!("other {round}") });
        ada.post(&path, other).await.created();
        stand.site.restart().await;
        stand.until(&sender, "chat.outbox.length === 0").await;
    }
    stand
        .until(&receiver, "got.filter(({ event }) => event === 'message').length >= 6")
        .await;
    let (mut sent, mut received) = (stand.texts(&sender).await, stand.texts(&receiver).await);
    assert_eq!(sent, received, "one order for everybody");
    for texts in [&mut sent, &mut received] {
        texts.as_array_mut().unwrap().sort_by_key(Value::to_string);
    }
    assert_eq!(
        received,
        json!(["away 0", "away 1", "before 0", "before 1", "other 0", "other 1"])
    );
    for page in [&sender, &receiver] {
        let counts = stand.run(page, "[chat.counts.gaps, chat.counts.duplicates]").await;
        assert_eq!(counts, json!([0, 0]));
        stand.assert_no_errors(page).await;
    }
}
