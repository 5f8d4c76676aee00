//! The frames of all streams.

use std::collections::{BTreeSet, HashMap};

use postroom::{Error, ErrorKind, Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use uuid::Uuid;

use super::{Appended, CHAT, Known, NOTIFICATION, StreamEvent, UNREAD};

/// The table.
const TABLE: &str = "community_member_event";
/// Rows in one statement: SQLite takes 32,766 values.
const ROWS_MAX: usize = 1_000;
/// The data of a silent frame: nobody sees it.
const SILENCE: &str = "{}";

/// The frames of these events that the streams of these members have already.
pub(super) async fn known(tx: &Tx, members: &[i64], events: &[&StreamEvent]) -> Result<Known> {
    let ids: BTreeSet<Uuid> = events.iter().map(|event| event.event_id).collect();
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    let mut known = Known::new();
    for ids in ids.chunks(ROWS_MAX) {
        let mut select = Query::select();
        select
            .columns(["member_id", "event_id"])
            .from(TABLE)
            .and_where(Expr::col("member_id").is_in(members.iter().copied()))
            .and_where(Expr::col("event_id").is_in(ids));
        for row in tx.query_all(&select).await? {
            known.insert((
                row.try_get("", "member_id")?,
                read_id(&row.try_get::<String>("", "event_id")?)?,
            ));
        }
    }
    Ok(known)
}

/// Those of these members whose stream has a frame of this event.
pub(crate) async fn told(tx: &Tx, event_id: Uuid, members: &[i64]) -> Result<Vec<i64>> {
    let mut select = Query::select();
    select
        .column("member_id")
        .from(TABLE)
        .and_where(Expr::col("member_id").is_in(members.iter().copied()))
        .and_where(Expr::col("event_id").eq(event_id.to_string()));
    let rows = tx.query_all(&select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "member_id")?)).collect()
}

pub(super) async fn insert(tx: &Tx, frames: &[(&StreamEvent, Appended)], now_ms: i64) -> Result<()> {
    for frames in frames.chunks(ROWS_MAX) {
        let mut insert = Query::insert();
        insert.into_table(TABLE).columns([
            "member_id",
            "seq",
            "event_id",
            "name",
            "data",
            "is_silent",
            "created_ms",
        ]);
        for (event, appended) in frames {
            let data = if appended.is_silent { SILENCE } else { event.data.get() };
            insert.values_panic([
                appended.member_id.into(),
                appended.seq.into(),
                appended.event_id.to_string().into(),
                event.name.into(),
                data.into(),
                appended.is_silent.into(),
                now_ms.into(),
            ]);
        }
        tx.execute(&insert).await?;
    }
    Ok(())
}

fn read_id(text: &str) -> Result<Uuid> {
    Uuid::try_parse(text).map_err(|source| Error::caused(ErrorKind::Failed, "read the id of a frame", source))
}

/// A frame as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) seq: i64,
    pub(super) event_id: String,
    pub(super) name: String,
    pub(super) data: String,
    pub(super) is_silent: bool,
}

/// The frames of a member after a number and up to another one, oldest first.
pub(super) async fn between(
    db: &impl ConnectionTrait,
    member_id: i64,
    (after, until): (i64, i64),
    limit: u64,
) -> Result<Vec<Stored>> {
    let mut select = Query::select();
    select
        .columns(["seq", "event_id", "name", "data", "is_silent"])
        .from(TABLE)
        .and_where(Expr::col("member_id").eq(member_id))
        .and_where(Expr::col("seq").gt(after))
        .and_where(Expr::col("seq").lte(until))
        .order_by("seq", Order::Asc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            Ok(Stored {
                seq: row.try_get("", "seq")?,
                event_id: row.try_get("", "event_id")?,
                name: row.try_get("", "name")?,
                data: row.try_get("", "data")?,
                is_silent: row.try_get("", "is_silent")?,
            })
        })
        .collect()
}

/// The numbers of the frames of these events in the stream of a member.
pub(super) async fn seqs(
    db: &impl ConnectionTrait,
    member_id: i64,
    event_ids: impl IntoIterator<Item = &str>,
) -> Result<HashMap<String, i64>> {
    let event_ids: Vec<&str> = event_ids.into_iter().collect();
    if event_ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut select = Query::select();
    select
        .columns(["event_id", "seq"])
        .from(TABLE)
        .and_where(Expr::col("member_id").eq(member_id))
        .and_where(Expr::col("event_id").is_in(event_ids));
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| Ok((row.try_get("", "event_id")?, row.try_get("", "seq")?)))
        .collect()
}

/// The frames of notifications that were made before the first time, and the others that were made before the second one, as
/// members and numbers.
pub(super) async fn made_before(
    tx: &Tx,
    (notifications_ms, others_ms): (i64, i64),
    limit: u64,
) -> Result<Vec<(i64, i64)>> {
    let mut old = Vec::new();
    for (name, before_ms) in [(NOTIFICATION, notifications_ms), (CHAT, others_ms), (UNREAD, others_ms)] {
        let mut select = Query::select();
        select
            .columns(["member_id", "seq"])
            .from(TABLE)
            .and_where(Expr::col("name").eq(name))
            .and_where(Expr::col("created_ms").lt(before_ms))
            .order_by("created_ms", Order::Asc)
            .limit(limit);
        for row in tx.query_all(&select).await? {
            old.push((row.try_get("", "member_id")?, row.try_get("", "seq")?));
        }
    }
    Ok(old)
}

pub(super) async fn delete(tx: &Tx, frames: &[(i64, i64)]) -> Result<u64> {
    let mut delete = Query::delete();
    delete
        .from_table(TABLE)
        .and_where(Expr::tuple([Expr::col("member_id"), Expr::col("seq")]).in_tuples(frames.to_vec()));
    Ok(tx.execute(&delete).await?.rows_affected())
}
