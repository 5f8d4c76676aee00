//! The entries of rooms: the live order, and what connections resume from.

use std::collections::BTreeMap;

use postroom::{Result, Tx};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};
use uuid::Uuid;

use super::{in_rooms, unreadable};
use crate::chat::domain::Kind;

/// An entry of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) room_id: i64,
    /// Its number: 1, 2, 3, without holes.
    pub(crate) seq: i64,
    pub(crate) kind: Kind,
    /// The member who made it.
    pub(crate) sender_id: i64,
    /// The message; the number of its first entry.
    pub(crate) message_id: Option<i64>,
    /// The member who entered or left.
    pub(crate) member_id: Option<i64>,
    pub(crate) client_msg_id: Option<String>,
    pub(crate) event_id: Uuid,
    /// Empty when the message was deleted.
    pub(crate) body: Option<String>,
    pub(crate) created_ms: i64,
}

const COLUMNS: [&str; 10] = [
    "room_id",
    "seq",
    "kind",
    "sender_id",
    "message_id",
    "member_id",
    "client_msg_id",
    "event_id",
    "body",
    "created_ms",
];

fn select(which: Condition) -> SelectStatement {
    let mut select = Query::select();
    select.columns(COLUMNS).from("community_chat_send").cond_where(which);
    select
}

fn at(room_id: i64, column: &'static str, number: i64) -> Condition {
    Condition::all()
        .add(Expr::col("room_id").eq(room_id))
        .add(Expr::col(column).eq(number))
}

/// A conflict error means that the number, or the sender's id of the message, is taken.
pub(crate) async fn insert(tx: &Tx, entry: &Entry) -> Result<()> {
    let mut insert = Query::insert();
    insert.into_table("community_chat_send").columns(COLUMNS).values_panic([
        entry.room_id.into(),
        entry.seq.into(),
        entry.kind.name().into(),
        entry.sender_id.into(),
        entry.message_id.into(),
        entry.member_id.into(),
        entry.client_msg_id.clone().into(),
        entry.event_id.to_string().into(),
        entry.body.clone().into(),
        entry.created_ms.into(),
    ]);
    tx.execute(&insert).await?;
    Ok(())
}

/// The message that a member has sent to a room under this id.
pub(crate) async fn sent_as(tx: &Tx, room_id: i64, sender_id: i64, client_msg_id: &str) -> Result<Option<Entry>> {
    let which = at(room_id, "sender_id", sender_id).add(Expr::col("client_msg_id").eq(client_msg_id));
    one(tx, &select(which)).await
}

/// One entry.
pub(crate) async fn find(db: &impl ConnectionTrait, room_id: i64, seq: i64) -> Result<Option<Entry>> {
    one(db, &select(at(room_id, "seq", seq))).await
}

/// The newest entry of a message.
pub(crate) async fn newest_of(db: &impl ConnectionTrait, room_id: i64, message_id: i64) -> Result<Option<Entry>> {
    let mut select = select(at(room_id, "message_id", message_id));
    select.order_by("seq", Order::Desc).limit(1);
    one(db, &select).await
}

/// Removes the text of a message from all of its entries.
pub(crate) async fn erase_text(tx: &Tx, room_id: i64, message_id: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table("community_chat_send")
        .value("body", Option::<String>::None)
        .cond_where(at(room_id, "message_id", message_id));
    tx.execute(&update).await?;
    Ok(())
}

/// Entries of a room after a number, oldest first, at most `limit`.
pub(crate) async fn after(db: &impl ConnectionTrait, room_id: i64, after: i64, limit: u64) -> Result<Vec<Entry>> {
    let which = Condition::all()
        .add(Expr::col("room_id").eq(room_id))
        .add(Expr::col("seq").gt(after));
    let mut select = select(which);
    select.order_by("seq", Order::Asc).limit(limit);
    all(db, &select).await
}

/// Entries by their numbers in each room, in order.
pub(crate) async fn numbered(db: &impl ConnectionTrait, seqs: &BTreeMap<i64, Vec<i64>>) -> Result<Vec<Entry>> {
    ordered(db, seqs, "seq").await
}

/// All entries of these messages in each room, in order.
pub(crate) async fn of_messages(db: &impl ConnectionTrait, ids: &BTreeMap<i64, Vec<i64>>) -> Result<Vec<Entry>> {
    ordered(db, ids, "message_id").await
}

async fn ordered(
    db: &impl ConnectionTrait,
    numbers: &BTreeMap<i64, Vec<i64>>,
    column: &'static str,
) -> Result<Vec<Entry>> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut select = select(in_rooms(numbers, column));
    select.order_by("room_id", Order::Asc).order_by("seq", Order::Asc);
    all(db, &select).await
}

/// The messages of these that were deleted.
pub(crate) async fn deleted_of(db: &impl ConnectionTrait, room_id: i64, message_ids: &[i64]) -> Result<Vec<i64>> {
    let mut select = Query::select();
    select
        .column("message_id")
        .from("community_chat_send")
        .and_where(Expr::col("room_id").eq(room_id))
        .and_where(Expr::col("message_id").is_in(message_ids.iter().copied()))
        .and_where(Expr::col("kind").eq(Kind::Delete.name()));
    let rows = db.query_all(&select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "message_id")?)).collect()
}

/// The oldest entries from before this time: room and number, in the order of time, at most `limit`.
pub(crate) async fn before_time(tx: &Tx, cutoff_ms: i64, limit: u64) -> Result<Vec<(i64, i64)>> {
    let mut select = Query::select();
    select
        .columns(["room_id", "seq"])
        .from("community_chat_send")
        .and_where(Expr::col("created_ms").lt(cutoff_ms))
        .order_by("created_ms", Order::Asc)
        .order_by("room_id", Order::Asc)
        .order_by("seq", Order::Asc)
        .limit(limit);
    let rows = tx.query_all(&select).await?;
    let read = |row: &QueryResult| Ok((row.try_get("", "room_id")?, row.try_get("", "seq")?));
    rows.iter().map(read).collect()
}

/// Removes the entries of a room up to this number; answers how many.
pub(crate) async fn remove_up_to(tx: &Tx, room_id: i64, seq: i64) -> Result<u64> {
    let mut delete = Query::delete();
    delete
        .from_table("community_chat_send")
        .and_where(Expr::col("room_id").eq(room_id))
        .and_where(Expr::col("seq").lte(seq));
    Ok(tx.execute(&delete).await?.rows_affected())
}

async fn one(db: &impl ConnectionTrait, select: &SelectStatement) -> Result<Option<Entry>> {
    let row = db.query_one(select).await?;
    row.as_ref().map(read).transpose()
}

async fn all(db: &impl ConnectionTrait, select: &SelectStatement) -> Result<Vec<Entry>> {
    db.query_all(select).await?.iter().map(read).collect()
}

fn read(row: &QueryResult) -> Result<Entry> {
    let (kind, event_id): (String, String) = (row.try_get("", "kind")?, row.try_get("", "event_id")?);
    Ok(Entry {
        room_id: row.try_get("", "room_id")?,
        seq: row.try_get("", "seq")?,
        kind: Kind::parse(&kind).ok_or_else(|| unreadable("the kind of an entry"))?,
        sender_id: row.try_get("", "sender_id")?,
        message_id: row.try_get("", "message_id")?,
        member_id: row.try_get("", "member_id")?,
        client_msg_id: row.try_get("", "client_msg_id")?,
        event_id: Uuid::try_parse(&event_id).map_err(|_odd| unreadable("the event id of an entry"))?,
        body: row.try_get("", "body")?,
        created_ms: row.try_get("", "created_ms")?,
    })
}
