//! The pulse of a process: one loop that looks for news, often while there is some, rarely while there is none.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::error::Result;
use crate::nudge;
use crate::outbox::{Outbox, Pulse};
use crate::task;
use crate::vitals::Vitals;

/// Between two looks while events flow.
const BUSY: Duration = Duration::from_millis(3);
/// Between two looks when nothing has come for a while: with the leases' renewal, under two queries a second.
const IDLE: Duration = Duration::from_millis(750);

/// Publishes what each pulse finds.
#[derive(Debug)]
pub(crate) struct Heart {
    outbox: Arc<dyn Outbox>,
    news: watch::Sender<Pulse>,
    vitals: Arc<Vitals>,
}

impl Heart {
    pub(crate) fn new(outbox: Arc<dyn Outbox>, vitals: Arc<Vitals>) -> Self {
        Self {
            outbox,
            news: watch::Sender::new(Pulse::default()),
            vitals,
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Pulse> {
        self.news.subscribe()
    }

    /// Beats until `stop`.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let mut backoff = Backoff::default();
        let mut wait = BUSY;
        while !stop.is_cancelled() {
            let nudged = nudge::nudged();
            tokio::pin!(nudged);
            nudged.as_mut().enable(); // hears a nudge that comes while the pulse is under way
            let pulse = match self.pulse().await {
                Ok(pulse) => pulse,
                Err(error) => {
                    tracing::warn!(error = error.report(), "the store does not answer");
                    backoff.wait(stop).await;
                    continue;
                }
            };
            backoff.reset();
            self.vitals.pulsed();
            wait = next_wait(wait, self.publish(pulse), pulse);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
                () = nudged => wait = BUSY,
            }
        }
    }

    async fn pulse(&self) -> Result<Pulse> {
        let outbox = Arc::clone(&self.outbox);
        task::to_end(async move { outbox.pulse().await }).await
    }

    fn publish(&self, pulse: Pulse) -> bool {
        self.news.send_if_modified(|known| {
            let is_news = pulse.head != known.head
                || pulse.signal != known.signal
                || pulse.due_in.is_some_and(|due| due.is_zero());
            *known = pulse;
            is_news
        })
    }
}

/// Pure: how long to wait after a pulse.
fn next_wait(last: Duration, is_news: bool, pulse: Pulse) -> Duration {
    let wait = if pulse.more {
        Duration::ZERO
    } else if is_news {
        BUSY
    } else {
        last.max(BUSY).mul_f64(1.3).min(IDLE)
    };
    // A scheduled event that comes due during the wait shortens it.
    pulse
        .due_in
        .filter(|due| !due.is_zero())
        .map_or(wait, |due| wait.min(due.max(BUSY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_the_news() {
        let ms = Duration::from_millis;
        let check = |last: u64, is_news: bool, more: bool, due_in: Option<u64>, expected: Duration| {
            let pulse = Pulse {
                more,
                due_in: due_in.map(ms),
                ..Pulse::default()
            };
            assert_eq!(next_wait(ms(last), is_news, pulse), expected);
        };
        check(750, true, true, None, Duration::ZERO);
        check(750, true, false, None, BUSY);
        check(100, false, false, None, ms(130));
        check(700, false, false, None, IDLE);
        check(0, false, false, None, BUSY.mul_f64(1.3));
        check(700, false, false, Some(200), ms(200));
        check(700, false, false, Some(0), IDLE);
        check(700, false, false, Some(60_000), IDLE);
    }
}
