//! The port to whoever charges cards.

use std::fmt::Debug;

use async_trait::async_trait;

/// Charges cards, and gives money back.
///
/// Whatever is wanted is asked for at least once: a process may die after the answer and before it is written down, and an
/// answer may be lost on its way. So the attempt's id is the idempotency key: however often an attempt is asked for, the card is
/// charged at most once, and the first outcome is answered again; and so with giving its money back. An attempt is always asked
/// for with the same card and amount; whoever asks for another amount under a known key gets no charge and [`Answer::Unknown`].
///
/// An adapter gives up waiting well within 30 s and answers [`Answer::Unknown`] then: that is neither a success nor a failure,
/// and will be asked again.
#[async_trait]
pub trait CardApi: Debug + Send + Sync {
    /// Charges a card, once for each attempt.
    async fn charge(&self, charge: &Charge) -> Answer;

    /// Gives back what a charge took, once for each attempt. [`Answer::Paid`] says that it is back, [`Answer::Declined`] that the
    /// card's bank does not take it.
    async fn refund(&self, charge: &Charge) -> Answer;
}

/// A charge that is wanted, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The idempotency key.
    pub attempt_id: String,
    /// Which card.
    pub card_token: String,
    /// How much, in won.
    pub amount: i64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The money was moved.
    Paid,
    /// It was not, and will not be for this attempt.
    Declined {
        /// Why, in the words of the card's bank.
        code: String,
    },
    /// Nobody knows.
    Unknown {
        /// What went wrong.
        says: String,
    },
}
