//! Rooms.

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ConnectionTrait, QueryResult};

/// A room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) room_id: i64,
    pub(crate) name: String,
    /// The member who removes others.
    pub(crate) owner_id: i64,
    /// The number of the last entry.
    pub(crate) seq: i64,
    /// Entries up to this number were removed by retention.
    pub(crate) horizon: i64,
    /// When the last entry was made.
    pub(crate) last_ms: i64,
}

const COLUMNS: [&str; 6] = ["room_id", "name", "owner_id", "seq", "horizon", "last_ms"];

/// Makes a room; answers its id. The sequence stays locked until the transaction ends.
pub(crate) async fn insert(tx: &Tx, name: &str, owner_id: i64, now_ms: i64) -> Result<i64> {
    let room_id = next_id(tx).await?;
    let mut insert = Query::insert();
    insert
        .into_table("community_room")
        .columns(COLUMNS.into_iter().chain(["created_ms"]))
        .values_panic([
            room_id.into(),
            name.into(),
            owner_id.into(),
            0_i64.into(),
            0_i64.into(),
            now_ms.into(),
            now_ms.into(),
        ]);
    tx.execute(&insert).await?;
    Ok(room_id)
}

async fn next_id(tx: &Tx) -> Result<i64> {
    let mut update = Query::update();
    update
        .table("community_chat_sequence")
        .value("last_id", Expr::col("last_id").add(1))
        .and_where(Expr::col("name").eq("room"));
    tx.execute(&update).await?;
    let mut select = Query::select();
    select
        .column("last_id")
        .from("community_chat_sequence")
        .and_where(Expr::col("name").eq("room"));
    let row = tx.query_one(&select).await?;
    row.map_or_else(
        || Err(super::unreadable("the sequence of rooms")),
        |row| Ok(row.try_get("", "last_id")?),
    )
}

pub(crate) async fn find(db: &impl ConnectionTrait, room_id: i64) -> Result<Option<Room>> {
    let mut select = Query::select();
    select
        .columns(COLUMNS)
        .from("community_room")
        .and_where(Expr::col("room_id").eq(room_id));
    let row = db.query_one(&select).await?;
    row.as_ref().map(read).transpose()
}

/// Locks a room until the transaction ends: its entries are numbered, and its members change, one after the other.
pub(crate) async fn lock(tx: &Tx, room_id: i64) -> Result<Option<Room>> {
    let mut select = Query::select();
    select
        .columns(COLUMNS)
        .from("community_room")
        .and_where(Expr::col("room_id").eq(room_id))
        .lock_exclusive();
    let row = tx.query_one(&select).await?;
    row.as_ref().map(read).transpose()
}

/// Writes the number and the time of the last entry. The room is locked.
pub(crate) async fn advance(tx: &Tx, room_id: i64, seq: i64, last_ms: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table("community_room")
        .value("seq", seq)
        .value("last_ms", last_ms)
        .and_where(Expr::col("room_id").eq(room_id));
    tx.execute(&update).await?;
    Ok(())
}

pub(crate) async fn set_owner(tx: &Tx, room_id: i64, owner_id: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table("community_room")
        .value("owner_id", owner_id)
        .and_where(Expr::col("room_id").eq(room_id));
    tx.execute(&update).await?;
    Ok(())
}

/// Raises the horizon: entries up to this number are gone.
pub(crate) async fn raise_horizon(tx: &Tx, room_id: i64, horizon: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table("community_room")
        .value("horizon", horizon)
        .and_where(Expr::col("room_id").eq(room_id))
        .and_where(Expr::col("horizon").lt(horizon));
    tx.execute(&update).await?;
    Ok(())
}

/// The rooms of a member with ids above `after`, at most `limit`.
pub(crate) async fn of_member(db: &impl ConnectionTrait, member_id: i64, after: i64, limit: u64) -> Result<Vec<Room>> {
    let mut select = Query::select();
    for column in COLUMNS {
        select.column(("community_room", column));
    }
    let is_same = Expr::col(("community_room", "room_id")).equals(("community_room_member", "room_id"));
    select
        .from("community_room_member")
        .inner_join("community_room", is_same)
        .and_where(Expr::col(("community_room_member", "member_id")).eq(member_id))
        .and_where(Expr::col(("community_room_member", "left_ms")).is_null())
        .and_where(Expr::col(("community_room_member", "room_id")).gt(after))
        .order_by(("community_room_member", "room_id"), Order::Asc)
        .limit(limit);
    db.query_all(&select).await?.iter().map(read).collect()
}

/// The numbers of the last entries of these rooms.
pub(crate) async fn tops(db: &impl ConnectionTrait, room_ids: &[i64]) -> Result<Vec<(i64, i64)>> {
    let mut select = Query::select();
    select
        .columns(["room_id", "seq"])
        .from("community_room")
        .and_where(Expr::col("room_id").is_in(room_ids.iter().copied()));
    let rows = db.query_all(&select).await?;
    let read = |row: &QueryResult| Ok((row.try_get("", "room_id")?, row.try_get("", "seq")?));
    rows.iter().map(read).collect()
}

fn read(row: &QueryResult) -> Result<Room> {
    Ok(Room {
        room_id: row.try_get("", "room_id")?,
        name: row.try_get("", "name")?,
        owner_id: row.try_get("", "owner_id")?,
        seq: row.try_get("", "seq")?,
        horizon: row.try_get("", "horizon")?,
        last_ms: row.try_get("", "last_ms")?,
    })
}
