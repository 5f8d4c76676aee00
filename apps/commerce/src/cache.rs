//! The product cache. A sale of the last unit emits an event, and `handlers::Invalidate` removes the product from the cache.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::domain::Product;

/// Maximum age of a cached product. It limits how long a process shows an old stock: it may have missed the event, or a sale
/// may have left some units.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of cached products.
const PRODUCTS_MAX: usize = 10_000;

/// Caches products. Processes that share a cache see an invalidation at the same time. With one [`LocalCache`] per process,
/// only the process that handles the event invalidates at once; the others rely on expiry.
#[async_trait]
pub trait ProductCache: fmt::Debug + Send + Sync {
    /// Returns the cached product, or a ticket for [`ProductCache::put`].
    async fn get(&self, product_id: i64) -> Result<Product, Ticket>;

    /// Caches a product that was read after the ticket was issued. Does nothing if any product was invalidated since then:
    /// the product may have been read before the change that caused the invalidation.
    async fn put(&self, ticket: Ticket, product: &Product);

    /// Removes a product from the cache.
    async fn forget(&self, product_id: i64);
}

/// The version of the cache at a cache miss. [`LocalCache`] uses the number of invalidations so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// A cache in the memory of this process.
#[derive(Debug, Default)]
pub struct LocalCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    invalidations: u64,
    products: HashMap<i64, (Product, Instant)>,
}

impl LocalCache {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ProductCache for LocalCache {
    async fn get(&self, product_id: i64) -> Result<Product, Ticket> {
        let entries = self.lock();
        let cached = entries.products.get(&product_id);
        let fresh = cached.filter(|(_, since)| since.elapsed() < AGE_MAX);
        fresh
            .map(|(product, _)| product.clone())
            .ok_or(Ticket(entries.invalidations))
    }

    async fn put(&self, ticket: Ticket, product: &Product) {
        let mut entries = self.lock();
        if ticket != Ticket(entries.invalidations) {
            return;
        }
        if entries.products.len() >= PRODUCTS_MAX {
            entries.products.clear();
        }
        entries
            .products
            .insert(product.product_id, (product.clone(), Instant::now()));
    }

    async fn forget(&self, product_id: i64) {
        let mut entries = self.lock();
        entries.invalidations += 1;
        entries.products.remove(&product_id);
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
        assert!(cache.get(1).await.is_err(), "it was invalidated");
        cache.put(ticket, &lamp).await;
        assert!(cache.get(1).await.is_err(), "it was read before the invalidation");
    }
}
