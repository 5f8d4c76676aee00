//! The choices of a route: which entries, in which order, how often to retry, when to probe, where to begin.

pub(crate) mod filter;
pub(crate) mod ordering;
pub(crate) mod probe;
pub(crate) mod retry;

use serde::{Deserialize, Serialize};

/// The effect of a dead letter on its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dead {
    /// The key goes on without it.
    #[default]
    Skip,
    /// The key waits until an operator retries or discards it.
    Hold,
}

/// Where a route that the database does not know yet begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// With the oldest entry that is kept.
    #[default]
    Beginning,
    /// With what is emitted from now on.
    Head,
}
