//! The reasons for a rejected request: a code for programs and a message for people.

use std::fmt;

use super::{AMOUNT_MAX, AccountId, BALANCE_MAX, Currency};

/// A rule that a request breaks. A rejected request changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The amount is negative.
    NegativeAmount,
    /// The amount is zero.
    ZeroAmount,
    /// The amount exceeds [`AMOUNT_MAX`].
    AmountTooLarge,
    /// The currency is not an ISO 4217 code.
    UnknownCurrency,
    /// The owner or the name breaks a limit.
    BadText(&'static str),
    /// The account does not exist.
    UnknownAccount,
    /// The transaction does not exist.
    UnknownTransaction,
    /// The account has another currency.
    CurrencyMismatch {
        /// The currency of the account.
        account: Currency,
        /// The currency of the request.
        request: Currency,
    },
    /// The balance is too low.
    Overdraft(AccountId),
    /// The balance would exceed its maximum.
    Overflow(AccountId),
    /// Source and target account are the same.
    SameAccount,
    /// The transaction is already reversed.
    ReversedTwice,
    /// A reversal cannot be reversed. Post a new transaction instead.
    NotReversible,
}

impl Refusal {
    /// The stable code for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NegativeAmount => "negative_amount",
            Self::ZeroAmount => "zero_amount",
            Self::AmountTooLarge => "amount_too_large",
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
            Self::AmountTooLarge => {
                write!(
                    f,
                    "the amount must be at most {AMOUNT_MAX} minor units; post the rest separately"
                )
            }
            Self::UnknownCurrency => {
                f.write_str("the currency is not an ISO 4217 code in capital letters, such as KRW")
            }
            Self::BadText(rule) => f.write_str(rule),
            Self::UnknownAccount => f.write_str("there is no such account"),
            Self::UnknownTransaction => f.write_str("there is no such transaction"),
            Self::CurrencyMismatch { account, request } => {
                write!(
                    f,
                    "the account's currency is {account}, but the request's currency is {request}"
                )
            }
            Self::Overdraft(account) => write!(f, "the balance of account {account} is too low"),
            Self::Overflow(account) => write!(
                f,
                "the balance of account {account} would exceed its maximum of {BALANCE_MAX} minor units"
            ),
            Self::SameAccount => f.write_str("from and to are the same account; give two different accounts"),
            Self::ReversedTwice => f.write_str("the transaction is already reversed"),
            Self::NotReversible => f.write_str("a reversal cannot be reversed; post a new transaction"),
        }
    }
}
