//! The built-in example: a shop that accepts orders, a till that writes receipts, and a courier that sometimes fails.
//!
//! `postroom up` runs it on a fresh start. It is also the pattern for your own module: `domain.rs` holds pure rules,
//! `events.rs` the event types, `tables.rs` the SQL, `handlers.rs` the request and event handlers, and `http.rs` the HTTP
//! API.

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

/// The module without [`traffic`].
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
        .http(http::routes())
}

/// Retries for about four seconds, so that a dead letter appears soon after the first start.
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
