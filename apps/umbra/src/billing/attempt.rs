//! The table of attempts: what each charge asks for, and how far it has come.

use postroom::{Error, ErrorKind, Migration, Result, Tx};
use sea_orm::QueryResult;
use sea_orm::sea_query::{Expr, ExprTrait};

use super::card::Charge;
use crate::plan::Plan;
use crate::rows::{self, Cell, cell};

pub(crate) const MIGRATION: Migration = Migration {
    number: 9,
    name: "attempt",
    up: include_str!("../../migrations/0009_attempt.up.sql"),
    down: include_str!("../../migrations/0009_attempt.down.sql"),
};

const ATTEMPT: &str = "umbra_attempt";
const OPEN: &str = "open";
const ASKED: &str = "asked";
const REFUNDING: &str = "refunding";

/// How far a charge has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Nobody was asked.
    Open,
    /// The card may have been asked for this, and nobody knows the answer.
    Asked(Charge),
    /// It was paid, nobody wants it any more, and the money is not known to be back.
    Refunding(Charge),
    /// What became of it is written down.
    Closed,
}

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate<'a> {
    /// It was paid.
    Paid,
    /// It was not, and the bank said why.
    Declined(&'a str),
    /// Nobody wanted it when its time came, so that nobody was asked.
    Dropped,
    /// It was paid, and nobody wants it any more: the money is to go back.
    Refunding,
    /// The money went back.
    Refunded,
}

pub(super) async fn open(tx: &Tx, attempt_id: &str, subscription_id: &str) -> Result<()> {
    let row = vec![
        cell("attempt_id", attempt_id),
        cell("subscription_id", subscription_id),
        cell("status", OPEN),
    ];
    rows::insert(tx, ATTEMPT, row).await
}

/// How far it has come; nobody else changes that until this transaction ends.
pub(super) async fn lock(tx: &Tx, attempt_id: &str) -> Result<Attempt> {
    let row = rows::lock(tx, ATTEMPT, ("attempt_id", attempt_id)).await?;
    row.map_or(Ok(Attempt::Closed), read)
}

/// How far the newest of a subscription has come.
pub(super) async fn newest(tx: &Tx, subscription_id: &str) -> Result<Attempt> {
    let rows = rows::list(tx, ATTEMPT, ("subscription_id", subscription_id), "attempt_id").await?;
    rows.into_iter().next_back().map_or(Ok(Attempt::Closed), read)
}

/// Writes down what the card is about to be asked for.
pub(super) async fn ask(tx: &Tx, plan: Plan, charge: &Charge) -> Result<()> {
    let cells = vec![
        cell("status", ASKED),
        cell("plan_code", plan.code()),
        cell("card_token", charge.card_token.as_str()),
        cell("amount", charge.amount),
    ];
    change(tx, &charge.attempt_id, cells).await
}

/// Writes down what became of it.
pub(super) async fn close(tx: &Tx, attempt_id: &str, fate: Fate<'_>) -> Result<()> {
    let (status, code) = match fate {
        Fate::Paid => ("paid", None),
        Fate::Declined(code) => ("declined", Some(code)),
        Fate::Dropped => ("dropped", None),
        Fate::Refunding => (REFUNDING, None),
        Fate::Refunded => ("refunded", None),
    };
    change(tx, attempt_id, vec![cell("status", status), cell("decline_code", code)]).await
}

async fn change(tx: &Tx, attempt_id: &str, cells: Vec<Cell>) -> Result<()> {
    rows::change(tx, ATTEMPT, cells, Expr::col("attempt_id").eq(attempt_id)).await?;
    Ok(())
}

fn read(row: QueryResult) -> Result<Attempt> {
    let status: String = row.try_get("", "status")?;
    Ok(match status.as_str() {
        OPEN => Attempt::Open,
        ASKED => Attempt::Asked(read_charge(&row)?),
        REFUNDING => Attempt::Refunding(read_charge(&row)?),
        _ => Attempt::Closed,
    })
}

fn read_charge(row: &QueryResult) -> Result<Charge> {
    let attempt_id: String = row.try_get("", "attempt_id")?;
    let broken = || Error::new(ErrorKind::Failed, format!("read what {attempt_id} was asked for"));
    let card_token: Option<String> = row.try_get("", "card_token")?;
    let amount: Option<i64> = row.try_get("", "amount")?;
    Ok(Charge {
        card_token: card_token.ok_or_else(broken)?,
        amount: amount.ok_or_else(broken)?,
        attempt_id,
    })
}
