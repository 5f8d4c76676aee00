//! An online shop: likes, orders, views, stock, and the metrics that are counted from its events.
//!
//! `domain.rs` holds the rules and knows no event type. `events.rs` turns each domain fact into an event with a type, a
//! schema and an envelope. `handlers.rs` executes requests and handles events. `tables.rs` is the SQL, `http.rs` the HTTP
//! API, and `cache.rs` the product cache. `docs/guide/commerce.md` is a guided tour.

mod cache;
mod domain;
mod events;
mod handlers;
mod http;
mod tables;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use postroom::{Delays, Idempotency, Retry, Subscriber};
use postroom_host::Module;

pub use cache::{LocalCache, ProductCache, Ticket};
pub use domain::Product;
pub use events::{
    LikeCanceledEventV1, LikeCreatedEventV1, OrderPaidEventV1, ProductViewedEventV1, SOURCE, StockDepletedEventV1,
};
pub use traffic::traffic;

/// The module without [`traffic`], with a cache that only this process uses.
pub fn module() -> Module {
    module_with(Arc::new(LocalCache::default()))
}

/// The module with the given cache, which several processes may share.
pub fn module_with(cache: Arc<dyn ProductCache>) -> Module {
    Module::new("commerce")
        .tables(tables::all())
        .event::<OrderPaidEventV1>()
        .event::<LikeCreatedEventV1>()
        .event::<LikeCanceledEventV1>()
        .event::<ProductViewedEventV1>()
        .event::<StockDepletedEventV1>()
        .subscriber(likes())
        .subscriber(sales())
        .subscriber(views())
        .subscriber(stock(Arc::clone(&cache)))
        .http(http::routes(cache))
}

/// Counts the likes of each product. It stores the current number, so repeated events change nothing.
fn likes() -> Subscriber {
    let likes = Subscriber::in_batches("commerce-likes", ["loopers.like.**"], handlers::count_likes);
    patient(likes, Idempotency::Upsert)
}

/// Counts the sold units of each product. Each order counts once.
fn sales() -> Subscriber {
    let sales = Subscriber::in_batches("commerce-sales", ["loopers.order.paid.v1"], handlers::count_sales);
    patient(sales, Idempotency::Inbox)
}

/// Counts the views of each product. Each view counts once.
fn views() -> Subscriber {
    let views = Subscriber::in_batches("commerce-views", ["loopers.product.viewed.v1"], handlers::count_views);
    patient(views, Idempotency::Inbox)
}

/// Removes sold-out products from the cache. Removing a product twice has the same effect as removing it once.
fn stock(cache: Arc<dyn ProductCache>) -> Subscriber {
    let handler = handlers::Invalidate(cache);
    let stock = Subscriber::matching("commerce-stock", ["loopers.stock.depleted.v1"], handler);
    patient(stock, Idempotency::Natural)
}

/// Retries a failed event three times, one second apart. Then the event becomes a dead letter.
fn patient(subscriber: Subscriber, idempotency: Idempotency) -> Subscriber {
    subscriber.idempotency(idempotency).retry(Retry {
        delays: Delays::Fixed(Duration::from_secs(1)),
        attempts_max: Some(4),
        age_max: None,
    })
}

/// Compiles and runs the example in the guide as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/new-event.md")]
struct NewEventGuide;
