//! Posting: balances, transaction, journal entries and events in one transaction of the database, or nothing.

use postroom::{Error, Tx, append};
use sea_orm::DbErr;

use crate::domain::{Account, Entry, Leg, Posted, Refusal, Transaction};
use crate::events;
use crate::tables::{self, account, journal};

/// Why an attempt is to be rolled back.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It breaks a rule.
    Refused(Refusal),
    /// Somebody else posted to the account first: read it again, and try again.
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

/// How an account is kept from changing between being read and being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    /// It is not: a write that finds another version has been overtaken.
    Optimistic,
    /// It is locked before it is read, for those who were overtaken again and again.
    First,
}

/// Posts a transaction; on any failure the caller rolls back all of it.
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

/// Writes one account, if it still is what it was when it was read.
async fn move_money(tx: &Tx, transaction: &Transaction, leg: &Leg, locking: Locking) -> Result<Account, Failure> {
    // Every deposit of a currency writes to its clearing account: by optimism only one of many would get through.
    if leg.account_id.is_clearing() || locking == Locking::First {
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

/// Opens an account, and the clearing account of its currency with the first one.
pub(crate) async fn open(tx: &Tx, account: &Account) -> Result<(), Failure> {
    let clearing = Account::clearing(account.currency);
    if account::find(tx, &clearing.account_id).await?.is_none() {
        account::insert(tx, &clearing).await?;
    }
    Ok(account::insert(tx, account).await?)
}
