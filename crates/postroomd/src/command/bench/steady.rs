//! Writers that keep a rate, whatever the relay does, and remember when each commit was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use postroom::Event;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use crate::command::bench::native::Native;
use crate::command::bench::paid;

/// Transactions side by side.
const WRITERS: usize = 8;

/// Events that are due one after the other, each in a transaction of its own.
#[derive(Debug)]
pub(super) struct Steady {
    events: Vec<Event>,
    every: Duration,
    next: AtomicUsize,
}

/// What was written.
#[derive(Debug)]
pub(super) struct Written {
    /// Each event and when its commit was acknowledged, in the order in which they were due.
    pub(super) acks: Vec<(Uuid, std::time::Instant)>,
    /// Commits per second: less than asked for when the writers could not keep up.
    pub(super) per_s: f64,
}

impl Steady {
    /// As many events as a rate makes in some seconds.
    pub(super) fn new(rate: u32, seconds: u32) -> Result<Self> {
        let count = usize::try_from(u64::from(rate) * u64::from(seconds))?;
        Ok(Self {
            events: paid::events(0..count)?,
            every: Duration::from_secs(1) / rate,
            next: AtomicUsize::new(0),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Writes them all. An event that is late does not make the next one late.
    pub(super) async fn write(self, native: &Native) -> Result<Written> {
        let steady = Arc::new(self);
        let begin = Instant::now() + Duration::from_millis(50);
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            writers.spawn(Arc::clone(&steady).work(native.clone(), begin));
        }
        let mut acks = Vec::with_capacity(steady.len());
        while let Some(done) = writers.join_next().await {
            acks.extend(done.context("run a writer")??);
        }
        acks.sort_unstable_by_key(|(at, _, _)| *at);
        let end = acks
            .iter()
            .map(|(_, _, ack)| *ack)
            .max()
            .unwrap_or_else(std::time::Instant::now);
        // The last event is due one step before the time is up.
        let took = (end - begin.into_std()).max(steady.every * u32::try_from(acks.len()).unwrap_or(u32::MAX));
        Ok(Written {
            per_s: acks.len() as f64 / took.as_secs_f64(),
            acks: acks.into_iter().map(|(_, id, ack)| (id, ack)).collect(),
        })
    }

    async fn work(self: Arc<Self>, native: Native, begin: Instant) -> Result<Vec<(usize, Uuid, std::time::Instant)>> {
        let mut acks = Vec::new();
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(event) = self.events.get(at) else {
                return Ok(acks);
            };
            sleep_until(begin + self.every.saturating_mul(u32::try_from(at).unwrap_or(u32::MAX))).await;
            let mut tx = native.begin().await.context("begin a transaction")?;
            tx.append(std::slice::from_ref(event))
                .await
                .context("append an event")?;
            tx.commit().await.context("commit an event")?;
            acks.push((at, event.id, std::time::Instant::now()));
        }
    }
}
