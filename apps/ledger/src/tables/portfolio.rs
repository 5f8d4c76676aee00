//! Read model: what an owner has.

use std::collections::BTreeMap;

use postroom::Result;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use serde::Serialize;

use crate::events::Movement;

/// What an owner has: account by account, and in sum.
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
pub(crate) async fn add(tx: &DatabaseTransaction, movement: &Movement) -> Result<()> {
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

pub(crate) async fn find(db: &impl ConnectionTrait, owner: &str) -> Result<Portfolio> {
    let mut select = Query::select();
    select
        .columns(["account_id", "currency", "balance", "transactions"])
        .from("ledger_portfolio")
        .and_where(Expr::col("owner").eq(owner))
        .order_by("account_id", Order::Asc);
    let rows = db.query_all(&select).await?;
    let mut portfolio = Portfolio {
        owner: owner.to_owned(),
        totals: BTreeMap::new(),
        accounts: Vec::with_capacity(rows.len()),
    };
    for row in &rows {
        let holding = Holding {
            account_id: row.try_get("", "account_id")?,
            currency: row.try_get("", "currency")?,
            balance: row.try_get("", "balance")?,
            transactions: row.try_get("", "transactions")?,
        };
        *portfolio.totals.entry(holding.currency.clone()).or_default() += i128::from(holding.balance);
        portfolio.accounts.push(holding);
    }
    Ok(portfolio)
}
