//! Generated customers, so that a demo shows events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom::{Error, ErrorKind, Job, Outbox, Result, table};
use tokio::sync::OnceCell;

use crate::domain::{Account, AccountId, Currency, Money, Refusal, Transaction};
use crate::posting::{self, Failure, Locking};

const OWNERS: [&str; 3] = ["ada", "grace", "edsger"];

/// A job that moves some money about every second. A host adds it to [`crate::module`] when it wants traffic.
pub fn traffic() -> Job {
    let day = Arc::new(Day::default());
    Job::every("ledger-traffic", Duration::from_secs(1), move |outbox| {
        let day = Arc::clone(&day);
        async move { day.post_next(&*outbox).await }
    })
}

#[derive(Debug, Default)]
struct Day {
    turn: AtomicUsize,
    accounts: OnceCell<Vec<AccountId>>,
}

impl Day {
    /// Posts the next generated transaction. A transaction that a concurrent posting or a rule prevents is skipped.
    async fn post_next(&self, outbox: &dyn Outbox) -> Result<u64> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let accounts = self.accounts.get_or_try_init(|| open_accounts(outbox)).await?;
        let Some(transaction) = transaction(turn, accounts).map_err(refused)? else {
            return Ok(0);
        };
        let tx = table::begin(outbox.db()).await?;
        match posting::post(&tx, transaction, Locking::Pessimistic).await {
            Ok(_posted) => tx.commit().await.map(|()| 1),
            Err(Failure::Broken(error)) => Err(error),
            Err(Failure::Refused(_) | Failure::Stale) => Ok(0),
        }
    }
}

async fn open_accounts(outbox: &dyn Outbox) -> Result<Vec<AccountId>> {
    let tx = table::begin(outbox.db()).await?;
    let mut accounts = Vec::new();
    for owner in OWNERS {
        let account = Currency::parse("KRW").and_then(|krw| Account::open(owner, "Everyday", krw));
        let account = account.map_err(refused)?;
        match posting::open(&tx, &account).await {
            Ok(()) => accounts.push(account.account_id),
            Err(Failure::Broken(error)) => return Err(error),
            Err(Failure::Refused(refusal)) => return Err(refused(refusal)),
            Err(Failure::Stale) => {}
        }
    }
    tx.commit().await?;
    Ok(accounts)
}

/// Of three transactions, one is a deposit and two are transfers. Every tenth deposit is a withdrawal instead.
fn transaction(turn: usize, accounts: &[AccountId]) -> Result<Option<Transaction>, Refusal> {
    let at = |place: usize| accounts.iter().cycle().nth(place).cloned();
    let (Some(here), Some(there)) = (at(turn / 3), at(turn / 3 + turn % 3)) else {
        return Ok(None);
    };
    let won = |amount| Currency::parse("KRW").and_then(|krw| Money::new(amount, krw));
    Ok(Some(match turn % 3 {
        0 if turn % 30 == 27 => Transaction::withdrawal(here, won(7_000)?),
        0 => Transaction::deposit(here, won(10_000)?),
        part => Transaction::transfer(here, there, won(if part == 1 { 2_500 } else { 1_200 })?)?,
    }))
}

fn refused(refusal: Refusal) -> Error {
    Error::new(ErrorKind::Invalid, refusal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Kind;

    #[test]
    fn a_day_has_all_kinds_of_transactions() {
        let accounts: Vec<AccountId> = OWNERS.iter().map(|_| AccountId::random()).collect();
        let day: Vec<Kind> = (0..60)
            .map(|turn| transaction(turn, &accounts).unwrap().unwrap().kind)
            .collect();
        for kind in [Kind::Deposit, Kind::Withdrawal, Kind::Transfer] {
            assert!(day.contains(&kind), "{kind:?}");
        }
        assert_eq!(transaction(1, &[]).unwrap(), None);
    }
}
