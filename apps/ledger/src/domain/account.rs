//! An account: whose it is, what it holds, and how many postings made it so.

use std::fmt;

use uuid::Uuid;

use super::{Currency, Refusal};

const CLEARING: &str = "clearing-";

/// Which account: a UUID for a customer's, `clearing-KRW` for the other side of a currency's deposits and withdrawals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(String);

impl AccountId {
    /// A new customer's account.
    pub fn random() -> Self {
        Self(Uuid::now_v7().to_string())
    }

    /// The clearing account of a currency.
    pub fn clearing(currency: Currency) -> Self {
        Self(format!("{CLEARING}{currency}"))
    }

    /// Any account.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match text.strip_prefix(CLEARING) {
            Some(code) if Currency::parse(code).is_ok() => Ok(Self(text.to_owned())),
            _ => Self::customer(text),
        }
    }

    /// A customer's account. Nobody but the ledger posts to a clearing account.
    pub fn customer(text: &str) -> Result<Self, Refusal> {
        let id = Uuid::try_parse(text).map_err(|_not_an_id| Refusal::UnknownAccount)?;
        Ok(Self(id.to_string()))
    }

    /// Whether it may go below zero.
    pub fn is_clearing(&self) -> bool {
        self.0.starts_with(CLEARING)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether this can be an owner. Lower case alone: databases disagree on whether Ada and ada are the same.
pub fn check_owner(owner: &str) -> Result<(), Refusal> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.@".contains(c);
    if owner.is_empty() || owner.len() > 64 || !owner.chars().all(is_plain) {
        return Err(Refusal::BadText(
            "owner must have 1 to 64 characters of a-z, 0-9, '-', '_', '.' and '@'",
        ));
    }
    Ok(())
}

/// An account as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Which.
    pub account_id: AccountId,
    /// Whose: an id of the caller's.
    pub owner: String,
    /// What people call it.
    pub name: String,
    /// In what it is kept.
    pub currency: Currency,
    /// In minor units.
    pub balance: i64,
    /// How many postings it has had: the sequence number of the last one, and what optimistic locking compares.
    pub version: i64,
}

impl Account {
    /// A new, empty account.
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

    /// The clearing account of a currency, before its first posting.
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

    /// The account after one more posting of so many minor units in this currency.
    pub fn post(&self, amount: i64, currency: Currency) -> Result<Self, Refusal> {
        if currency != self.currency {
            return Err(Refusal::CurrencyMismatch {
                account: self.currency,
                request: currency,
            });
        }
        let overflow = || Refusal::Overflow(self.account_id.clone());
        let balance = self.balance.checked_add(amount).ok_or_else(overflow)?;
        if balance < 0 && !self.account_id.is_clearing() {
            return Err(Refusal::Overdraft(self.account_id.clone()));
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
        assert_eq!(most.post(1, krw()), Err(Refusal::Overflow(most.account_id.clone())));
        let usd = Currency::parse("USD").unwrap();
        assert_eq!(rich.post(1, usd).unwrap_err().code(), "currency_mismatch");
    }

    #[test]
    fn a_clearing_account_goes_below_zero_and_stops_at_the_end() {
        let clearing = Account::clearing(krw());
        let lowest = clearing.post(i64::MIN, krw()).unwrap();
        assert_eq!(lowest.post(-1, krw()).unwrap_err().code(), "overflow");
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
