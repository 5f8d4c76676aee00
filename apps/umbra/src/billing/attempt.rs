//! The table of attempts: the amount and the progress of each charge.

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

/// The progress of a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The card API was not called yet.
    Open,
    /// The card API may have been called for this charge. The outcome is unknown.
    Asked(Charge),
    /// The charge was paid but is no longer wanted. The refund is not confirmed yet.
    Refunding(Charge),
    /// The outcome is stored.
    Closed,
}

/// The outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate<'a> {
    /// The charge was paid.
    Paid,
    /// The bank declined the charge with this code.
    Declined(&'a str),
    /// The charge was no longer wanted when it was due, so the card API was not called.
    Dropped,
    /// The charge was paid but is no longer wanted: it must be refunded.
    Refunding,
    /// The payment was refunded.
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

/// Reads the progress of an attempt and locks it until the transaction ends.
pub(super) async fn lock(tx: &Tx, attempt_id: &str) -> Result<Attempt> {
    let row = rows::lock(tx, ATTEMPT, ("attempt_id", attempt_id)).await?;
    row.map_or(Ok(Attempt::Closed), read)
}

/// The progress of the newest attempt of a subscription.
pub(super) async fn newest(tx: &Tx, subscription_id: &str) -> Result<Attempt> {
    let rows = rows::list(tx, ATTEMPT, ("subscription_id", subscription_id), "attempt_id").await?;
    rows.into_iter().next_back().map_or(Ok(Attempt::Closed), read)
}

/// Stores the charge before the card API is called.
pub(super) async fn ask(tx: &Tx, plan: Plan, charge: &Charge) -> Result<()> {
    let cells = vec![
        cell("status", ASKED),
        cell("plan_code", plan.code()),
        cell("card_token", charge.card_token.as_str()),
        cell("amount", charge.amount),
    ];
    change(tx, &charge.attempt_id, cells).await
}

/// Stores the outcome.
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
    let broken = || Error::new(ErrorKind::Failed, format!("read the charge of attempt {attempt_id}"));
    let card_token: Option<String> = row.try_get("", "card_token")?;
    let amount: Option<i64> = row.try_get("", "amount")?;
    Ok(Charge {
        card_token: card_token.ok_or_else(broken)?,
        amount: amount.ok_or_else(broken)?,
        attempt_id,
    })
}
