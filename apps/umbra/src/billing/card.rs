//! The port to the card API.

use std::fmt::Debug;

use async_trait::async_trait;

/// Charges and refunds cards.
///
/// Every charge is requested at least once: a process may die after the answer and before it is stored, and an answer may be
/// lost. So the attempt id is the idempotency key. For any number of requests with one attempt id, the card is charged at
/// most once, and the API returns the first outcome again. The same holds for refunds. An attempt always has the same card
/// and amount; a request with a known key and another amount charges nothing and returns [`Answer::Unknown`].
///
/// An adapter stops waiting well within 30 s and returns [`Answer::Unknown`]. This is neither a success nor a failure, and
/// the request will be repeated.
#[async_trait]
pub trait CardApi: Debug + Send + Sync {
    /// Charges a card once per attempt.
    async fn charge(&self, charge: &Charge) -> Answer;

    /// Refunds a charge once per attempt. [`Answer::Paid`] means that the money was returned, [`Answer::Declined`] that the
    /// bank does not accept it.
    async fn refund(&self, charge: &Charge) -> Answer;
}

/// A requested charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The idempotency key.
    pub attempt_id: String,
    /// The card to charge.
    pub card_token: String,
    /// The amount, in won.
    pub amount: i64,
}

/// The answer of the card API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The money was moved.
    Paid,
    /// The money was not moved and will not be moved for this attempt.
    Declined {
        /// The code of the bank.
        code: String,
    },
    /// The outcome is unknown.
    Unknown {
        /// The error message.
        says: String,
    },
}
