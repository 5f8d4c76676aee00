//! Posting: balances, transaction, journal entries and events in one database transaction.

use postroom::{Error, Tx, append};
use sea_orm::DbErr;

use crate::domain::{Account, Entry, Leg, Posted, Refusal, Transaction};
use crate::events;
use crate::tables::{self, account, journal};

/// The reason to roll back an attempt.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request breaks a rule.
    Refused(Refusal),
    /// A concurrent posting changed the account. Read it again and retry.
    Stale,
    /// The database failed.
    Broken(Error),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

impl From<DbErr> for Failure {
    fn from(error: DbErr) -> Self {
        Self::Broken(error.into())
    }
}

/// How to protect an account against concurrent changes between read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    /// No lock. The write fails when the version has changed.
    Optimistic,
    /// Lock the account before reading it. Used after several failed optimistic attempts.
    Pessimistic,
}

/// Posts a transaction. After an error the caller rolls back.
pub(crate) async fn post(tx: &Tx, transaction: Transaction, locking: Locking) -> Result<Posted, Failure> {
    let mut entries = Vec::with_capacity(transaction.legs.len());
    for leg in transaction.in_lock_order() {
        let account = move_money(tx, &transaction, leg, locking).await?;
        let amount = leg.amount;
        entries.push(Entry { account, amount });
    }
    let posted = Posted {
        transaction,
        entries,
        posted_at_ms: tables::now_ms(),
    };
    journal::insert(tx, &posted).await?;
    append(tx, &events::of(&posted)?).await?;
    Ok(posted)
}

/// Reads an account, applies one leg and writes it, if its version has not changed.
async fn move_money(tx: &Tx, transaction: &Transaction, leg: &Leg, locking: Locking) -> Result<Account, Failure> {
    // Every deposit and withdrawal of a currency writes to its clearing account, so optimistic locking would fail for all but
    // one of the concurrent writers.
    if leg.account_id.is_clearing() || locking == Locking::Pessimistic {
        account::lock(tx, &leg.account_id).await?;
    }
    let before = account::find(tx, &leg.account_id).await?;
    let after = before
        .ok_or(Refusal::UnknownAccount)?
        .post(leg.amount, transaction.currency)?;
    match account::advance(tx, &after).await? {
        true => Ok(after),
        false => Err(Failure::Stale),
    }
}

/// Opens an account. The first account of a currency also creates its clearing account.
pub(crate) async fn open(tx: &Tx, account: &Account) -> Result<(), Failure> {
    let clearing = Account::clearing(account.currency);
    if account::find(tx, &clearing.account_id).await?.is_none() {
        account::insert(tx, &clearing).await?;
    }
    Ok(account::insert(tx, account).await?)
}
