//! Generated customers, so that a demo shows events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postroom::{Job, Outbox, Result, table};

use crate::domain::Order;
use crate::handlers;

/// A job that places an order about every second. A host adds it to [`crate::module`] when it wants traffic.
pub fn traffic() -> Job {
    let placed = Arc::new(AtomicU64::new(0));
    Job::every("hello-traffic", Duration::from_secs(1), move |outbox| {
        let number = placed.fetch_add(1, Ordering::Relaxed);
        place_next(outbox, number)
    })
}

async fn place_next(outbox: Arc<dyn Outbox>, number: u64) -> Result<u64> {
    let order = Order::of_the_day(number, handlers::order_id());
    let tx = table::begin(outbox.db()).await?;
    handlers::place(&tx, &order).await?;
    tx.commit().await?;
    Ok(1)
}
