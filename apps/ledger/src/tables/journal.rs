//! Transactions and their journal entries. Rows are inserted and never changed.

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ConnectionTrait, QueryResult};
use serde::Serialize;
use uuid::Uuid;

use super::{parts, read_id, unreadable, whole};
use crate::domain::{AccountId, Currency, Kind, Leg, Posted, Transaction};

/// A journal entry in a response.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) account_id: String,
    pub(crate) sequence_number: i64,
    pub(crate) transaction_id: String,
    pub(crate) amount: i64,
    pub(crate) balance_after: i128,
}

/// A transaction in a response.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) transaction_id: Uuid,
    pub(crate) kind: &'static str,
    pub(crate) currency: &'static str,
    /// The transaction that this one reverses.
    pub(crate) reverses: Option<Uuid>,
    /// The transaction that reverses this one.
    pub(crate) reversed_by: Option<Uuid>,
    pub(crate) posted_at_ms: i64,
    pub(crate) entries: Vec<Line>,
}

pub(crate) async fn insert(tx: &Tx, posted: &Posted) -> Result<()> {
    let transaction = &posted.transaction;
    let id = transaction.transaction_id.to_string();
    let mut insert = Query::insert();
    insert
        .into_table("ledger_transaction")
        .columns(["transaction_id", "kind", "currency", "reverses", "posted_at_ms"])
        .values_panic([
            id.as_str().into(),
            transaction.kind.name().into(),
            transaction.currency.code().into(),
            transaction.reverses.map(|id| id.to_string()).into(),
            posted.posted_at_ms.into(),
        ]);
    tx.execute(&insert).await?;
    let mut entries = Query::insert();
    entries.into_table("ledger_entry").columns([
        "account_id",
        "sequence_number",
        "transaction_id",
        "amount",
        "balance_after",
        "balance_after_high",
    ]);
    for entry in &posted.entries {
        let (low, high) = parts(entry.account.balance)?;
        entries.values_panic([
            entry.account.account_id.as_str().into(),
            entry.account.version.into(),
            id.as_str().into(),
            entry.amount.into(),
            low.into(),
            high.into(),
        ]);
    }
    tx.execute(&entries).await?;
    Ok(())
}

/// A transaction with its entries, the source entry first.
pub(crate) async fn find(db: &impl ConnectionTrait, id: Uuid) -> Result<Option<Record>> {
    let mut select = Query::select();
    select
        .columns(["kind", "currency", "reverses", "posted_at_ms"])
        .from("ledger_transaction")
        .and_where(Expr::col("transaction_id").eq(id.to_string()));
    let Some(row) = db.query_one(&select).await? else {
        return Ok(None);
    };
    let (kind, currency): (String, String) = (row.try_get("", "kind")?, row.try_get("", "currency")?);
    let reverses: Option<String> = row.try_get("", "reverses")?;
    Ok(Some(Record {
        transaction_id: id,
        kind: Kind::parse(&kind)
            .ok_or_else(|| unreadable("a kind of transaction"))?
            .name(),
        currency: Currency::parse(&currency)
            .map_err(|_unknown| unreadable("a currency"))?
            .code(),
        reverses: reverses.as_deref().map(read_id).transpose()?,
        reversed_by: reversal_of(db, id).await?,
        posted_at_ms: row.try_get("", "posted_at_ms")?,
        entries: lines(db, Expr::col("transaction_id").eq(id.to_string()), "amount", 2).await?,
    }))
}

/// The transaction that reverses this one.
pub(crate) async fn reversal_of(db: &impl ConnectionTrait, id: Uuid) -> Result<Option<Uuid>> {
    let mut select = Query::select();
    select
        .column("transaction_id")
        .from("ledger_transaction")
        .and_where(Expr::col("reverses").eq(id.to_string()));
    let row = db.query_one(&select).await?;
    row.map(|row| read_id(&row.try_get::<String>("", "transaction_id")?))
        .transpose()
}

/// The entries of an account after a sequence number, in order.
pub(crate) async fn entries(db: &impl ConnectionTrait, id: &AccountId, after: i64, limit: u64) -> Result<Vec<Line>> {
    let of_account = Expr::col("account_id")
        .eq(id.as_str())
        .and(Expr::col("sequence_number").gt(after));
    lines(db, of_account, "sequence_number", limit).await
}

async fn lines(db: &impl ConnectionTrait, which: Expr, order: &'static str, limit: u64) -> Result<Vec<Line>> {
    let mut select = Query::select();
    select
        .columns([
            "account_id",
            "sequence_number",
            "transaction_id",
            "amount",
            "balance_after",
            "balance_after_high",
        ])
        .from("ledger_entry")
        .and_where(which)
        .order_by(order, Order::Asc)
        .limit(limit);
    let rows = db.query_all(&select).await?;
    rows.iter().map(read_line).collect()
}

fn read_line(row: &QueryResult) -> Result<Line> {
    Ok(Line {
        account_id: row.try_get("", "account_id")?,
        sequence_number: row.try_get("", "sequence_number")?,
        transaction_id: row.try_get("", "transaction_id")?,
        amount: row.try_get("", "amount")?,
        balance_after: whole(
            row.try_get("", "balance_after")?,
            row.try_get("", "balance_after_high")?,
        ),
    })
}

impl Record {
    /// The record of a transaction that was just posted.
    pub(crate) fn of(posted: &Posted) -> Self {
        let transaction = &posted.transaction;
        let line = |entry: &crate::domain::Entry| Line {
            account_id: entry.account.account_id.to_string(),
            sequence_number: entry.account.version,
            transaction_id: transaction.transaction_id.to_string(),
            amount: entry.amount,
            balance_after: entry.account.balance,
        };
        let mut entries: Vec<Line> = posted.entries.iter().map(line).collect();
        entries.sort_by_key(|line| line.amount);
        Self {
            transaction_id: transaction.transaction_id,
            kind: transaction.kind.name(),
            currency: transaction.currency.code(),
            reverses: transaction.reverses,
            reversed_by: None,
            posted_at_ms: posted.posted_at_ms,
            entries,
        }
    }

    /// Rebuilds the transaction from its record.
    pub(crate) fn transaction(&self) -> Result<Transaction> {
        let [from, to] = self.entries.as_slice() else {
            return Err(unreadable("a transaction without two entries"));
        };
        let leg = |line: &Line| -> Result<Leg> {
            Ok(Leg {
                account_id: AccountId::parse(&line.account_id).map_err(|_odd| unreadable("an account's id"))?,
                amount: line.amount,
            })
        };
        Ok(Transaction {
            transaction_id: self.transaction_id,
            kind: Kind::parse(self.kind).ok_or_else(|| unreadable("a kind of transaction"))?,
            currency: Currency::parse(self.currency).map_err(|_unknown| unreadable("a currency"))?,
            legs: [leg(from)?, leg(to)?],
            reverses: self.reverses,
        })
    }
}
