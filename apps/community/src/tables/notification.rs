//! Stored notifications: the inbox.

use std::collections::HashSet;

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};
use uuid::Uuid;

use super::now_ms;

const TABLE: &str = "community_notification";

/// A notification in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) notification_id: i64,
    pub(crate) event_id: String,
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) ref_id: i64,
    pub(crate) actor_id: i64,
    pub(crate) created_ms: i64,
    pub(crate) read_ms: Option<i64>,
}

/// A notification to store, for all members who are told of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewNotification {
    pub(crate) event_id: Uuid,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) ref_id: i64,
    pub(crate) actor_id: i64,
}

/// Finds which of these members were told of the event.
pub(crate) async fn told(tx: &Tx, event_id: Uuid, members: &[i64]) -> Result<HashSet<i64>> {
    Ok(ids(tx, event_id, members)
        .await?
        .into_iter()
        .map(|(member, _)| member)
        .collect())
}

/// The notifications of an event, as members and ids.
pub(crate) async fn ids(tx: &Tx, event_id: Uuid, members: &[i64]) -> Result<Vec<(i64, i64)>> {
    let mut select = Query::select();
    select
        .columns(["member_id", "notification_id"])
        .from(TABLE)
        .and_where(Expr::col("event_id").eq(event_id.to_string()))
        .and_where(Expr::col("member_id").is_in(members.iter().copied()));
    let rows = tx.query_all(&select).await?;
    rows.iter()
        .map(|row| Ok((row.try_get("", "member_id")?, row.try_get("", "notification_id")?)))
        .collect()
}

/// Stores a notification for each of these members.
pub(crate) async fn insert(tx: &Tx, new: &NewNotification, members: &[i64], now_ms: i64) -> Result<()> {
    let mut insert = Query::insert();
    insert.into_table(TABLE).columns([
        "event_id",
        "member_id",
        "type",
        "message",
        "ref_id",
        "actor_id",
        "created_ms",
    ]);
    for member in members {
        insert.values_panic([
            new.event_id.to_string().into(),
            (*member).into(),
            new.kind.into(),
            new.message.as_str().into(),
            new.ref_id.into(),
            new.actor_id.into(),
            now_ms.into(),
        ]);
    }
    tx.execute(&insert).await?;
    Ok(())
}

/// The notifications of a member with smaller ids, newest first.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    member_id: i64,
    before: Option<i64>,
    limit: u64,
) -> Result<Vec<Notification>> {
    let mut select = select(member_id);
    select
        .and_where_option(before.map(|before| Expr::col("notification_id").lt(before)))
        .order_by("notification_id", Order::Desc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter().map(read).collect()
}

/// The latest unread notifications of a member, newest first.
pub(crate) async fn latest_unread(db: &impl ConnectionTrait, member_id: i64, limit: u64) -> Result<Vec<Notification>> {
    let mut select = select(member_id);
    select
        .and_where(Expr::col("read_ms").is_null())
        .order_by("notification_id", Order::Desc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter().map(read).collect()
}

fn select(member_id: i64) -> SelectStatement {
    let mut select = Query::select();
    select
        .columns(["notification_id", "event_id", "type", "message", "ref_id", "actor_id"])
        .columns(["created_ms", "read_ms"])
        .from(TABLE)
        .and_where(Expr::col("member_id").eq(member_id));
    select
}

fn read(row: &QueryResult) -> Result<Notification> {
    Ok(Notification {
        notification_id: row.try_get("", "notification_id")?,
        event_id: row.try_get("", "event_id")?,
        kind: row.try_get("", "type")?,
        message: row.try_get("", "message")?,
        ref_id: row.try_get("", "ref_id")?,
        actor_id: row.try_get("", "actor_id")?,
        created_ms: row.try_get("", "created_ms")?,
        read_ms: row.try_get("", "read_ms")?,
    })
}

pub(crate) async fn exists(db: &impl ConnectionTrait, member_id: i64, notification_id: i64) -> Result<bool> {
    let mut select = select(member_id);
    select.and_where(Expr::col("notification_id").eq(notification_id));
    Ok(db.query_one(&select).await?.is_some())
}

/// Ids of unread notifications of a member up to this one, at most `limit`.
pub(crate) async fn unread_until(tx: &Tx, member_id: i64, until: i64, limit: u64) -> Result<Vec<i64>> {
    let mut select = Query::select();
    select
        .column("notification_id")
        .from(TABLE)
        .and_where(Expr::col("member_id").eq(member_id))
        .and_where(Expr::col("read_ms").is_null())
        .and_where(Expr::col("notification_id").lte(until))
        .order_by("notification_id", Order::Asc)
        .limit(limit);
    let rows = tx.query_all(&select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "notification_id")?)).collect()
}

/// Marks unread notifications of a member as read, out of these; returns how many.
pub(crate) async fn mark_read(tx: &Tx, member_id: i64, ids: &[i64]) -> Result<u64> {
    if ids.is_empty() {
        return Ok(0);
    }
    let mut update = Query::update();
    update
        .table(TABLE)
        .value("read_ms", now_ms())
        .and_where(Expr::col("notification_id").is_in(ids.iter().copied()))
        .and_where(Expr::col("member_id").eq(member_id))
        .and_where(Expr::col("read_ms").is_null());
    Ok(tx.execute(&update).await?.rows_affected())
}

/// Ids and members of notifications that were made before this time, at most `limit`.
pub(crate) async fn made_before(tx: &Tx, before_ms: i64, limit: u64) -> Result<Vec<(i64, i64)>> {
    let mut select = Query::select();
    select
        .columns(["notification_id", "member_id"])
        .from(TABLE)
        .and_where(Expr::col("created_ms").lt(before_ms))
        .order_by("created_ms", Order::Asc)
        .limit(limit);
    let rows = tx.query_all(&select).await?;
    rows.iter()
        .map(|row| Ok((row.try_get("", "notification_id")?, row.try_get("", "member_id")?)))
        .collect()
}

/// The members of those of these notifications that are unread, one for each notification.
pub(crate) async fn unread_of(tx: &Tx, ids: &[i64]) -> Result<Vec<i64>> {
    let mut select = Query::select();
    select
        .column("member_id")
        .from(TABLE)
        .and_where(Expr::col("notification_id").is_in(ids.iter().copied()))
        .and_where(Expr::col("read_ms").is_null());
    let rows = tx.query_all(&select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "member_id")?)).collect()
}

pub(crate) async fn delete(tx: &Tx, ids: &[i64]) -> Result<u64> {
    let mut delete = Query::delete();
    delete
        .from_table(TABLE)
        .and_where(Expr::col("notification_id").is_in(ids.iter().copied()));
    Ok(tx.execute(&delete).await?.rows_affected())
}
