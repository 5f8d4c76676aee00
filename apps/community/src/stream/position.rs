//! The row of each stream: how far it has come, how many notifications are unread, and whether they are muted.

use std::collections::{BTreeMap, BTreeSet};

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};

/// The table.
const TABLE: &str = "community_member_stream";

/// The row of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The member.
    pub(crate) member_id: i64,
    /// The number of the last frame; 0 if there is none.
    pub(crate) seq: i64,
    /// The unread notifications, muted ones included.
    pub(crate) unread: i64,
    /// Whether notifications are muted.
    pub(crate) is_muted: bool,
    /// Frames up to this number may have been removed by retention.
    pub(crate) pruned_seq: i64,
}

impl Position {
    /// The row of a member without any frame.
    pub(crate) fn new(member_id: i64) -> Self {
        Self {
            member_id,
            seq: 0,
            unread: 0,
            is_muted: false,
            pruned_seq: 0,
        }
    }
}

/// Locks the rows of these members, and makes those that are missing. `members` are sorted.
///
/// Missing rows are made before any row is locked, both in the order of the ids: so two transactions do not wait for each other.
pub(crate) async fn lock(tx: &Tx, members: &[i64]) -> Result<BTreeMap<i64, Position>> {
    let found = tx.query_all(&select(members)).await?;
    let found: BTreeSet<i64> = found
        .iter()
        .map(|row| row.try_get("", "member_id"))
        .collect::<Result<_, _>>()?;
    let missing: Vec<Position> = members
        .iter()
        .filter(|member| !found.contains(member))
        .map(|member| Position::new(*member))
        .collect();
    if !missing.is_empty() {
        let mut insert = insert(&missing);
        let nothing = OnConflict::column("member_id").do_nothing_on(["member_id"]).to_owned();
        tx.execute(insert.on_conflict(nothing)).await?;
    }
    let rows = tx.query_all(select(members).lock_exclusive()).await?;
    let positions = rows.iter().map(read).map(|position| {
        let position = position?;
        Ok((position.member_id, position))
    });
    positions.collect()
}

/// The rows of these members that are there, without a lock.
pub(crate) async fn look(db: &impl ConnectionTrait, members: &[i64]) -> Result<Vec<Position>> {
    let rows = db.query_all(&select(members)).await?;
    rows.iter().map(read).collect()
}

/// Locks the row of a member.
pub(crate) async fn lock_one(tx: &Tx, member_id: i64) -> Result<Position> {
    let found = lock(tx, &[member_id]).await?.remove(&member_id);
    Ok(found.unwrap_or_else(|| Position::new(member_id)))
}

/// The row of a member, without a lock.
pub(crate) async fn look_one(db: &impl ConnectionTrait, member_id: i64) -> Result<Position> {
    let found = look(db, &[member_id]).await?;
    Ok(found.first().copied().unwrap_or_else(|| Position::new(member_id)))
}

/// Writes a row that is locked.
pub(crate) async fn store_one(tx: &Tx, position: Position) -> Result<()> {
    store(tx, std::iter::once(&position)).await
}

/// Writes rows that are locked.
pub(crate) async fn store(tx: &Tx, positions: impl Iterator<Item = &Position>) -> Result<()> {
    let positions: Vec<Position> = positions.copied().collect();
    if positions.is_empty() {
        return Ok(());
    }
    let mut insert = insert(&positions);
    let all = ["seq", "unread", "is_muted", "pruned_seq"];
    insert.on_conflict(OnConflict::column("member_id").update_columns(all).to_owned());
    tx.execute(&insert).await?;
    Ok(())
}

fn insert(positions: &[Position]) -> sea_orm::sea_query::InsertStatement {
    let mut insert = Query::insert();
    insert
        .into_table(TABLE)
        .columns(["member_id", "seq", "unread", "is_muted", "pruned_seq"]);
    for position in positions {
        insert.values_panic([
            position.member_id.into(),
            position.seq.into(),
            position.unread.into(),
            position.is_muted.into(),
            position.pruned_seq.into(),
        ]);
    }
    insert
}

fn select(members: &[i64]) -> SelectStatement {
    let mut select = Query::select();
    select
        .columns(["member_id", "seq", "unread", "is_muted", "pruned_seq"])
        .from(TABLE)
        .and_where(Expr::col("member_id").is_in(members.iter().copied()))
        .order_by("member_id", Order::Asc);
    select
}

fn read(row: &QueryResult) -> Result<Position> {
    Ok(Position {
        member_id: row.try_get("", "member_id")?,
        seq: row.try_get("", "seq")?,
        unread: row.try_get("", "unread")?,
        is_muted: row.try_get("", "is_muted")?,
        pruned_seq: row.try_get("", "pruned_seq")?,
    })
}
