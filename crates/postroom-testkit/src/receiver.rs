//! A receiver for checks of reading alone: pulse, read to the head, write the position down, again.

use std::sync::Arc;
use std::time::Duration;

use postroom::{ErrorKind, Outbox, Page, Position, Result};
use postroom_proof::{Change, Findings, History, Truth};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// A committed event that has not arrived after this time counts as lost.
const QUIET_MAX: Duration = Duration::from_secs(5);

/// The interval between two reads when the first found nothing.
const LOOK: Duration = Duration::from_millis(5);

/// Follows a store from a position it keeps only as text, as a program would that is killed after every page.
#[derive(Debug)]
pub struct Receiver {
    store: Arc<dyn Outbox>,
    position: String,
    history: History,
    rng: StdRng,
    has_whole_pages: bool,
}

impl Receiver {
    /// Starts at the beginning. Page sizes, and where a page is cut, are drawn from `seed`.
    pub fn new(store: Arc<dyn Outbox>, seed: u64) -> Self {
        Self {
            store,
            position: Position::START.to_string(),
            history: History::default(),
            rng: StdRng::seed_from_u64(seed),
            has_whole_pages: false,
        }
    }

    /// Never settles in the middle of a page: for a broken twin that is to fail of what it is known for.
    #[must_use]
    pub fn in_whole_pages(mut self) -> Self {
        self.has_whole_pages = true;
        self
    }

    /// Receives until `stop`. A database that is away is waited for.
    pub async fn run(&mut self, stop: &CancellationToken) -> Result<()> {
        while !stop.is_cancelled() {
            let taken = self.drain().await;
            match taken {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::debug!(error = error.report(), "the receiver waits for its database");
                }
                Err(error) => return Err(error),
                Ok(count) if count > 0 => continue,
                Ok(_) => {}
            }
            stop.run_until_cancelled(sleep(LOOK)).await;
        }
        Ok(())
    }

    /// Receives what is still to come, until it is all there or nothing has come for five seconds, and checks.
    pub async fn finish(&mut self, truth: &Truth) -> Result<Findings> {
        let expected: u64 = truth.values().copied().map(u64::from).sum();
        let mut moved_at = Instant::now();
        while self.history.count() < expected && moved_at.elapsed() < QUIET_MAX {
            if self.drain().await? > 0 {
                moved_at = Instant::now();
            } else {
                sleep(LOOK).await;
            }
        }
        // Once more, for what should not come at all.
        self.drain().await?;
        Ok(self.history.check(truth))
    }

    /// The events that have arrived so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The position of the receiver.
    pub fn position(&self) -> Result<Position> {
        self.position.parse()
    }

    /// One pulse, then reads to the head; answers how many entries that were.
    pub async fn drain(&mut self) -> Result<usize> {
        self.store.pulse().await?;
        let mut taken = 0;
        loop {
            let after = self.position()?;
            let limit = *[1, 3, 20, 100, 1_000].choose(&mut self.rng).unwrap_or(&100);
            let page = self.store.read(after, limit).await?;
            taken += self.take(&page)?;
            if page.entries.is_empty() && page.next == after {
                return Ok(taken);
            }
        }
    }

    /// Records a page, or a part of it, and writes the position behind that down.
    fn take(&mut self, page: &Page) -> Result<usize> {
        let count = page.entries.len();
        let is_cut = !self.has_whole_pages && count > 1 && self.rng.random_bool(0.3);
        let count = if is_cut { self.rng.random_range(1..count) } else { count };
        for entry in page.entries.iter().take(count) {
            if let Some(change) = Change::of(&entry.event)? {
                self.history.record(&change.key, change.ver);
            }
        }
        let settled = match page.entries.get(count.wrapping_sub(1)) {
            Some(last) if is_cut => page.after(last.id),
            _ => page.next,
        };
        self.position = settled.to_string();
        Ok(count)
    }
}
