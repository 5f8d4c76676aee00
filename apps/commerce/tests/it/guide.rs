//! Runs the walk of the guide exactly as the guide prints it.

use postroom_testkit::{fresh, walk};

use crate::shop::Shop;

const GUIDE: &str = "docs/guide/commerce.md";
/// The parts of the walk's output that differ when it runs a second time.
const SECOND: [(&str, &str); 5] = [
    ("\"productId\":1", "\"productId\":2"),
    ("of product 1", "of product 2"),
    ("\"orderId\":2", "\"orderId\":4"),
    ("\"orderId\":1", "\"orderId\":3"),
    ("\"paymentId\":1", "\"paymentId\":2"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_says_what_the_guide_says() {
    let shop = Shop::open(fresh::sqlite().await, None).await;
    let walk = async || walk::run(&walk::blocks(GUIDE, "walk"), ("SHOP", &shop.client.0)).await;
    let says = walk::blocks(GUIDE, "walk-says");
    assert_eq!(walk().await.done(), says);
    let says = SECOND
        .iter()
        .fold(says, |says, (first, second)| says.replace(first, second));
    assert_eq!(walk().await.done(), says);
}

/// The route of the views is paused: the walk ends with an error instead of waiting forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_ends_when_nothing_comes() {
    let shop = Shop::open(fresh::sqlite().await, None).await;
    shop.pause("commerce-views").await;
    let at_once = format!("sleep() {{ :; }}\n{}", walk::blocks(GUIDE, "walk"));
    let walked = walk::run(&at_once, ("SHOP", &shop.client.0)).await;
    assert!(!walked.is_done, "{}", walked.said);
    assert!(
        walked.complained.contains("lamp 1 is not counted"),
        "{}",
        walked.complained
    );
}
