//! An account: its owner, its balance, and the number of its postings.

use std::fmt;

use uuid::Uuid;

use super::{Currency, Refusal};

const CLEARING: &str = "clearing-";
/// The highest balance of a customer's account, in minor units: what an event and a read model can tell.
pub const BALANCE_MAX: i128 = i64::MAX as i128;

/// An account id: a UUID for a customer account, or `clearing-KRW` for the other side of deposits and withdrawals in a
/// currency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(String);

impl AccountId {
    /// A new id for a customer account.
    pub fn random() -> Self {
        Self(Uuid::now_v7().to_string())
    }

    /// The id of the clearing account of a currency.
    pub fn clearing(currency: Currency) -> Self {
        Self(format!("{CLEARING}{currency}"))
    }

    /// Parses the id of any account.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match text.strip_prefix(CLEARING) {
            Some(code) if Currency::parse(code).is_ok() => Ok(Self(text.to_owned())),
            _ => Self::customer(text),
        }
    }

    /// Parses the id of a customer account. Only the ledger itself posts to a clearing account.
    pub fn customer(text: &str) -> Result<Self, Refusal> {
        let id = Uuid::try_parse(text).map_err(|_not_an_id| Refusal::UnknownAccount)?;
        Ok(Self(id.to_string()))
    }

    /// Whether this is a clearing account, which may have a negative balance.
    pub fn is_clearing(&self) -> bool {
        self.0.starts_with(CLEARING)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks the owner's id. Only lower case: databases disagree on whether `Ada` and `ada` are equal.
pub fn check_owner(owner: &str) -> Result<(), Refusal> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.@".contains(c);
    if owner.is_empty() || owner.len() > 64 || !owner.chars().all(is_plain) {
        return Err(Refusal::BadText(
            "owner must have 1 to 64 characters of a-z, 0-9, '-', '_', '.' and '@'",
        ));
    }
    Ok(())
}

/// An account with its current balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The account id.
    pub account_id: AccountId,
    /// The owner's id, chosen by the caller.
    pub owner: String,
    /// The display name.
    pub name: String,
    /// The currency of the balance.
    pub currency: Currency,
    /// The balance, in minor units. That of a customer is at most [`BALANCE_MAX`]. A clearing account has no limit: it is the other side
    /// of all deposits of its currency, and must not stop them.
    pub balance: i128,
    /// The number of postings. It is the sequence number of the last posting, and optimistic locking compares it.
    pub version: i64,
}

impl Account {
    /// Creates an empty account.
    pub fn open(owner: &str, name: &str, currency: Currency) -> Result<Self, Refusal> {
        check_owner(owner)?;
        if name.trim().is_empty() || name.chars().count() > 100 || name.contains('\0') {
            return Err(Refusal::BadText("name must have 1 to 100 characters"));
        }
        Ok(Self {
            account_id: AccountId::random(),
            owner: owner.to_owned(),
            name: name.to_owned(),
            currency,
            balance: 0,
            version: 0,
        })
    }

    /// The clearing account of a currency before its first posting.
    pub fn clearing(currency: Currency) -> Self {
        Self {
            account_id: AccountId::clearing(currency),
            owner: "ledger".to_owned(),
            name: format!("Clearing {currency}"),
            currency,
            balance: 0,
            version: 0,
        }
    }

    /// The account after one more posting of `amount` minor units in this currency.
    pub fn post(&self, amount: i64, currency: Currency) -> Result<Self, Refusal> {
        if currency != self.currency {
            return Err(Refusal::CurrencyMismatch {
                account: self.currency,
                request: currency,
            });
        }
        let overflow = || Refusal::Overflow(self.account_id.clone());
        let balance = self.balance.checked_add(amount.into()).ok_or_else(overflow)?;
        if !self.account_id.is_clearing() {
            if balance < 0 {
                return Err(Refusal::Overdraft(self.account_id.clone()));
            }
            if balance > BALANCE_MAX {
                return Err(overflow());
            }
        }
        Ok(Self {
            balance,
            version: self.version.checked_add(1).ok_or_else(overflow)?,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::AMOUNT_MAX;

    fn krw() -> Currency {
        Currency::parse("KRW").unwrap()
    }

    #[test]
    fn a_posting_counts_and_never_overdraws() {
        let account = Account::open("ada", "Savings", krw()).unwrap();
        let rich = account.post(100, krw()).unwrap();
        assert_eq!((rich.balance, rich.version), (100, 1));
        assert_eq!(rich.post(-100, krw()).unwrap().balance, 0);
        assert_eq!(rich.post(-101, krw()), Err(Refusal::Overdraft(rich.account_id.clone())));
        let most = account.post(i64::MAX, krw()).unwrap();
        assert_eq!(most.balance, BALANCE_MAX);
        assert_eq!(most.post(1, krw()), Err(Refusal::Overflow(most.account_id.clone())));
        let usd = Currency::parse("USD").unwrap();
        assert_eq!(rich.post(1, usd).unwrap_err().code(), "currency_mismatch");
    }

    /// It is the other side of all deposits of a currency: an end of it would be the end of all of them.
    #[test]
    fn a_clearing_account_goes_below_zero_without_an_end() {
        let mut clearing = Account::clearing(krw());
        for _ in 0..100_000 {
            clearing = clearing.post(-AMOUNT_MAX, krw()).unwrap();
        }
        assert_eq!(clearing.balance, -100_000 * i128::from(AMOUNT_MAX));
        assert!(clearing.balance < i128::from(i64::MIN));
        let lower = clearing.post(i64::MIN, krw()).unwrap();
        assert_eq!(lower.post(i64::MAX, krw()).unwrap().balance, clearing.balance - 1);
    }

    #[test]
    fn an_account_needs_an_owner_and_a_name() {
        let long = "a".repeat(101);
        for (owner, name) in [
            ("", "n"),
            ("Ada", "n"),
            ("a b", "n"),
            (long.as_str(), "n"),
            ("ada", " "),
            ("ada", &long),
            ("ada", "a\0"),
        ] {
            assert_eq!(
                Account::open(owner, name, krw()).unwrap_err().code(),
                "bad_text",
                "{owner:?} {name:?}"
            );
        }
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = AccountId::random();
        assert_eq!(AccountId::parse(&id.as_str().to_uppercase()), Ok(id));
        assert!(AccountId::parse("clearing-KRW").unwrap().is_clearing());
        assert!(AccountId::customer("clearing-KRW").is_err());
        assert!(AccountId::parse("clearing-krw").is_err());
    }
}
