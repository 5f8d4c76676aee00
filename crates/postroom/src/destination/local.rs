//! Destinations that need no other system: one accepts everything, one writes a log line.

use async_trait::async_trait;

use super::{Batch, Destination, Receipt};

/// Accepts every entry and does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullDestination;

#[async_trait]
impl Destination for NullDestination {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

/// Writes a log line per entry: its ids, never its payload.
#[derive(Clone, Debug)]
pub struct LogDestination {
    route: String,
}

impl LogDestination {
    /// The log lines name this route.
    pub fn new(route: impl Into<String>) -> Self {
        Self { route: route.into() }
    }
}

#[async_trait]
impl Destination for LogDestination {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        for entry in batch.entries {
            let event = &entry.event;
            tracing::info!(
                route = self.route, entry = entry.id, event = %event.id, r#type = event.event_type, key = %event.key(),
                "delivered"
            );
        }
        vec![Receipt::Delivered; batch.entries.len()]
    }
}
