//! Seeing a clause fail.

use postroom_testkit::outbox_suite;
use tokio::task::{LocalSet, spawn_local};

/// The words with which a clause fails on this adapter. On this thread, where the test's output is kept.
pub(crate) async fn failure<T, F>(adapter: T, clause: impl FnOnce(T) -> F + 'static) -> String
where
    T: 'static,
    F: Future<Output = ()> + 'static,
{
    let ended = LocalSet::new()
        .run_until(async { spawn_local(outbox_suite::check(adapter, clause)).await })
        .await;
    let panic = ended
        .expect_err("the clause must fail on a broken adapter")
        .into_panic();
    match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
    }
}
