//! The current accounts.

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};

use super::{now_ms, parts, unreadable, whole};
use crate::domain::{Account, AccountId, Currency};

pub(crate) async fn insert(tx: &Tx, account: &Account) -> Result<()> {
    let (low, high) = parts(account.balance)?;
    let mut insert = Query::insert();
    insert
        .into_table("ledger_account")
        .columns([
            "account_id",
            "owner",
            "name",
            "currency",
            "balance",
            "balance_high",
            "version",
            "opened_at_ms",
        ])
        .values_panic([
            account.account_id.as_str().into(),
            account.owner.as_str().into(),
            account.name.as_str().into(),
            account.currency.code().into(),
            low.into(),
            high.into(),
            account.version.into(),
            now_ms().into(),
        ])
        .on_conflict(
            OnConflict::column("account_id")
                .do_nothing_on(["account_id"])
                .to_owned(),
        );
    tx.execute(&insert).await?;
    Ok(())
}

pub(crate) async fn find(db: &impl ConnectionTrait, account_id: &AccountId) -> Result<Option<Account>> {
    let row = db.query_one(&select(account_id)).await?;
    row.map(|row| read(account_id, &row)).transpose()
}

/// Writes an account after one more posting. Returns `false` when a concurrent posting came first.
pub(crate) async fn advance(tx: &Tx, after: &Account) -> Result<bool> {
    let (low, high) = parts(after.balance)?;
    let mut update = Query::update();
    update
        .table("ledger_account")
        .value("balance", low)
        .value("balance_high", high)
        .value("version", after.version)
        .and_where(Expr::col("account_id").eq(after.account_id.as_str()))
        .and_where(Expr::col("version").eq(after.version - 1));
    Ok(tx.execute(&update).await?.rows_affected() == 1)
}

/// Locks an account until the transaction ends.
pub(crate) async fn lock(tx: &Tx, account_id: &AccountId) -> Result<()> {
    let mut update = Query::update();
    update
        .table("ledger_account")
        .value("version", Expr::col("version"))
        .and_where(Expr::col("account_id").eq(account_id.as_str()));
    tx.execute(&update).await?;
    Ok(())
}

fn select(account_id: &AccountId) -> SelectStatement {
    let mut select = Query::select();
    select
        .columns(["owner", "name", "currency", "balance", "balance_high", "version"])
        .from("ledger_account")
        .and_where(Expr::col("account_id").eq(account_id.as_str()));
    select
}

fn read(account_id: &AccountId, row: &QueryResult) -> Result<Account> {
    let currency: String = row.try_get("", "currency")?;
    Ok(Account {
        account_id: account_id.clone(),
        owner: row.try_get("", "owner")?,
        name: row.try_get("", "name")?,
        currency: Currency::parse(&currency).map_err(|_unknown| unreadable("a currency"))?,
        balance: whole(row.try_get("", "balance")?, row.try_get("", "balance_high")?),
        version: row.try_get("", "version")?,
    })
}
