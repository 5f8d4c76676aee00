//! Entries that history does not have yet.

use std::collections::{BTreeMap, HashSet};

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, QueryResult};

use super::in_rooms;

pub(crate) async fn insert(tx: &Tx, room_id: i64, seq: i64) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("community_chat_unstored")
        .columns(["room_id", "seq"])
        .values_panic([room_id.into(), seq.into()]);
    tx.execute(&insert).await?;
    Ok(())
}

/// Takes entries out, because history has them.
pub(crate) async fn remove(tx: &Tx, seqs: &BTreeMap<i64, Vec<i64>>) -> Result<()> {
    if seqs.is_empty() {
        return Ok(());
    }
    let mut delete = Query::delete();
    delete
        .from_table("community_chat_unstored")
        .cond_where(in_rooms(seqs, "seq"));
    tx.execute(&delete).await?;
    Ok(())
}

/// Those of these entries that history does not have yet: room and number.
pub(crate) async fn among(db: &impl ConnectionTrait, seqs: &BTreeMap<i64, Vec<i64>>) -> Result<HashSet<(i64, i64)>> {
    if seqs.is_empty() {
        return Ok(HashSet::new());
    }
    let mut select = Query::select();
    select
        .columns(["room_id", "seq"])
        .from("community_chat_unstored")
        .cond_where(in_rooms(seqs, "seq"));
    let rows = db.query_all(&select).await?;
    let read = |row: &QueryResult| Ok((row.try_get("", "room_id")?, row.try_get("", "seq")?));
    rows.iter().map(read).collect()
}

/// Removes the rows of a room up to this number.
pub(crate) async fn remove_up_to(tx: &Tx, room_id: i64, seq: i64) -> Result<()> {
    let mut delete = Query::delete();
    delete
        .from_table("community_chat_unstored")
        .and_where(Expr::col("room_id").eq(room_id))
        .and_where(Expr::col("seq").lte(seq));
    tx.execute(&delete).await?;
    Ok(())
}
