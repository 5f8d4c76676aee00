//! Chat over a WebSocket: `docs/guide/community.md` has the protocol.

mod followed;
mod inbound;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use axum::Extension;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use postroom_access::Member;
use postroom_host::{Access, Caller, ClientAddress, Host, Problem, Routes};
use postroom_realtime::websocket::{Conversation, Denied, upgrade};
use postroom_realtime::{Client, Connection, Frame, Hub, Ticket};
use serde::Deserialize;
use serde_json::{Value, json};

use super::domain::{ClientMsgId, Refusal, Text};
use super::failure::Failure;
use super::message::{self, Sent, Target};
use super::pace::{self, Pace};
use super::stored::Stored;
use super::tables::{member, room};
use super::{frame, http};
use followed::{Followed, Shown};
use inbound::{Inbound, Subject};

/// Rooms that one connection follows.
const ROOMS_MAX: usize = 200;

/// Values that the connections of a process share.
#[derive(Clone, Debug)]
pub(crate) struct Chat {
    pub(crate) hub: Hub,
    pub(crate) stored: Stored,
    pub(crate) pace: Pace,
}

/// The route of the WebSocket is open, because a client may show a ticket, or its token in its first message.
pub(crate) fn routes(chat: Chat) -> [Routes; 2] {
    [
        Routes::new(Access::Open)
            .get("/api/chat/ws", connect)
            .extension(chat.clone()),
        Routes::new(Access::Member)
            .post("/api/chat/ticket", ticket)
            .extension(chat),
    ]
}

async fn ticket(Extension(chat): Extension<Chat>, caller: Caller) -> Result<Json<Ticket>, Problem> {
    match &caller {
        Caller::Member(member) => Ok(Json(chat.hub.ticket(&client(member)?).await?)),
        _ => Err(Problem::failed()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    ticket: Option<String>,
}

async fn connect(
    State(host): State<Host>,
    Extension(chat): Extension<Chat>,
    (caller, ClientAddress(address)): (Caller, ClientAddress),
    asked: Result<Query<Asked>, QueryRejection>,
    socket: WebSocketUpgrade,
) -> Result<Response, Problem> {
    let asked = http::asked(asked)?;
    let known = match (&caller, asked.ticket) {
        (Caller::Member(member), _) => Some(client(member)?),
        (_, Some(ticket)) => match chat.hub.redeem(&ticket).await {
            Ok(Some(client)) => Some(client),
            Ok(None) => return Err(bad_ticket()),
            Err(refused) => return Ok(refused.into_response()),
        },
        (_, None) => None,
    };
    let hub = chat.hub.clone();
    let talk = Talk {
        host,
        chat,
        address,
        followed: Mutex::default(),
    };
    Ok(upgrade(&hub, socket, known, Arc::new(talk)).await)
}

fn bad_ticket() -> Problem {
    let detail =
        "the ticket is unknown, spent or expired; POST /api/chat/ticket makes one that is accepted once, within 30 s";
    Problem::new(axum::http::StatusCode::UNAUTHORIZED, "bad_ticket", detail)
}

/// A member whose id is a number.
fn client(member: &Member) -> Result<Client, Problem> {
    let id = http::number_of(member)?;
    Ok(Client::new(id.to_string()).until(member.expires_at))
}

/// The conversation of one connection.
#[derive(Debug)]
struct Talk {
    host: Host,
    chat: Chat,
    address: IpAddr,
    followed: Mutex<Followed>,
}

#[async_trait]
impl Conversation for Talk {
    async fn authenticate(&self, token: &str) -> Result<Client, Denied> {
        let denied = |problem: Problem| Denied(problem.detail().to_owned());
        let member = self.host.member(token, Some(self.address)).await.map_err(denied)?;
        client(&member).map_err(denied)
    }

    async fn receive(&self, connection: &Connection, message: &str) {
        let member_id = member_of(connection);
        if !self.chat.pace.wait(&self.host, member_id).await {
            return connection.show(error(&pace::too_fast(), &Subject::default()));
        }
        let (inbound, subject) = match inbound::parse(message) {
            Ok(parsed) => parsed,
            Err((says, subject)) => return connection.show(error(&malformed(&says), &subject)),
        };
        if let Err(failure) = self.take(connection, member_id, inbound).await {
            connection.show(error(&failure.into(), &subject));
        }
    }

    fn shows(&self, connection: &Connection, frame: &Frame) -> bool {
        let shown = self.followed().judge(frame.ws(), member_of(connection));
        if let Shown::Last { room_id } = shown {
            connection.unfollow(&frame::stream(room_id));
        }
        shown != Shown::No
    }
}

impl Talk {
    async fn take(&self, connection: &Connection, member_id: i64, inbound: Inbound) -> Result<(), Failure> {
        match inbound {
            Inbound::Join { room_id, after } => self.join(connection, member_id, (room_id, after)).await,
            Inbound::Leave { room_id } => {
                self.followed().remove(room_id);
                connection.unfollow(&frame::stream(room_id));
                Ok(())
            }
            Inbound::Send {
                room_id,
                client_msg_id,
                body,
            } => {
                let (id, text) = (ClientMsgId::parse(client_msg_id)?, Text::parse(body)?);
                let sent = message::send(&self.host, (room_id, member_id), &id, &text).await?;
                self.answer(connection, room_id, (sent, json!({ "clientMsgId": id.as_str() })));
                Ok(())
            }
            Inbound::Edit {
                room_id,
                message_id,
                body,
            } => {
                let target = target(room_id, member_id, message_id);
                let edited = message::edit(&self.host, target, &Text::parse(body)?).await?;
                self.answer(connection, room_id, (edited, json!({})));
                Ok(())
            }
            Inbound::Delete { room_id, message_id } => {
                let deleted = message::delete(&self.host, target(room_id, member_id, message_id)).await?;
                self.answer(connection, room_id, (deleted, json!({})));
                Ok(())
            }
        }
    }

    /// Follows a room. The number of its last entry is read before the membership: if the member leaves meanwhile, that entry has a
    /// greater number, so the connection sees it.
    async fn join(
        &self,
        connection: &Connection,
        member_id: i64,
        (room_id, after): (i64, Option<i64>),
    ) -> Result<(), Failure> {
        let db = self.host.store.db();
        let room = room::find(db, room_id).await?.ok_or(Refusal::UnknownRoom)?;
        let member = member::find(db, room_id, member_id)
            .await?
            .ok_or(Refusal::UnknownRoom)?;
        if !self.followed().add(room_id, member.joined_seq, ROOMS_MAX) {
            return Err(Refusal::Invalid(format!(
                "a connection follows at most {ROOMS_MAX} rooms; leave one, or open another connection"
            ))
            .into());
        }
        let cursor = match after {
            None => room.seq,
            // The number is from before the member joined. The member may not see entries of that time, so the client gets a
            // `reset`.
            Some(after) if after < member.joined_seq => -1,
            Some(after) => after,
        };
        let followed = connection
            .follow(frame::stream(room_id), Some(&cursor.to_string()))
            .await;
        Ok(followed.inspect_err(|_error| self.followed().remove(room_id))?)
    }

    /// Tells the sender which number an entry has, and later that history has it.
    fn answer(&self, connection: &Connection, room_id: i64, (sent, mut says): (Sent, Value)) {
        if let Some(says) = says.as_object_mut() {
            says.insert("event".to_owned(), "sent".into());
            says.insert("roomId".to_owned(), room_id.into());
            says.insert("seq".to_owned(), sent.seq.into());
            says.insert("messageId".to_owned(), sent.message_id.into());
        }
        connection.show(Frame::reply(says.to_string()));
        self.chat.stored.watch((room_id, sent.seq), connection.handle());
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn target(room_id: i64, sender_id: i64, message_id: i64) -> Target {
    Target {
        room_id,
        sender_id,
        message_id,
    }
}

/// The member of a connection; `client` has checked that it is a number.
fn member_of(connection: &Connection) -> i64 {
    connection.member().parse().unwrap_or_default()
}

fn malformed(says: &str) -> Problem {
    Problem::new(axum::http::StatusCode::BAD_REQUEST, "malformed", says)
}

/// Tells a client why its message failed.
fn error(problem: &Problem, subject: &Subject) -> Frame {
    let mut says = json!({ "event": "error", "code": problem.code(), "detail": problem.detail() });
    if let Some(says) = says.as_object_mut() {
        let mut add = |name: &str, value: Option<Value>| says.extend(value.map(|value| (name.to_owned(), value)));
        add("roomId", subject.room_id.map(Value::from));
        add("messageId", subject.message_id.map(Value::from));
        add("clientMsgId", subject.client_msg_id.clone().map(Value::from));
    }
    Frame::reply(says.to_string())
}
