//! How a worker tries parked entries again.

use std::time::{Duration, Instant};

use super::delivery::Sent;
use super::evidence::Heard;
use super::{PROBE_LANES, ShardWorker, Turn, Work};
use crate::error::Result;
use crate::policy::ordering::Lanes;
use crate::relay::judge::{Blame, Tried};
use crate::state::parked::{self, Parked};
use crate::store::outbox::with_timeout;
use crate::store::table;
use crate::store::tx::Tx;

/// Parked entries tried in one turn.
const DUE_MAX: u64 = 200;
/// Between two looks at a lane that an operator has changed and that is not in order yet.
const LANE_WAIT: Duration = Duration::from_millis(50);

impl ShardWorker {
    /// Tries parked entries whose time has come, each with what waits behind it.
    pub(super) async fn retry_due(&self, work: &mut Work) -> Result<Turn> {
        let (mut due, foreign) = with_timeout(self.due(work)).await?;
        if work.memory.probing {
            let (mut lanes, max) = (Lanes::new(), self.probes_max(work, PROBE_LANES));
            due.retain(|row| lanes.len() < max && lanes.insert(self.route.ordering.lane(&row.entry)));
            if !due.is_empty() {
                self.note_next_probe(work).await?;
            }
        }
        work.parked.tried += due.len();
        if due.is_empty() && foreign.is_empty() {
            work.parked.next_due = work.parked.next_due.max(Some(Instant::now() + LANE_WAIT)); // its lane is not in order yet
            return Ok(Turn::Moved);
        }
        let send = due.iter().map(|row| &row.entry).collect();
        let Sent { receipts, effects, .. } = self.deliver(send).await?;
        let mut heard = work
            .memory
            .hear(self.route.probe, due.iter().map(|row| row.entry.id).zip(&receipts));
        let tried: Vec<Tried<'_>> = due.iter().zip(receipts).map(|one| heard.tried(one)).collect();
        let mut settlement = self.judge().retried(&tried);
        work.memory.evidence.forget(&settlement.dead);
        settlement.unpark.extend(foreign.iter().map(Parked::identity));
        settlement.left.extend(foreign.iter().map(|row| row.entry.event.key()));
        self.settle_retried(work, effects, settlement).await?;
        if let Some(outage) = heard.outage.take() {
            self.pause_retries(work, &heard, outage.says).await?;
        }
        Ok(Turn::Moved)
    }

    /// Nothing but `Unavailable` was answered to what was retried: unless the entries themselves are to blame, it may be an outage.
    /// The log goes on meanwhile, with one entry to see.
    async fn pause_retries(&self, work: &mut Work, heard: &Heard, reason: String) -> Result<()> {
        if heard.blames.values().any(|blame| *blame == Blame::Entry) {
            return Ok(());
        }
        work.memory.retry_at = Some(Instant::now() + heard.pauses.unknown);
        match heard
            .blames
            .values()
            .all(|blame| matches!(blame, Blame::Suspect { .. }))
        {
            true => work.memory.probing = true,
            false => self.is_unavailable(work, reason, heard.wait).await?,
        }
        Ok(())
    }

    /// Parked entries whose time has come, and those among them that are not for this route.
    async fn due(&self, work: &mut Work) -> Result<(Vec<Parked>, Vec<Parked>)> {
        let tx = table::look(self.pages.outbox().db()).await?;
        let limit = match work.memory.probing {
            true => self.probes_max(work, self.route.batch), // one: that which has waited longest
            false => self.route.batch,
        };
        let limit = DUE_MAX.min(limit as u64);
        let mut due = parked::due(&tx, &self.shard, self.route.ordering, limit).await?.rows;
        let foreign = self.foreign(&tx, &mut due).await?;
        work.parked.next_due = parked::due_in(&tx, &self.shard)
            .await?
            .map(|wait| Instant::now() + wait);
        tx.commit().await?;
        Ok((due, foreign))
    }

    /// Takes out what is not for this route: a replay parks whatever its range holds, and that leaves again, undelivered. All
    /// else was once taken by this route, and is delivered even if its filter has changed since.
    async fn foreign(&self, tx: &Tx, due: &mut Vec<Parked>) -> Result<Vec<Parked>> {
        let is_foreign = |row: &Parked| !self.route.filter.matches(&row.entry.event.event_type);
        let ids: Vec<i64> = due
            .iter()
            .filter(|row| is_foreign(row))
            .map(|row| row.entry.id)
            .collect();
        let replayed = parked::replayed(tx, &self.route.name, &ids).await?;
        Ok(due.extract_if(.., |row| replayed.contains(&row.entry.id)).collect())
    }
}
