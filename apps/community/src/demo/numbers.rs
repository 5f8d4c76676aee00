//! The numbers that the database has, so that the page can show that none is missing.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query as Asked, State};
use postroom::Result;
use postroom_host::{Host, Problem};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use serde::{Deserialize, Serialize};

use super::{Here, MEMBERS};
use crate::stream::{self, NOTIFICATION};

/// Numbers of one stream in an answer. The page asks for those that it has not compared.
const NUMBERS_MAX: u64 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Where {
    after1: i64,
    after2: i64,
    room_id: i64,
    after_room: i64,
}

#[derive(Serialize)]
pub(super) struct Numbers {
    /// By member.
    streams: BTreeMap<i64, Vec<Number>>,
    room: Vec<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Number {
    seq: i64,
    /// Whether clients do not see it: the member has muted notifications.
    is_silent: bool,
}

pub(super) async fn show(
    Here: Here,
    State(host): State<Host>,
    asked: Result<Asked<Where>, QueryRejection>,
) -> Result<Json<Numbers>, Problem> {
    let Asked(asked) = asked.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let db = host.store.db();
    let mut streams = BTreeMap::new();
    for (member_id, after) in MEMBERS.into_iter().zip([asked.after1, asked.after2]) {
        streams.insert(member_id, of_member(db, member_id, after).await?);
    }
    let room = of_room(db, asked.room_id, asked.after_room).await?;
    Ok(Json(Numbers { streams, room }))
}

async fn of_member(db: &impl ConnectionTrait, member_id: i64, after: i64) -> Result<Vec<Number>> {
    let is_muted = stream::look_one(db, member_id).await?.is_muted;
    let mut select = Query::select();
    select
        .columns(["seq", "name", "is_silent"])
        .from("community_member_event")
        .and_where(Expr::col("member_id").eq(member_id))
        .and_where(Expr::col("seq").gt(after))
        .order_by("seq", Order::Asc)
        .limit(NUMBERS_MAX);
    let rows = db.query_all(&select).await?;
    let number = |row: &sea_orm::QueryResult| {
        let is_hidden = is_muted && row.try_get::<String>("", "name")? == NOTIFICATION;
        Ok(Number {
            seq: row.try_get("", "seq")?,
            is_silent: is_hidden || row.try_get("", "is_silent")?,
        })
    };
    rows.iter().map(number).collect()
}

async fn of_room(db: &impl ConnectionTrait, room_id: i64, after: i64) -> Result<Vec<i64>> {
    let mut select = Query::select();
    select
        .column("seq")
        .from("community_chat_send")
        .and_where(Expr::col("room_id").eq(room_id))
        .and_where(Expr::col("seq").gt(after))
        .order_by("seq", Order::Asc)
        .limit(NUMBERS_MAX);
    let rows = db.query_all(&select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "seq")?)).collect()
}
