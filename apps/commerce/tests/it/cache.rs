//! Cached products, and the event that removes them from the cache.

use std::sync::Arc;
use std::time::Duration;

use commerce::{LocalCache, ProductCache};
use postroom_testkit::fresh;
use postroom_testkit::stage::Running;
use postroom_testkit::wait::until;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use crate::shop::{Shop, call, run};

/// Shorter than the cache's expiry of one minute: an earlier change comes from the event.
const SOONER: Duration = Duration::from_secs(45);

on_every_way! {
    c_04_a_sold_out_product_is_forgotten_where_it_was_cached
}

async fn c_04_a_sold_out_product_is_forgotten_where_it_was_cached(shop: Shop) {
    let lamp = shop.product(100, 2).await;
    let path = format!("/commerce/products/{lamp}");
    let begun = Instant::now();
    assert_eq!(shop.get(&path).await["stock"], 2);
    assert_eq!(shop.buy(7, &[(lamp, 1)]).await.0, 201);
    shop.until_counted(lamp, [0, 1, 0]).await;
    assert_eq!(
        shop.get(&path).await["stock"],
        2,
        "one unit is left: the cached product may still be used"
    );
    assert_eq!(shop.buy(7, &[(lamp, 1)]).await.0, 201);
    let is_updated = || async { shop.get(&path).await["stock"] == 0 };
    let in_time = timeout_at(begun + SOONER, until("the sold-out product left the cache", is_updated)).await;
    assert!(in_time.is_ok(), "no event removed the product from the cache");
    shop.deliver_again().await;
    assert_eq!(shop.get(&path).await["stock"], 0);
}

/// One process handles the event. The other one shares the cache and sees the change too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_share_a_cache_hear_of_it_together() {
    let fresh = fresh::postgres().await;
    let cache: Arc<dyn ProductCache> = Arc::new(LocalCache::default());
    let module = || commerce::module_with(Arc::clone(&cache));
    let (first, second) = (run(&fresh, None, module()).await, run(&fresh, None, module()).await);
    let at = async |running: &Running, method: &str, path: &str, body: Value| {
        let (status, answer) = call(&running.client, method, path, body).await;
        assert!(status < 300, "{path}: {answer}");
        answer
    };
    let lamp = serde_json::json!({ "name": "lamp", "price": 100, "stock": 1 });
    let lamp = at(&first, "POST", "/commerce/products", lamp).await["productId"].clone();
    let path = format!("/commerce/products/{lamp}");
    for running in [&first, &second] {
        assert_eq!(at(running, "GET", &path, Value::Null).await["stock"], 1);
    }
    let order = serde_json::json!({ "userId": 7, "lines": [{ "productId": lamp, "quantity": 1 }] });
    let order = at(&second, "POST", "/commerce/orders", order).await["orderId"].clone();
    let (payment, amount) = (
        format!("/commerce/orders/{order}/payment"),
        serde_json::json!({ "amount": 100 }),
    );
    at(&second, "POST", &payment, amount).await;
    let both_updated = async {
        for running in [&first, &second] {
            let is_updated = || async { at(running, "GET", &path, Value::Null).await["stock"] == 0 };
            until("a process shows the new stock", is_updated).await;
        }
    };
    let in_time = timeout(SOONER, both_updated).await;
    assert!(in_time.is_ok(), "one of two processes still shows the old stock");
}
