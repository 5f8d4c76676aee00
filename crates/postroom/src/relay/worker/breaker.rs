//! The circuit breaker of a shard: while its destination is down, nothing is sent before the next probe.
//!
//! The time of that probe is in the store if the route's policy or the destination asks for a wait, so that it counts after a restart
//! and for another relay too. Otherwise the back-off of this process decides.

use std::time::{Duration, Instant};

use super::evidence::Heard;
use super::progress::commit;
use super::{ShardWorker, Work};
use crate::error::Result;
use crate::policy::probe::Probe;
use crate::state::cursor;
use crate::state::outage::{self, Recorded, Side};
use crate::store::outbox::with_timeout;
use crate::store::table;
use crate::store::tx::Tx;

/// A probe is sent after the time of the next one is stored. The stored time lies later by this, so that a process that follows one
/// which was killed in the middle of a probe does not ask too early.
const AHEAD: Duration = Duration::from_millis(500);
/// That time is stored again if storing it took longer than this, and so often at most: then the database answers slowly all the while.
const NOTED_WITHIN: Duration = Duration::from_millis(250);
const NOTES_MAX: u32 = 3;

/// An outage of the destination, as the store has it.
#[derive(Debug)]
pub(super) struct Down {
    pub(super) reason: String,
    /// Nothing is sent before. `None`: the back-off of this process decides.
    probe_at: Option<Instant>,
}

impl Down {
    pub(super) fn read(recorded: Recorded, probe: Probe) -> Self {
        let wait = recorded.probe_in.map(|wait| wait.min(probe.wait_max()));
        Self::now(recorded.reason, wait)
    }

    fn now(reason: String, wait: Option<Duration>) -> Self {
        Self {
            reason,
            probe_at: wait.map(|wait| Instant::now() + wait),
        }
    }
}

impl Work {
    /// When the destination is asked again, if that time has not come yet.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.down.as_ref()?.probe_at.filter(|at| *at > Instant::now())
    }

    /// Whether that time is still to come.
    pub(super) fn waits(&self) -> bool {
        self.waits_until().is_some()
    }

    /// Whether the store has a time for the next probe.
    pub(super) fn has_probe(&self) -> bool {
        self.down.as_ref().is_some_and(|down| down.probe_at.is_some())
    }
}

impl ShardWorker {
    /// How many entries a probe may send: one if there is a time for the next probe, else `many`.
    pub(super) fn probes_max(&self, work: &Work, many: usize) -> usize {
        let is_single = work.has_probe() || matches!(self.route.probe, Probe::Every(_));
        if is_single { 1 } else { many }
    }

    /// Entries of the log were put aside or given up. If nothing else was answered, the route waits for the next probe, and that is an
    /// entry behind these.
    pub(super) async fn heed(&self, work: &mut Work, heard: Heard) -> Result<()> {
        let (Some(outage), Some(wait)) = (heard.outage, heard.wait) else {
            return Ok(());
        };
        work.memory.retried = true;
        self.is_unavailable(work, outage.says, Some(wait)).await
    }

    /// The destination answers nothing but `Unavailable`. With a `wait` nothing is sent for so long, and that is written down at once.
    /// Otherwise the second time in a row is taken for an outage and written down, once for each reason. A time that an earlier answer
    /// asked for no longer counts then.
    pub(super) async fn is_unavailable(&self, work: &mut Work, reason: String, wait: Option<Duration>) -> Result<()> {
        let is_outage = std::mem::replace(&mut work.memory.probing, true);
        let is_known = work.down.as_ref().is_some_and(|down| down.reason == reason);
        if wait.is_none() && (!is_outage || is_known && !work.has_probe()) {
            tracing::debug!(route = %self.route.name, reason, "destination unavailable");
            return Ok(());
        }
        match is_known {
            true => tracing::debug!(route = %self.route.name, reason, ?wait, "destination unavailable"),
            false => {
                tracing::warn!(route = %self.route.name, reason, ?wait, "destination unavailable; it is probed until it answers");
            }
        }
        self.health.behind(&self.name, Some(&reason));
        let record = async |tx: &Tx| {
            outage::record(tx, &self.shard, Side::Delivery, &reason).await?;
            outage::plan_probe(tx, &self.shard, wait).await
        };
        self.write_outage(work.epoch, record).await?;
        work.down = Some(Down::now(reason, wait));
        Ok(())
    }

    /// Writes the time of the next probe down before this one is sent: if this process dies meanwhile, the next one waits.
    pub(super) async fn note_next_probe(&self, work: &mut Work) -> Result<()> {
        let wait = self.route.probe.wait(None, Duration::ZERO, rand::random());
        let (Some(down), Some(wait)) = (&mut work.down, wait) else {
            return Ok(());
        };
        for _ in 0..NOTES_MAX {
            let begun = Instant::now();
            let plan = async |tx: &Tx| outage::plan_probe(tx, &self.shard, Some(wait + AHEAD)).await;
            self.write_outage(work.epoch, plan).await?;
            if begun.elapsed() <= NOTED_WITHIN {
                break;
            }
        }
        down.probe_at = Some(Instant::now() + wait);
        Ok(())
    }

    /// Writes down why nothing is delivered.
    pub(super) async fn record_down(&self, epoch: i64, reason: &str) -> Result<()> {
        let record = async |tx: &Tx| outage::record(tx, &self.shard, Side::Delivery, reason).await;
        self.write_outage(epoch, record).await
    }

    /// Writes about the outage of the destination, under the lease.
    async fn write_outage(&self, epoch: i64, write: impl AsyncFnOnce(&Tx) -> Result<()>) -> Result<()> {
        with_timeout(async {
            let tx = table::begin_own(self.pages.outbox().db()).await?;
            cursor::fence(&tx, &self.shard, epoch).await?;
            write(&tx).await?;
            commit(tx).await
        })
        .await
    }

    /// Takes back what was written about a destination that was reached, or that nothing is left for.
    pub(super) async fn came_up(&self, work: &mut Work) -> Result<()> {
        if work.down.is_none() {
            return Ok(());
        }
        let clear = async |tx: &Tx| outage::clear(tx, &self.shard, Side::Delivery).await;
        self.write_outage(work.epoch, clear).await?;
        work.down = None;
        Ok(())
    }
}
