//! A wait that grows while something fails, spread at random so that many who wait do not return at once.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

const FIRST: Duration = Duration::from_millis(100);
const MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// Waits, less if `stop` comes first; the next wait is twice as long.
    pub(crate) async fn wait(&mut self, stop: &CancellationToken) {
        stop.run_until_cancelled(tokio::time::sleep(self.next_wait())).await;
    }

    /// How long to wait now; the next wait is twice as long.
    pub(crate) fn next_wait(&mut self) -> Duration {
        let spread = 0.5 + rand::random::<f64>() / 2.0;
        let wait = self.next.mul_f64(spread);
        self.next = (self.next * 2).min(MAX);
        wait
    }
}
