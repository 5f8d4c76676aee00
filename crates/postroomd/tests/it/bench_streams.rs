//! `postroom bench sse` and `postroom bench chat`: short runs, which check themselves.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use crate::bench::{are_numbers, are_positive};
use crate::harness::Place;

/// Every frame reaches every client once and in order.
async fn delivers(protocol: &str) {
    let flags = ["bench", protocol, "--connections", "40", "--seconds", "1"];
    let document = Place::new().json(&flags).await;
    are_positive(
        &document,
        &[
            "connected_per_s",
            "deliveries_per_s",
            "paced_deliveries_per_s",
            "p50_ms",
            "p99_ms",
        ],
    );
    are_numbers(
        &document,
        &[
            "rss_bytes_per_connection",
            "rss_bytes_per_connection_after",
            "server_cpu_percent",
            "clients_cpu_percent",
        ],
    );
    let number = |key: &str| document[key].as_u64().unwrap();
    assert_eq!(
        (number("connections"), number("gaps"), number("duplicates")),
        (40, 0, 0)
    );
    assert!(number("frames") > 10, "{document}");
    assert_eq!(number("deliveries"), 40 * number("frames"), "{document}");
    assert_eq!(document["protocol"], protocol);
    assert!(document["p50_ms"].as_f64() <= document["p99_ms"].as_f64(), "{document}");
}

#[tokio::test]
async fn bench_sse_delivers_every_frame_once_and_in_order() {
    delivers("sse").await;
}

#[tokio::test]
async fn bench_chat_delivers_every_frame_once_and_in_order() {
    delivers("chat").await;
}

#[tokio::test]
async fn bench_sse_says_that_too_few_files_may_be_open() {
    let refused = Place::new().fails(&["bench", "sse", "--connections", "1000000"]).await;
    assert!(refused.contains("ulimit -n"), "{refused}");
}
