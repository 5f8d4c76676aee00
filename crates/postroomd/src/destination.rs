//! Destinations that need no other system: one that takes everything, one that writes a log line.

use async_trait::async_trait;
use postroom::{Batch, Destination, Receipt};

/// Takes everything.
#[derive(Debug)]
pub(crate) struct Null;

#[async_trait]
impl Destination for Null {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

/// Writes a log line per entry: its ids, never its payload.
#[derive(Debug)]
pub(crate) struct Log {
    route: String,
}

impl Log {
    pub(crate) fn new(route: &str) -> Self {
        Self {
            route: route.to_owned(),
        }
    }
}

#[async_trait]
impl Destination for Log {
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
