//! The pulse of a process: one loop that looks for news, often while there is some, rarely while there is none.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::emit::nudge;
use crate::error::Result;
use crate::relay::backoff::Backoff;
use crate::relay::health::Health;
use crate::state::cursor::Changes;
use crate::store::fault::Fault;
use crate::store::outbox::{Outbox, Pulse, with_timeout_of};
use crate::store::task;

/// Between two looks while events flow.
const BUSY: Duration = Duration::from_millis(3);
/// Between two looks when nothing has come for a while: with the leases' renewal, under two queries a second.
const IDLE: Duration = Duration::from_millis(750);
/// New entries do not wait longer for the news of what operators have changed.
const CHANGES_MAX: Duration = Duration::from_secs(5);

/// Publishes what each pulse finds.
#[derive(Debug)]
pub(crate) struct Poller {
    outbox: Arc<dyn Outbox>,
    news: watch::Sender<Pulse>,
    /// A scheduled event is due. Lines need not hear of it: it is news for them when it is in the log.
    due: watch::Sender<()>,
    changes: watch::Sender<Changes>,
    health: Arc<Health>,
}

impl Poller {
    pub(crate) fn new(outbox: Arc<dyn Outbox>, health: Arc<Health>) -> Self {
        Self {
            outbox,
            news: watch::Sender::new(Pulse::default()),
            due: watch::Sender::new(()),
            changes: watch::Sender::default(),
            health,
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Pulse> {
        self.news.subscribe()
    }

    /// Hears of every pulse that found a scheduled event due.
    pub(crate) fn subscribe_due(&self) -> watch::Receiver<()> {
        self.due.subscribe()
    }

    /// Hears which routes were changed.
    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<Changes> {
        self.changes.subscribe()
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
                    self.health.silenced(&error);
                    tracing::warn!(error = error.report(), "{}", Fault::of(&error).advice());
                    backoff.wait(stop).await;
                    continue;
                }
            };
            backoff.reset();
            self.health.pulsed();
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
        let pulse = task::to_end(async move { outbox.pulse().await }).await?;
        let known = self.news.borrow().signal;
        if pulse.signal == known {
            return Ok(pulse);
        }
        // Read once for all workers, and before they hear of the signal.
        match with_timeout_of(CHANGES_MAX, Changes::read(self.outbox.db(), pulse.signal))
            .await
            .unwrap_or_else(Err)
        {
            Ok(changes) => {
                self.changes.send_modify(|known| *known = known.then(changes));
                Ok(pulse)
            }
            Err(error) => {
                tracing::debug!(
                    error = error.report(),
                    "which routes were changed is read with the next pulse"
                );
                Ok(Pulse { signal: known, ..pulse })
            }
        }
    }

    /// Tells whoever must know; answers whether something has happened since the last pulse. That something is still due is no
    /// news: whoever releases it may be unable to.
    fn publish(&self, pulse: Pulse) -> bool {
        if pulse.is_due() {
            self.due.send_replace(());
        }
        let mut came_due = false;
        let is_news = self.news.send_if_modified(|known| {
            let is_news = pulse.head != known.head || pulse.signal != known.signal;
            came_due = pulse.is_due() && !known.is_due();
            *known = pulse;
            is_news
        });
        is_news || came_due
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
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use async_trait::async_trait;
    use sea_orm::DatabaseConnection;

    use super::*;
    use crate::error::Error;
    use crate::event::entry::Position;
    use crate::store::migration::Migration;
    use crate::store::outbox::{Page, Prune};

    /// A store in which something is due that nobody releases.
    #[derive(Debug, Default)]
    struct Overdue {
        db: DatabaseConnection,
        pulses: AtomicU32,
    }

    #[async_trait]
    impl Outbox for Overdue {
        fn db(&self) -> &DatabaseConnection {
            &self.db
        }

        fn pool(&self, _connections_max: u32) -> DatabaseConnection {
            self.db.clone()
        }

        fn migrations(&self) -> &'static [Migration] {
            &[]
        }

        async fn pulse(&self) -> Result<Pulse> {
            self.pulses.fetch_add(1, SeqCst);
            Ok(Pulse {
                due_in: Some(Duration::ZERO),
                ..Pulse::default()
            })
        }

        async fn read(&self, _after: Position, _limit: usize) -> Result<Page> {
            Err(Error::invalid("it holds nothing"))
        }

        async fn head(&self) -> Result<Position> {
            Ok(Position::START)
        }

        async fn prune(&self, _prune: &Prune) -> Result<u64> {
            Ok(0)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_due_wakes_no_line_and_lets_the_heart_rest() {
        let store = Arc::new(Overdue::default());
        let poller = Poller::new(Arc::<Overdue>::clone(&store), Arc::default());
        let (workers, mut job) = (poller.subscribe(), poller.subscribe_due());
        let stop = CancellationToken::new();
        let patience = Duration::from_secs(60);
        assert!(tokio::time::timeout(patience, poller.run(&stop)).await.is_err());
        let pulses = store.pulses.load(SeqCst);
        assert!(pulses < 120, "{pulses} pulses in a minute");
        assert!(!workers.has_changed().unwrap(), "a worker was woken");
        assert!(job.has_changed().unwrap(), "the job was not woken");
        job.mark_unchanged();
        assert!(tokio::time::timeout(IDLE * 2, poller.run(&stop)).await.is_err());
        assert!(job.has_changed().unwrap(), "the job was woken only once");
    }

    #[test]
    fn the_wait_follows_the_news() {
        let ms = Duration::from_millis;
        let check = |last: u64, is_news: bool, more: bool, due_in: Option<u64>, expected: Duration| {
            let pulse = Pulse {
                more,
                is_waiting: false,
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
