//! Writers that emit at a pace of their own and remember when each commit was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use postroom::Event;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};
use uuid::Uuid;

use crate::native::Native;
use crate::paid;
use crate::tally::Tally;

/// Transactions side by side.
const WRITERS: usize = 8;
/// Events of one transaction at full speed.
const BATCH: usize = 100;
/// So far may writers at full speed be ahead of what has arrived.
const AHEAD_MAX: usize = 5_000;
/// How often a writer that is too far ahead has a look.
const LOOK: Duration = Duration::from_millis(1);

/// Events that are written one transaction after the other.
#[derive(Debug)]
pub(super) struct Writers {
    events: Vec<Event>,
    /// Of one transaction.
    batch: usize,
    pace: Pace,
    next: AtomicUsize,
}

/// When a transaction may begin.
#[derive(Debug)]
enum Pace {
    /// One in each such time, whatever the relay does.
    Every(Duration),
    /// At once, unless too much is under way.
    Ahead(Arc<Tally>),
}

/// The written events.
#[derive(Debug)]
pub(super) struct Written {
    /// Each event and when its commit was acknowledged, in the order in which they were due.
    pub(super) acks: Vec<(Uuid, Instant)>,
    /// Events per second: less than asked for when the writers could not keep up.
    pub(super) per_s: f64,
}

impl Writers {
    /// As many events as a rate makes in some seconds, each in a transaction of its own.
    pub(super) fn steady(rate: u32, seconds: u32) -> Result<Self> {
        let count = usize::try_from(u64::from(rate) * u64::from(seconds))?;
        Self::new(count, 1, Pace::Every(Duration::from_secs(1) / rate))
    }

    /// So many events as fast as they are taken.
    pub(super) fn flood(count: usize, tally: &Arc<Tally>) -> Result<Self> {
        Self::new(count, BATCH, Pace::Ahead(Arc::clone(tally)))
    }

    fn new(count: usize, batch: usize, pace: Pace) -> Result<Self> {
        let events = paid::events(0..count)?;
        let next = AtomicUsize::new(0);
        Ok(Self {
            events,
            batch,
            pace,
            next,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Writes them all. An event that is late does not make the next one late.
    pub(super) async fn write(self, native: &Native) -> Result<Written> {
        let all = Arc::new(self);
        let begin = Instant::now() + Duration::from_millis(50);
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            writers.spawn(Arc::clone(&all).work(native.clone(), begin));
        }
        let mut acks = Vec::with_capacity(all.len());
        while let Some(done) = writers.join_next().await {
            acks.extend(done.context("run a writer")??);
        }
        acks.sort_unstable_by_key(|(nth, _, _)| *nth);
        let end = acks.iter().map(|(_, _, ack)| *ack).max().unwrap_or(begin);
        let took = (end - begin).max(all.pace.time_of(acks.len()));
        Ok(Written {
            per_s: acks.len() as f64 / took.as_secs_f64(),
            acks: acks.into_iter().map(|(_, id, ack)| (id, ack)).collect(),
        })
    }

    async fn work(self: Arc<Self>, native: Native, begin: Instant) -> Result<Vec<(usize, Uuid, Instant)>> {
        let mut acks = Vec::new();
        loop {
            let nth = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.events.chunks(self.batch).nth(nth) else {
                return Ok(acks);
            };
            self.pace.wait(begin, nth, nth * self.batch).await;
            let mut tx = native.begin().await.context("begin a transaction")?;
            tx.append(batch).await.context("append events")?;
            tx.commit().await.context("commit events")?;
            let now = Instant::now();
            acks.extend(batch.iter().map(|event| (nth, event.id, now)));
        }
    }
}

impl Pace {
    /// Waits until the n-th transaction may begin, so many events having gone before it.
    async fn wait(&self, begin: Instant, nth: usize, before: usize) {
        match self {
            Self::Every(step) => {
                let due = begin + step.saturating_mul(u32::try_from(nth).unwrap_or(u32::MAX));
                sleep_until(due.into()).await;
            }
            Self::Ahead(tally) => {
                while before >= tally.arrived() + AHEAD_MAX {
                    sleep(LOOK).await;
                }
            }
        }
    }

    /// How long so many transactions take at least. The last one is due one step before the time is up.
    fn time_of(&self, count: usize) -> Duration {
        match self {
            Self::Every(step) => *step * u32::try_from(count).unwrap_or(u32::MAX),
            Self::Ahead(_) => Duration::ZERO,
        }
    }
}
