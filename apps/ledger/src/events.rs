//! The ledger's public events: one for each customer account that a transaction changes.
//!
//! New fields are optional, and no field is ever removed. Readers ignore unknown fields.

use postroom::{DomainEvent, Error, ErrorKind, Event, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::{Entry, Posted};

/// The types of both events.
pub(crate) const TYPES: [&str; 2] = [LedgerPosted::TYPE, LedgerReversed::TYPE];

/// The effect of a transaction on one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Movement {
    /// The account.
    pub account_id: String,
    /// The owner of the account.
    pub owner: String,
    /// The transaction.
    #[schemars(with = "String")]
    pub transaction_id: Uuid,
    /// The account on the other side. For deposits and withdrawals it is a clearing account such as `clearing-KRW`.
    pub counterpart_id: String,
    /// The sequence number of this event in the account: 1, 2, 3, without gaps.
    pub sequence_number: i64,
    /// ISO 4217.
    pub currency: String,
    /// In minor units. Negative when money leaves the account.
    pub amount: i64,
    /// The balance after the transaction, in minor units.
    pub balance_after: i64,
    /// The time of the posting, in milliseconds since 1970.
    pub posted_at_ms: i64,
}

/// A deposit, a withdrawal or a transfer was posted to an account.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LedgerPosted {
    /// The effect on the account.
    #[serde(flatten)]
    pub movement: Movement,
    /// `deposit`, `withdrawal` or `transfer`.
    pub kind: String,
}

/// A transaction was reversed on an account.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LedgerReversed {
    /// The effect of the reversal on the account.
    #[serde(flatten)]
    pub movement: Movement,
    /// The reversed transaction.
    #[schemars(with = "String")]
    pub reverses: Uuid,
}

impl DomainEvent for LedgerPosted {
    const TYPE: &'static str = "ledger.transaction.posted.v1";
    const AGGREGATE_TYPE: &'static str = "account";

    fn aggregate_id(&self) -> String {
        self.movement.account_id.clone()
    }
}

impl DomainEvent for LedgerReversed {
    const TYPE: &'static str = "ledger.transaction.reversed.v1";
    const AGGREGATE_TYPE: &'static str = "account";

    fn aggregate_id(&self) -> String {
        self.movement.account_id.clone()
    }
}

/// The events of a transaction. The event id is derived from the transaction and the account, so deduplication by event id is
/// deduplication by transaction.
pub(crate) fn of(posted: &Posted) -> Result<Vec<Event>> {
    let customers = posted
        .entries
        .iter()
        .filter(|entry| !entry.account.account_id.is_clearing());
    customers.map(|entry| event(posted, entry)).collect()
}

fn event(posted: &Posted, entry: &Entry) -> Result<Event> {
    let movement = movement(posted, entry)?;
    let id = Uuid::new_v5(&posted.transaction.transaction_id, movement.account_id.as_bytes());
    let event = match posted.transaction.reverses {
        Some(reverses) => Event::of(&LedgerReversed { movement, reverses })?,
        None => Event::of(&LedgerPosted {
            movement,
            kind: posted.transaction.kind.name().to_owned(),
        })?,
    };
    Ok(Event { id, ..event })
}

fn movement(posted: &Posted, entry: &Entry) -> Result<Movement> {
    let account = &entry.account;
    let balance_after =
        i64::try_from(account.balance) // of a customer: it has a maximum
            .map_err(|source| Error::caused(ErrorKind::Failed, "write a balance into an event", source))?;
    let counterpart = posted.transaction.counterpart(&account.account_id);
    Ok(Movement {
        account_id: account.account_id.to_string(),
        owner: account.owner.clone(),
        transaction_id: posted.transaction.transaction_id,
        counterpart_id: counterpart.map(ToString::to_string).unwrap_or_default(),
        sequence_number: account.version,
        currency: account.currency.to_string(),
        amount: entry.amount,
        balance_after,
        posted_at_ms: posted.posted_at_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Account, Currency, Kind, Money, Transaction};

    fn posted(transaction: Transaction, accounts: &[&Account]) -> Posted {
        let entry = |account: &&Account| {
            let leg = transaction.legs.iter().find(|leg| leg.account_id == account.account_id);
            let amount = leg.unwrap().amount;
            Entry {
                account: account.post(amount, account.currency).unwrap(),
                amount,
            }
        };
        Posted {
            entries: accounts.iter().map(entry).collect(),
            transaction,
            posted_at_ms: 7,
        }
    }

    #[test]
    fn each_customers_account_hears_once_of_a_transaction() {
        let krw = Currency::parse("KRW").unwrap();
        let (ada, bob) = (
            Account::open("ada", "a", krw).unwrap(),
            Account::open("bob", "b", krw).unwrap(),
        );
        let deposit = Transaction::deposit(ada.account_id.clone(), Money::new(5, krw).unwrap());
        let deposit = posted(deposit, &[&ada, &Account::clearing(krw)]);
        let events = of(&deposit).unwrap();
        assert_eq!(events.len(), 1, "the clearing account has no events");
        let heard: LedgerPosted = events[0].decode().unwrap();
        assert_eq!(
            (
                heard.kind.as_str(),
                heard.movement.balance_after,
                heard.movement.sequence_number
            ),
            ("deposit", 5, 1)
        );
        assert_eq!(events[0].aggregate_id, ada.account_id.as_str());
        assert_eq!(
            events[0].id,
            of(&deposit).unwrap()[0].id,
            "the same transaction, the same event"
        );

        let rich = &deposit.entries[0].account;
        let transfer = Transaction::transfer(
            ada.account_id.clone(),
            bob.account_id.clone(),
            Money::new(2, krw).unwrap(),
        );
        let transfer = posted(transfer.unwrap(), &[rich, &bob]);
        let events = of(&transfer).unwrap();
        assert_eq!(events.len(), 2);
        assert_ne!(events[0].id, events[1].id);
        let reversal = transfer.transaction.reversal().unwrap();
        let reversal = posted(reversal, &[&transfer.entries[0].account, &transfer.entries[1].account]);
        let events = of(&reversal).unwrap();
        let heard: LedgerReversed = events[0].decode().unwrap();
        assert_eq!(heard.reverses, transfer.transaction.transaction_id);
        assert_eq!(events[0].decode::<Movement>().unwrap(), heard.movement);
    }

    #[test]
    fn a_reader_ignores_fields_that_it_does_not_know() {
        let text = r#"{"account_id":"a","owner":"o","transaction_id":"00000000-0000-0000-0000-000000000000","counterpart_id":"b",
            "sequence_number":1,"currency":"KRW","amount":-5,"balance_after":0,"posted_at_ms":7,"kind":"transfer","memo":"new"}"#;
        let posted: LedgerPosted = serde_json::from_str(text).unwrap();
        assert_eq!(
            (posted.movement.amount, posted.kind.as_str()),
            (-5, Kind::Transfer.name())
        );
    }
}
