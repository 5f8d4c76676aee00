//! The built-in example: a shop that takes orders, a till that writes receipts, and a courier that fails now and then.
//!
//! It is what `postroom up` runs on a fresh start, and the pattern for a module of your own: `domain.rs` is pure,
//! `events.rs` says what happens, `tables.rs` is the SQL, `handlers.rs` does the work, `http.rs` lets people in.

mod domain;
mod events;
mod handlers;
mod http;
mod tables;
mod traffic;

use std::time::Duration;

use postroom::{Delays, Retry, Subscriber};
use postroom_host::Module;

pub use domain::Order;
pub use events::{OrderPlaced, ReceiptWritten};
pub use traffic::traffic;

/// The module, without [`traffic`].
pub fn module() -> Module {
    Module::new("hello")
        .tables(tables::all())
        .event::<OrderPlaced>()
        .event::<ReceiptWritten>()
        .subscriber(Subscriber::matching(
            "hello-receipts",
            ["hello.order.placed.v1"],
            handlers::write_receipt,
        ))
        .subscriber(flaky())
        .routes(http::routes())
}

/// Gives up after some four seconds, so that a dead letter can be seen soon after the first start.
fn flaky() -> Subscriber {
    Subscriber::matching("hello-flaky", ["hello.**"], handlers::hand_to_courier).retry(Retry {
        delays: Delays::Steps(vec![
            Duration::from_millis(500),
            Duration::from_secs(1),
            Duration::from_secs(2),
        ]),
        attempts_max: Some(4),
        age_max: None,
    })
}
