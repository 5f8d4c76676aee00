//! Tests of collection: from a request to tasteam to a stored row, on each database.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod broken;
mod collect;
mod isolation;
mod queue;
mod site;
