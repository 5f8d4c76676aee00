//! History: each message as it stands.

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use sea_orm::{ConnectionTrait, QueryResult};
use uuid::Uuid;

use super::unreadable;

/// A message in history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) room_id: i64,
    pub(crate) message_id: i64,
    /// The newest entry of the message that is in it.
    pub(crate) seq: i64,
    pub(crate) sender_id: i64,
    pub(crate) client_msg_id: String,
    /// The event of its first entry.
    pub(crate) event_id: Uuid,
    /// Empty: the message was deleted.
    pub(crate) body: Option<String>,
    pub(crate) sent_ms: i64,
    pub(crate) edited_ms: Option<i64>,
}

const COLUMNS: [&str; 9] = [
    "room_id",
    "message_id",
    "seq",
    "sender_id",
    "client_msg_id",
    "event_id",
    "body",
    "sent_ms",
    "edited_ms",
];

/// Stores messages as they stand. One that history has in a newer state stays.
pub(crate) async fn put(tx: &Tx, messages: &[Stored]) -> Result<()> {
    if messages.is_empty() {
        return Ok(());
    }
    let mut insert = Query::insert();
    insert
        .into_table("community_chat_message")
        .columns(COLUMNS)
        .on_conflict(
            OnConflict::columns(["room_id", "message_id"])
                .do_nothing_on(["room_id", "message_id"])
                .to_owned(),
        );
    for message in messages {
        insert.values_panic([
            message.room_id.into(),
            message.message_id.into(),
            message.seq.into(),
            message.sender_id.into(),
            message.client_msg_id.as_str().into(),
            message.event_id.to_string().into(),
            message.body.clone().into(),
            message.sent_ms.into(),
            message.edited_ms.into(),
        ]);
    }
    tx.execute(&insert).await?;
    // Most messages are new: only those with later entries may be older in history.
    for message in messages.iter().filter(|message| message.seq > message.message_id) {
        renew(tx, message).await?;
    }
    Ok(())
}

async fn renew(tx: &Tx, message: &Stored) -> Result<()> {
    let mut update = Query::update();
    update
        .table("community_chat_message")
        .value("seq", message.seq)
        .value("body", message.body.clone())
        .value("edited_ms", message.edited_ms)
        .and_where(Expr::col("room_id").eq(message.room_id))
        .and_where(Expr::col("message_id").eq(message.message_id))
        .and_where(Expr::col("seq").lt(message.seq));
    tx.execute(&update).await?;
    Ok(())
}

/// Messages of a room below `before` and above `above`, newest first, at most `limit`.
pub(crate) async fn page(
    db: &impl ConnectionTrait,
    room_id: i64,
    (above, before): (i64, i64),
    limit: u64,
) -> Result<Vec<Stored>> {
    let mut select = Query::select();
    select
        .columns(COLUMNS)
        .from("community_chat_message")
        .and_where(Expr::col("room_id").eq(room_id))
        .and_where(Expr::col("message_id").gt(above))
        .and_where(Expr::col("message_id").lt(before))
        .order_by("message_id", Order::Desc)
        .limit(limit);
    db.query_all(&select).await?.iter().map(read).collect()
}

/// Removes at most `limit` messages that were sent before this time; answers how many.
pub(crate) async fn prune(tx: &Tx, cutoff_ms: i64, limit: u64) -> Result<u64> {
    let mut select = Query::select();
    select
        .columns(["room_id", "message_id"])
        .from("community_chat_message")
        .and_where(Expr::col("sent_ms").lt(cutoff_ms))
        .order_by("sent_ms", Order::Asc)
        .limit(limit);
    let rows = tx.query_all(&select).await?;
    let read = |row: &QueryResult| Ok((row.try_get("", "room_id")?, row.try_get("", "message_id")?));
    let old: Vec<(i64, i64)> = rows.iter().map(read).collect::<Result<_>>()?;
    if old.is_empty() {
        return Ok(0);
    }
    let mut delete = Query::delete();
    delete
        .from_table("community_chat_message")
        .cond_where(super::in_rooms(&super::by_room(old), "message_id"));
    Ok(tx.execute(&delete).await?.rows_affected())
}

fn read(row: &QueryResult) -> Result<Stored> {
    let event_id: String = row.try_get("", "event_id")?;
    Ok(Stored {
        room_id: row.try_get("", "room_id")?,
        message_id: row.try_get("", "message_id")?,
        seq: row.try_get("", "seq")?,
        sender_id: row.try_get("", "sender_id")?,
        client_msg_id: row.try_get("", "client_msg_id")?,
        event_id: Uuid::try_parse(&event_id).map_err(|_odd| unreadable("the event id of a message"))?,
        body: row.try_get("", "body")?,
        sent_ms: row.try_get("", "sent_ms")?,
        edited_ms: row.try_get("", "edited_ms")?,
    })
}
