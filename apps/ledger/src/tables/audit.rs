//! The audit log. Rows are appended and deleted after their retention time, but never changed.

use postroom::{Event, Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use serde::Serialize;

use super::now_ms;
use crate::domain::AccountId;
use crate::events::Movement;

/// A row of the audit log.
#[derive(Debug, Serialize)]
pub(crate) struct Audited {
    transaction_id: String,
    event_type: String,
    event_id: String,
    sequence_number: i64,
    currency: String,
    amount: i64,
    balance_after: i64,
    posted_at_ms: i64,
}

/// Appends one row for each transaction and account. A repeated event changes nothing.
pub(crate) async fn append(tx: &Tx, event: &Event, movement: &Movement) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("ledger_audit")
        .columns([
            "account_id",
            "transaction_id",
            "event_type",
            "event_id",
            "sequence_number",
            "currency",
            "amount",
            "balance_after",
            "posted_at_ms",
        ])
        .values_panic([
            movement.account_id.as_str().into(),
            movement.transaction_id.to_string().into(),
            event.event_type.as_str().into(),
            event.id.to_string().into(),
            movement.sequence_number.into(),
            movement.currency.as_str().into(),
            movement.amount.into(),
            movement.balance_after.into(),
            movement.posted_at_ms.into(),
        ])
        .on_conflict(
            OnConflict::columns(["account_id", "transaction_id"])
                .do_nothing_on(["account_id"])
                .to_owned(),
        );
    tx.execute(&insert).await?;
    Ok(())
}

/// The rows of an account after a sequence number, in order.
pub(crate) async fn of_account(
    db: &impl ConnectionTrait,
    account_id: &AccountId,
    after: i64,
    limit: u64,
) -> Result<Vec<Audited>> {
    let mut select = Query::select();
    select
        .columns([
            "transaction_id",
            "event_type",
            "event_id",
            "sequence_number",
            "currency",
        ])
        .columns(["amount", "balance_after", "posted_at_ms"])
        .from("ledger_audit")
        .and_where(Expr::col("account_id").eq(account_id.as_str()))
        .and_where(Expr::col("sequence_number").gt(after))
        .order_by("sequence_number", Order::Asc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            Ok(Audited {
                transaction_id: row.try_get("", "transaction_id")?,
                event_type: row.try_get("", "event_type")?,
                event_id: row.try_get("", "event_id")?,
                sequence_number: row.try_get("", "sequence_number")?,
                currency: row.try_get("", "currency")?,
                amount: row.try_get("", "amount")?,
                balance_after: row.try_get("", "balance_after")?,
                posted_at_ms: row.try_get("", "posted_at_ms")?,
            })
        })
        .collect()
}

/// Deletes at most `batch` rows that are older than `keep_ms`. Returns their number.
pub(crate) async fn prune(tx: &Tx, keep_ms: i64, batch: u64) -> Result<u64> {
    let mut select = Query::select();
    select
        .columns(["account_id", "transaction_id"])
        .from("ledger_audit")
        .and_where(Expr::col("posted_at_ms").lt(now_ms() - keep_ms))
        .limit(batch);
    let rows = tx.query_all(&select).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let old: Vec<(String, String)> = rows
        .iter()
        .map(|row| Ok((row.try_get("", "account_id")?, row.try_get("", "transaction_id")?)))
        .collect::<Result<_>>()?;
    let mut delete = Query::delete();
    delete
        .from_table("ledger_audit")
        .and_where(Expr::tuple([Expr::col("account_id"), Expr::col("transaction_id")]).in_tuples(old));
    Ok(tx.execute(&delete).await?.rows_affected())
}
