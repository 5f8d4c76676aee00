//! Read model: what an owner has.

use std::collections::BTreeMap;

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};
use serde::Serialize;

use crate::domain::AccountId;
use crate::events::Movement;

/// A balance is so many of these, and a rest.
const HALF: i64 = 1 << 32;

/// What an owner has: in sum, and account by account, of which it may be a part.
#[derive(Debug, Serialize)]
pub(crate) struct Portfolio {
    owner: String,
    /// By currency, in minor units. Many accounts can hold more than one can.
    totals: BTreeMap<String, i128>,
    accounts: Vec<Holding>,
}

/// What one account has.
#[derive(Debug, Serialize)]
struct Holding {
    account_id: String,
    currency: String,
    balance: i64,
    /// How many transactions made it so.
    transactions: i64,
}

/// Adds a movement. Adding it twice would count it twice: the inbox keeps that from happening.
pub(crate) async fn add(tx: &Tx, movement: &Movement) -> Result<()> {
    let own = |column: &'static str| Expr::col(("ledger_portfolio", column));
    let mut insert = Query::insert();
    insert
        .into_table("ledger_portfolio")
        .columns(["owner", "account_id", "currency", "balance", "transactions"])
        .values_panic([
            movement.owner.as_str().into(),
            movement.account_id.as_str().into(),
            movement.currency.as_str().into(),
            movement.amount.into(),
            1.into(),
        ])
        .on_conflict(
            OnConflict::columns(["owner", "account_id"])
                .value("balance", own("balance").add(movement.amount))
                .value("transactions", own("transactions").add(1))
                .to_owned(),
        );
    tx.execute(&insert).await?;
    Ok(())
}

/// What an owner has in sum, and so many accounts of it after one.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    owner: &str,
    after: Option<&AccountId>,
    limit: u64,
) -> Result<Portfolio> {
    let mut select = Query::select();
    select
        .columns(["account_id", "currency", "balance", "transactions"])
        .from("ledger_portfolio")
        .and_where(Expr::col("owner").eq(owner))
        .and_where(Expr::col("account_id").gt(after.map_or("", AccountId::as_str)))
        .order_by("account_id", Order::Asc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    Ok(Portfolio {
        owner: owner.to_owned(),
        totals: totals(db, owner).await?,
        accounts: rows.iter().map(read).collect::<Result<_>>()?,
    })
}

fn read(row: &QueryResult) -> Result<Holding> {
    Ok(Holding {
        account_id: row.try_get("", "account_id")?,
        currency: row.try_get("", "currency")?,
        balance: row.try_get("", "balance")?,
        transactions: row.try_get("", "transactions")?,
    })
}

/// The sums by currency. High and low halves are summed up apart: a sum need not fit where a balance does.
async fn totals(db: &impl ConnectionTrait, owner: &str) -> Result<BTreeMap<String, i128>> {
    let low = || Expr::col("balance").modulo(HALF);
    let high = Expr::col("balance").sub(low()).div(HALF);
    let integer = match db.get_database_backend() {
        DbBackend::Postgres => "bigint",
        DbBackend::MySql => "signed",
        _ => "integer",
    };
    let mut select = Query::select();
    select
        .column("currency")
        .expr_as(high.sum().cast_as(integer), "high")
        .expr_as(low().sum().cast_as(integer), "low")
        .from("ledger_portfolio")
        .and_where(Expr::col("owner").eq(owner))
        .group_by_col("currency");
    let rows = db.query_all(&select).await?;
    let total = |row: &QueryResult| {
        let (high, low): (i64, i64) = (row.try_get("", "high")?, row.try_get("", "low")?);
        Ok((
            row.try_get("", "currency")?,
            i128::from(high) * i128::from(HALF) + i128::from(low),
        ))
    };
    rows.iter().map(total).collect()
}
