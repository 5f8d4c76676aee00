//! The last sequence number of each account, and the recorded anomalies.

use postroom::{Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use serde::Serialize;

use super::now_ms;

/// A missing or repeated sequence number.
#[derive(Debug, Serialize)]
pub(crate) struct Anomaly {
    account_id: String,
    sequence_number: i64,
    /// `missing` or `repeated`.
    kind: String,
    noticed_at_ms: i64,
    /// The time when a missing number arrived.
    mended_at_ms: Option<i64>,
}

/// The highest number so far; zero before the first event.
pub(crate) async fn last(tx: &Tx, account_id: &str) -> Result<i64> {
    let mut select = Query::select();
    select
        .column("sequence_number")
        .from("ledger_sequence")
        .and_where(Expr::col("account_id").eq(account_id));
    let row = tx.query_one(&select).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get("", "sequence_number"))?)
}

pub(crate) async fn set_last(tx: &Tx, account_id: &str, number: i64) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("ledger_sequence")
        .columns(["account_id", "sequence_number"])
        .values_panic([account_id.into(), number.into()])
        .on_conflict(
            OnConflict::column("account_id")
                .update_column("sequence_number")
                .to_owned(),
        );
    tx.execute(&insert).await?;
    Ok(())
}

pub(crate) async fn note(tx: &Tx, account_id: &str, number: i64, kind: &str) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("ledger_anomaly")
        .columns(["account_id", "sequence_number", "kind", "noticed_at_ms"])
        .values_panic([account_id.into(), number.into(), kind.into(), now_ms().into()])
        .on_conflict(
            OnConflict::columns(["account_id", "sequence_number", "kind"])
                .do_nothing_on(["account_id"])
                .to_owned(),
        );
    tx.execute(&insert).await?;
    Ok(())
}

/// Marks a missing number as arrived. Returns `false` when it was not missing.
pub(crate) async fn mend(tx: &Tx, account_id: &str, number: i64) -> Result<bool> {
    let mut update = Query::update();
    update
        .table("ledger_anomaly")
        .value("mended_at_ms", now_ms())
        .and_where(Expr::col("account_id").eq(account_id))
        .and_where(Expr::col("sequence_number").eq(number))
        .and_where(Expr::col("kind").eq("missing"))
        .and_where(Expr::col("mended_at_ms").is_null());
    Ok(tx.execute(&update).await?.rows_affected() == 1)
}

/// The first anomalies, sorted by account and number.
pub(crate) async fn anomalies(db: &impl ConnectionTrait, limit: u64) -> Result<Vec<Anomaly>> {
    let mut select = Query::select();
    select
        .columns(["account_id", "sequence_number", "kind", "noticed_at_ms", "mended_at_ms"])
        .from("ledger_anomaly")
        .order_by("account_id", Order::Asc)
        .order_by("sequence_number", Order::Asc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            Ok(Anomaly {
                account_id: row.try_get("", "account_id")?,
                sequence_number: row.try_get("", "sequence_number")?,
                kind: row.try_get("", "kind")?,
                noticed_at_ms: row.try_get("", "noticed_at_ms")?,
                mended_at_ms: row.try_get("", "mended_at_ms")?,
            })
        })
        .collect()
}
