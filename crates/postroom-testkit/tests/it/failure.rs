//! Seeing a clause fail.

use postroom_testkit::{Fresh, outbox_suite};
use tokio::task::{LocalSet, spawn_local};

/// The words with which a clause fails on this store. On this thread, where the test's output is kept.
pub(crate) async fn failure<F>(fresh: Fresh, clause: fn(Fresh) -> F) -> String
where
    F: Future<Output = ()> + 'static,
{
    let ended = LocalSet::new()
        .run_until(async { spawn_local(outbox_suite::check(fresh, clause)).await })
        .await;
    let panic = ended.expect_err("the clause must fail on a broken store").into_panic();
    match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
    }
}
