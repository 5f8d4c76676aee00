//! The event that the benches emit.

use postroom::{DomainEvent, Event};
use serde::{Deserialize, Serialize};

use crate::site::TYPES;

/// Accounts, and so keys: enough that writers seldom meet.
pub(super) const ACCOUNTS: usize = 1_000;
/// Fills the payload up to about 200 bytes.
pub(super) const NOTE: &str = "a note of a length that is usual for such notes, so that the payload of the event has about two \
                               hundred bytes, as the events of most systems have";

/// A payment from an account.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Paid {
    pub(super) account_id: i64,
    pub(super) amount: i64,
    note: String,
}

impl DomainEvent for Paid {
    const TYPE: &'static str = "postroom.bench.paid";
    const AGGREGATE_TYPE: &'static str = "account";

    fn aggregate_id(&self) -> String {
        self.account_id.to_string()
    }
}

impl Paid {
    /// The n-th payment.
    pub(super) fn nth(n: usize) -> Self {
        debug_assert!(
            Self::TYPE.starts_with(TYPES),
            "the sweep finds events by the beginning of their type"
        );
        Self {
            account_id: i64::try_from(n % ACCOUNTS).unwrap_or(0),
            amount: 1,
            note: NOTE.to_owned(),
        }
    }
}

/// The envelopes of these payments.
pub(super) fn events(numbers: impl Iterator<Item = usize>) -> postroom::Result<Vec<Event>> {
    numbers.map(|n| Event::of(&Paid::nth(n))).collect()
}
