//! The ledger's rules: money, accounts, transactions, and the sequence of an account's events. No database, no JSON, no
//! topic.

mod account;
mod money;
mod refusal;
mod sequence;
mod transaction;

pub use account::{Account, AccountId, BALANCE_MAX, check_owner};
pub use money::{AMOUNT_MAX, Currency, Money};
pub use refusal::Refusal;
pub use sequence::Arrival;
pub use transaction::{Entry, Kind, Leg, Posted, Transaction};
