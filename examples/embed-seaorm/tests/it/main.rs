//! Runs the example: an order over HTTP has exactly one effect, also when the process is killed in between.

use postroom_testkit::embedded::{Embedded, sells};
use postroom_testkit::fresh;

#[tokio::test(flavor = "multi_thread")]
async fn an_order_counts_once() {
    let fresh = fresh::postgres().await;
    sells(&Embedded::new(env!("CARGO_BIN_EXE_embed-seaorm"), &fresh)).await;
}
