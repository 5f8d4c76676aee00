//! Waiting until something is so, and no longer than anything takes.

use std::time::Duration;

use postroom::{Inspect, operate};
use tokio::time::{Instant, sleep};

/// Longer than anything takes on a busy machine; the claim of a process that was killed in a job lasts a minute.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(30);

/// Waits until something is so; `what` says what did not come to pass otherwise.
pub async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "it did not come to pass: {what}");
        sleep(LOOK).await;
    }
}

/// Waits until something is there, and answers it.
pub async fn until_some<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come to pass: {what}");
        sleep(LOOK).await;
    }
}

/// Waits until a job has run several times more, from its beginning to its end.
pub async fn until_run(store: &dyn Inspect, job: &str) {
    let runs = async || {
        let status = operate::status(store).await.ok()?;
        let found = status.jobs.into_iter().find(|known| known.name == job)?;
        Some(found.runs)
    };
    let known = runs().await.unwrap_or(0);
    let has_run = async || runs().await.is_some_and(|runs| runs > known + 3);
    until(&format!("{job} runs"), has_run).await;
}
