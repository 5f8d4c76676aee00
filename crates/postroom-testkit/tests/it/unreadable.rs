//! A log that cannot be read beyond some entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use postroom::{
    Batch, Destination, Error, ErrorKind, Event, Position, Receipt, Relay, Route, To, append, parse_payload, table,
};
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use tokio_util::sync::CancellationToken;

use crate::hooked::Hooked;

#[derive(Debug, Default)]
struct Counter(AtomicUsize);

#[async_trait]
impl Destination for Counter {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        self.0.fetch_add(batch.entries.len(), Relaxed);
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

/// Progress is written later than it is made; a page that cannot be read does not undo it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_delivered_before_it_does_not_come_again() {
    let fresh = fresh::sqlite().await;
    let tx = table::begin(fresh.db()).await.unwrap();
    let event = |key: &str| Event::new("a.b.v1", "thing", key, parse_payload("1").unwrap()).unwrap();
    append(&tx, &[event("a"), event("b"), event("c")]).await.unwrap();
    tx.commit().await.unwrap();
    fresh.catch_up().await;
    let failures = Arc::new(AtomicUsize::new(0));
    let failed = Arc::clone(&failures);
    let torn = Hooked::new(fresh.store(), move |after| match after == Position::START {
        true => Ok(()),
        false => {
            failed.fetch_add(1, Relaxed);
            Err(Error::new(ErrorKind::Failed, "the page is torn"))
        }
    });
    let counter = Arc::new(Counter::default());
    let stop = CancellationToken::new();
    let relay = Relay::new(Arc::new(torn))
        .route(Route::new("r", To::Destination(Arc::<Counter>::clone(&counter))))
        .run(stop.clone());
    let watch = async {
        until("reading has failed often", || async { failures.load(Relaxed) >= 4 }).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay, watch);
    ended.unwrap();
    assert_eq!(counter.0.load(Relaxed), 3, "each was delivered once");
}
