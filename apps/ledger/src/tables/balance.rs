//! Read model: balances.

use postroom::{Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use serde::Serialize;

use crate::domain::AccountId;
use crate::events::Movement;

/// The balance from the newest event of an account.
#[derive(Debug, Serialize)]
pub(crate) struct Balance {
    account_id: String,
    owner: String,
    currency: String,
    balance: i64,
    sequence_number: i64,
    transaction_id: String,
    posted_at_ms: i64,
}

/// Stores the balance of an event, unless a newer event was stored. A repeated event changes nothing.
pub(crate) async fn upsert(tx: &Tx, movement: &Movement) -> Result<()> {
    let mut update = Query::update();
    update
        .table("ledger_balance")
        .value("balance", movement.balance_after)
        .value("sequence_number", movement.sequence_number)
        .value("transaction_id", movement.transaction_id.to_string())
        .value("posted_at_ms", movement.posted_at_ms)
        .and_where(Expr::col("account_id").eq(movement.account_id.as_str()))
        .and_where(Expr::col("sequence_number").lt(movement.sequence_number));
    if tx.execute(&update).await?.rows_affected() == 1 {
        return Ok(());
    }
    let mut insert = Query::insert();
    insert
        .into_table("ledger_balance")
        .columns([
            "account_id",
            "owner",
            "currency",
            "balance",
            "sequence_number",
            "transaction_id",
            "posted_at_ms",
        ])
        .values_panic([
            movement.account_id.as_str().into(),
            movement.owner.as_str().into(),
            movement.currency.as_str().into(),
            movement.balance_after.into(),
            movement.sequence_number.into(),
            movement.transaction_id.to_string().into(),
            movement.posted_at_ms.into(),
        ])
        .on_conflict(
            OnConflict::column("account_id")
                .do_nothing_on(["account_id"])
                .to_owned(),
        );
    tx.execute(&insert).await?;
    Ok(())
}

pub(crate) async fn find(db: &impl ConnectionTrait, account_id: &AccountId) -> Result<Option<Balance>> {
    let mut select = Query::select();
    select
        .columns([
            "owner",
            "currency",
            "balance",
            "sequence_number",
            "transaction_id",
            "posted_at_ms",
        ])
        .from("ledger_balance")
        .and_where(Expr::col("account_id").eq(account_id.as_str()));
    let row = db.query_one(&select).await?;
    row.map(|row| {
        Ok(Balance {
            account_id: account_id.to_string(),
            owner: row.try_get("", "owner")?,
            currency: row.try_get("", "currency")?,
            balance: row.try_get("", "balance")?,
            sequence_number: row.try_get("", "sequence_number")?,
            transaction_id: row.try_get("", "transaction_id")?,
            posted_at_ms: row.try_get("", "posted_at_ms")?,
        })
    })
    .transpose()
}
