//! Why the ledger does not do what it is asked: a code for programs, a sentence for people.

use std::fmt;

use super::{AccountId, Currency};

/// A rule that a request breaks. Nothing of the request is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An amount below zero.
    NegativeAmount,
    /// An amount of nothing.
    ZeroAmount,
    /// No currency of ISO 4217.
    UnknownCurrency,
    /// An owner or a name that cannot be kept.
    BadText(&'static str),
    /// No such account.
    UnknownAccount,
    /// No such transaction.
    UnknownTransaction,
    /// The account is kept in another currency.
    CurrencyMismatch {
        /// Of the account.
        account: Currency,
        /// Of the request.
        request: Currency,
    },
    /// More than the account holds.
    Overdraft(AccountId),
    /// More than an account can hold.
    Overflow(AccountId),
    /// From an account to itself.
    SameAccount,
    /// The transaction has a reversal.
    ReversedTwice,
    /// A reversal is not reversed; post the transaction anew.
    NotReversible,
}

impl Refusal {
    /// What clients branch on; it does not change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NegativeAmount => "negative_amount",
            Self::ZeroAmount => "zero_amount",
            Self::UnknownCurrency => "unknown_currency",
            Self::BadText(_) => "bad_text",
            Self::UnknownAccount => "unknown_account",
            Self::UnknownTransaction => "unknown_transaction",
            Self::CurrencyMismatch { .. } => "currency_mismatch",
            Self::Overdraft(_) => "overdraft",
            Self::Overflow(_) => "overflow",
            Self::SameAccount => "same_account",
            Self::ReversedTwice => "reversed_twice",
            Self::NotReversible => "not_reversible",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeAmount => f.write_str("the amount is negative; give 1 or more minor units"),
            Self::ZeroAmount => f.write_str("the amount is zero; give 1 or more minor units"),
            Self::UnknownCurrency => f.write_str("the currency is no code of ISO 4217 in capital letters"),
            Self::BadText(rule) => f.write_str(rule),
            Self::UnknownAccount => f.write_str("there is no such account"),
            Self::UnknownTransaction => f.write_str("there is no such transaction"),
            Self::CurrencyMismatch { account, request } => {
                write!(f, "the account is kept in {account}, the request is in {request}")
            }
            Self::Overdraft(account) => write!(f, "account {account} holds less than that"),
            Self::Overflow(account) => write!(f, "account {account} cannot hold that much"),
            Self::SameAccount => f.write_str("the money would stay where it is; name two accounts"),
            Self::ReversedTwice => f.write_str("the transaction is reversed already"),
            Self::NotReversible => f.write_str("a reversal cannot be reversed; post the transaction anew"),
        }
    }
}
