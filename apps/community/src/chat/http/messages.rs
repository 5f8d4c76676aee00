//! Requests about messages.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom_host::{Body, Host, Problem};
use serde::{Deserialize, Serialize};

use super::{Me, asked, limit, message_id, room_id};
use crate::chat::domain::{ClientMsgId, Text};
use crate::chat::history;
use crate::chat::message::{self, Sent, Target};
use crate::chat::pace::Pace;
use crate::chat::tables::history::Stored;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NewMessage {
    client_msg_id: String,
    body: String,
}

/// The same message sent again gets the same answer.
pub(super) async fn send(
    State(host): State<Host>,
    Extension(pace): Extension<Pace>,
    Me(me): Me,
    Path(room): Path<String>,
    Body(new): Body<NewMessage>,
) -> Result<(StatusCode, Json<Sent>), Problem> {
    pace.check(&host, me).await?;
    let (client_msg_id, text) = (ClientMsgId::parse(new.client_msg_id)?, Text::parse(new.body)?);
    let sent = message::send(&host, (room_id(&room)?, me), &client_msg_id, &text).await?;
    Ok((StatusCode::CREATED, Json(sent)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    body: String,
}

pub(super) async fn edit(
    State(host): State<Host>,
    Extension(pace): Extension<Pace>,
    Me(me): Me,
    Path((room, message)): Path<(String, String)>,
    Body(edit): Body<Edit>,
) -> Result<Json<Sent>, Problem> {
    pace.check(&host, me).await?;
    let text = Text::parse(edit.body)?;
    Ok(Json(message::edit(&host, target(me, &room, &message)?, &text).await?))
}

pub(super) async fn delete(
    State(host): State<Host>,
    Extension(pace): Extension<Pace>,
    Me(me): Me,
    Path((room, message)): Path<(String, String)>,
) -> Result<Json<Sent>, Problem> {
    pace.check(&host, me).await?;
    Ok(Json(message::delete(&host, target(me, &room, &message)?).await?))
}

fn target(me: i64, room: &str, message: &str) -> Result<Target, Problem> {
    Ok(Target {
        room_id: room_id(room)?,
        sender_id: me,
        message_id: message_id(message)?,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Messages with smaller ids.
    before: Option<i64>,
    limit: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct History {
    /// Newest first.
    messages: Vec<Message>,
    /// Pass it as `before` for the next page. Null on the last page.
    next: Option<i64>,
}

/// A message as it stands.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    room_id: i64,
    message_id: i64,
    /// The number of the entry that made it as it is.
    seq: i64,
    sender_id: i64,
    client_msg_id: String,
    event_id: String,
    /// Null when it was deleted.
    body: Option<String>,
    is_deleted: bool,
    /// When it was sent, in milliseconds since 1970.
    at: i64,
    edited_at: Option<i64>,
}

impl From<Stored> for Message {
    fn from(stored: Stored) -> Self {
        Self {
            room_id: stored.room_id,
            message_id: stored.message_id,
            seq: stored.seq,
            sender_id: stored.sender_id,
            client_msg_id: stored.client_msg_id,
            event_id: stored.event_id.to_string(),
            is_deleted: stored.body.is_none(),
            body: stored.body,
            at: stored.sent_ms,
            edited_at: stored.edited_ms,
        }
    }
}

pub(super) async fn history(
    State(host): State<Host>,
    Me(me): Me,
    Path(room): Path<String>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<History>, Problem> {
    let page = asked(page)?;
    let limit = limit(page.limit)?;
    let messages = history::page(&host, (room_id(&room)?, me), page.before, limit).await?;
    let is_full = messages.len() as u64 == limit;
    Ok(Json(History {
        next: messages.last().map(|last| last.message_id).filter(|_| is_full),
        messages: messages.into_iter().map(Message::from).collect(),
    }))
}
