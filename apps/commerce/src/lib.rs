//! A shop: likes, orders, views and stock, and what is counted from them.
//!
//! `domain.rs` has the rules and knows nothing of events as others see them; `events.rs` gives each fact its type, its shape and
//! its envelope; `handlers.rs` does the work, on both sides of the events; `tables.rs` is the SQL; `http.rs` lets people in;
//! `cache.rs` keeps products that were read. `docs/guide/commerce.md` walks through it.

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

/// The module, without [`traffic`], with a cache of this process's own.
pub fn module() -> Module {
    module_with(Arc::new(LocalCache::default()))
}

/// The module with a cache that others may share.
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
        .routes(http::routes(cache))
}

/// How many like a product: its final state, whatever came how often.
fn likes() -> Subscriber {
    let likes = Subscriber::in_batches("commerce-likes", ["loopers.like.**"], handlers::count_likes);
    patient(likes, Idempotency::Upsert)
}

/// How many were sold: each order counts once.
fn sales() -> Subscriber {
    let sales = Subscriber::in_batches("commerce-sales", ["loopers.order.paid.v1"], handlers::count_sales);
    patient(sales, Idempotency::Inbox)
}

/// How often somebody looked: each time counts once.
fn views() -> Subscriber {
    let views = Subscriber::in_batches("commerce-views", ["loopers.product.viewed.v1"], handlers::count_views);
    patient(views, Idempotency::Inbox)
}

/// Forgetting what is cached twice is forgetting it once.
fn stock(cache: Arc<dyn ProductCache>) -> Subscriber {
    let handler = handlers::Invalidate(cache);
    let stock = Subscriber::matching("commerce-stock", ["loopers.stock.depleted.v1"], handler);
    patient(stock, Idempotency::Natural)
}

/// Every consumer tries three times more, a second apart, then gives the event up.
fn patient(subscriber: Subscriber, idempotency: Idempotency) -> Subscriber {
    subscriber.idempotency(idempotency).retry(Retry {
        delays: Delays::Fixed(Duration::from_secs(1)),
        attempts_max: Some(4),
        age_max: None,
    })
}

/// The guide's example is a program that runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/new-event.md")]
struct NewEventGuide;
