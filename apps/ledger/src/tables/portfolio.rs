//! Read model: the portfolio of an owner.

use std::collections::BTreeMap;

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};
use serde::Serialize;

use crate::domain::AccountId;
use crate::events::Movement;

/// Splits a balance into a high and a low part, so that neither sum overflows.
const LOW_RANGE: i64 = 1 << 32;

/// The portfolio of an owner: totals over all accounts, and one page of the accounts.
#[derive(Debug, Serialize)]
pub(crate) struct Portfolio {
    owner: String,
    /// Totals by currency, in minor units. A total may exceed the range of one balance.
    totals: BTreeMap<String, i128>,
    accounts: Vec<Holding>,
}

/// One account of a portfolio.
#[derive(Debug, Serialize)]
struct Holding {
    account_id: String,
    currency: String,
    balance: i64,
    /// The number of transactions that changed the balance.
    transactions: i64,
}

/// Adds a movement. Not idempotent: the inbox prevents a second call for the same event.
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

/// The totals of an owner, and at most `limit` accounts after an account id.
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

/// Totals by currency. High and low parts are summed separately, because a total may exceed the range of one balance.
async fn totals(db: &impl ConnectionTrait, owner: &str) -> Result<BTreeMap<String, i128>> {
    let low = || Expr::col("balance").modulo(LOW_RANGE);
    let high = Expr::col("balance").sub(low()).div(LOW_RANGE);
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
            i128::from(high) * i128::from(LOW_RANGE) + i128::from(low),
        ))
    };
    rows.iter().map(total).collect()
}
