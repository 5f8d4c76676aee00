//! Products that were read before. Who sells the last one of a product says so by an event, and whoever hears it drops what is
//! kept: see `handlers::Invalidate`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::domain::Product;

/// How long a product is kept at most: what a process that missed the event, or another one's sale that left some, may cost.
const KEPT_MAX: Duration = Duration::from_secs(60);
/// So many products are kept at most.
const PRODUCTS_MAX: usize = 10_000;

/// Keeps products between two reads. Processes that share one hear of a depleted stock together; one that each has for itself
/// ([`LocalCache`]) is told in the process that handles the event, and forgets by itself in the others.
#[async_trait]
pub trait ProductCache: fmt::Debug + Send + Sync {
    /// What is kept of a product, or a ticket with which it may be put in.
    async fn get(&self, product_id: i64) -> Result<Product, Ticket>;

    /// Keeps a product that was read after the ticket was given, unless something was dropped since: what was read may be what
    /// the drop was about.
    async fn put(&self, ticket: Ticket, product: &Product);

    /// Forgets a product.
    async fn forget(&self, product_id: i64);
}

/// When a product was looked for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// A cache in the memory of this process.
#[derive(Debug, Default)]
pub struct LocalCache(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    drops: u64,
    kept: HashMap<i64, (Product, Instant)>,
}

impl LocalCache {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ProductCache for LocalCache {
    async fn get(&self, product_id: i64) -> Result<Product, Ticket> {
        let shelf = self.shelf();
        let kept = shelf.kept.get(&product_id);
        let fresh = kept.filter(|(_, since)| since.elapsed() < KEPT_MAX);
        fresh.map(|(product, _)| product.clone()).ok_or(Ticket(shelf.drops))
    }

    async fn put(&self, ticket: Ticket, product: &Product) {
        let mut shelf = self.shelf();
        if ticket != Ticket(shelf.drops) {
            return;
        }
        if shelf.kept.len() >= PRODUCTS_MAX {
            shelf.kept.clear();
        }
        shelf.kept.insert(product.product_id, (product.clone(), Instant::now()));
    }

    async fn forget(&self, product_id: i64) {
        let mut shelf = self.shelf();
        shelf.drops += 1;
        shelf.kept.remove(&product_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_read_before_a_drop_is_not_kept_after_it() {
        let cache = LocalCache::default();
        let lamp = Product::new(1, "lamp", 100, 1).unwrap();
        let ticket = cache.get(1).await.unwrap_err();
        cache.put(ticket, &lamp).await;
        assert_eq!(cache.get(1).await, Ok(lamp.clone()));
        let ticket = cache.get(2).await.unwrap_err();
        cache.forget(1).await;
        assert!(cache.get(1).await.is_err(), "it was dropped");
        cache.put(ticket, &lamp).await;
        assert!(cache.get(1).await.is_err(), "it was read before the drop");
    }
}
