//! Requests about rooms and who is in them.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use postroom_host::{Body, Host, Problem};
use serde::{Deserialize, Serialize};

use super::{Me, asked, limit, member_id, room_id};
use crate::chat::room::{self, Shown};
use crate::chat::tables::member::Membership;
use crate::chat::tables::room::Room;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NewRoom {
    name: String,
    #[serde(default)]
    member_ids: Vec<i64>,
}

/// A room in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed {
    room_id: i64,
    name: String,
    owner_id: i64,
    /// The number of the last entry.
    seq: i64,
    /// When it was made, in milliseconds since 1970; of a room without entries, when the room was made.
    last_at: i64,
}

impl From<Room> for Listed {
    fn from(room: Room) -> Self {
        Self {
            room_id: room.room_id,
            name: room.name,
            owner_id: room.owner_id,
            seq: room.seq,
            last_at: room.last_ms,
        }
    }
}

/// A room with its members.
#[derive(Serialize)]
pub(super) struct Whole {
    #[serde(flatten)]
    room: Listed,
    members: Vec<Member>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    member_id: i64,
    joined_at: i64,
}

impl From<Shown> for Whole {
    fn from(shown: Shown) -> Self {
        let member = |member: Membership| Member {
            member_id: member.member_id,
            joined_at: member.joined_ms,
        };
        Self {
            room: shown.room.into(),
            members: shown.members.into_iter().map(member).collect(),
        }
    }
}

pub(super) async fn create(
    State(host): State<Host>,
    Me(me): Me,
    Body(new): Body<NewRoom>,
) -> Result<(StatusCode, Json<Whole>), Problem> {
    let made = room::create(&host, me, &new.name, &new.member_ids).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Rooms with greater ids.
    #[serde(default)]
    after: i64,
    limit: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct Rooms {
    rooms: Vec<Listed>,
    /// Pass it as `after` for the next page. Null on the last page.
    next: Option<i64>,
}

pub(super) async fn list(
    State(host): State<Host>,
    Me(me): Me,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Rooms>, Problem> {
    let page = asked(page)?;
    let limit = limit(page.limit)?;
    let rooms = room::list(&host, me, page.after, limit).await?;
    let is_full = rooms.len() as u64 == limit;
    Ok(Json(Rooms {
        next: rooms.last().map(|last| last.room_id).filter(|_| is_full),
        rooms: rooms.into_iter().map(Listed::from).collect(),
    }))
}

pub(super) async fn show(
    State(host): State<Host>,
    Me(me): Me,
    Path(room): Path<String>,
) -> Result<Json<Whole>, Problem> {
    let shown = room::show(&host, room_id(&room)?, me).await?;
    Ok(Json(shown.into()))
}

pub(super) async fn add(
    State(host): State<Host>,
    Me(me): Me,
    Path((room, member)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    room::add(&host, room_id(&room)?, me, member_id(&member)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn remove(
    State(host): State<Host>,
    Me(me): Me,
    Path((room, member)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    room::remove(&host, room_id(&room)?, me, member_id(&member)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
