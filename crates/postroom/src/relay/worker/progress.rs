//! The writes of a worker: progress, parked rows, dead letters.

use std::time::Instant;

use super::{ShardWorker, Work};
use crate::error::Result;
use crate::event::entry::Position;
use crate::policy::ordering::{Lane, Ordering};
use crate::relay::consumer;
use crate::relay::health::Counts;
use crate::relay::judge::Settlement;
use crate::relay::settle::{Place, settle_page, settle_retried};
use crate::route::{Source, To};
use crate::state::cursor::{self, Move};
use crate::state::parked::Parking;
use crate::store::outbox::with_timeout;
use crate::store::table;
use crate::store::tx::Tx;
use crate::subscriber::effects::OpenEffects;

impl ShardWorker {
    /// Goes on behind entries that were all delivered, and writes that down when it is time.
    pub(super) async fn pass(&self, work: &mut Work, position: Position, counts: Counts) -> Result<()> {
        work.log.position = position;
        work.log.unsettled += counts.delivered;
        self.health.moved(&self.name, counts);
        self.settle_lazily(work, false).await
    }

    /// Writes down what was passed, before something is written that may fail: it would come again as often as that does.
    pub(super) async fn settle_passed(&self, work: &mut Work) -> Result<()> {
        if work.log.unsettled == 0 {
            return Ok(()); // also whenever a subscriber's transaction is open
        }
        self.settle_lazily(work, true).await
    }

    pub(super) async fn settle_page(
        &self,
        work: &mut Work,
        effects: Option<OpenEffects>,
        position: Position,
        settlement: Settlement,
    ) -> Result<()> {
        self.settle_passed(work).await?;
        let parked = settlement.park.len() as u64;
        let counts = settlement.counts();
        let soonest = settlement
            .park
            .iter()
            .filter(|row| row.state == Parking::Retry)
            .map(|row| row.delay)
            .min();
        let blocked: Vec<Lane> = settlement.blocked.clone();
        let step = work.step(position);
        let settled = settle_page(self.begun(effects).await?, self.place(&step), settlement).await?;
        work.settled_to(position);
        work.parked.is_arranged &= !settled.is_changed;
        work.parked.failed += parked;
        if self.route.ordering != Ordering::None {
            work.parked.lanes.extend(blocked);
        }
        if let Some(delay) = soonest {
            let due = Instant::now() + delay;
            work.parked.next_due = Some(work.parked.next_due.map_or(due, |known| known.min(due)));
        }
        self.health.moved(&self.name, counts);
        Ok(())
    }

    pub(super) async fn settle_retried(
        &self,
        work: &mut Work,
        effects: Option<OpenEffects>,
        settlement: Settlement,
    ) -> Result<()> {
        self.settle_passed(work).await?;
        let (gone, counts) = (settlement.unpark.len() as u64, settlement.counts());
        let counts = Counts {
            retried: counts.delivered + counts.failed,
            ..counts
        };
        let step = work.step(work.log.position);
        let effects = self.begun(effects).await?;
        let (settled, waiting) = settle_retried(effects, self.place(&step), settlement).await?;
        work.settled_to(work.log.position);
        work.parked.next_due = waiting.next_due.map(|wait| Instant::now() + wait);
        work.parked.failed = work.parked.failed.saturating_sub(gone);
        work.parked.is_arranged &= !settled.is_changed;
        if let Some(lanes) = waiting.lanes {
            work.parked.lanes = lanes;
        }
        for key in settled.freed {
            work.parked.lanes.remove(&Lane::Key(key));
        }
        match gone {
            0 => self.health.tried(&self.name, counts),
            _ => self.health.moved(&self.name, counts),
        }
        if let (Source::Broker { broker, .. }, To::Subscriber(subscriber)) = (&self.route.from, &self.route.to) {
            consumer::bury(&**broker, &consumer::letters(subscriber, &settled.dead)).await;
        }
        Ok(())
    }

    fn place<'a>(&'a self, step: &'a Move) -> Place<'a> {
        Place {
            shard: &self.shard,
            ordering: self.route.ordering,
            step,
            has_consumer: self.feeding.is_some(),
        }
    }

    /// The transaction that holds effects, or a new one.
    async fn begun(&self, effects: Option<OpenEffects>) -> Result<OpenEffects> {
        match effects {
            Some(effects) => Ok(effects),
            None => with_timeout(OpenEffects::without_effects(self.pages.outbox().db())).await,
        }
    }

    /// Writes down progress that nothing else was to be written with, if that is due or it `must` be.
    pub(super) async fn settle_lazily(&self, work: &mut Work, must: bool) -> Result<()> {
        if work.log.position == work.log.settled || !must && Instant::now() < work.settle_at() {
            return Ok(());
        }
        with_timeout(async {
            let tx = table::begin_own(self.pages.outbox().db()).await?;
            cursor::advance(&tx, &self.shard, &work.step(work.log.position), work.log.unsettled).await?;
            commit(tx).await
        })
        .await?;
        work.settled_to(work.log.position);
        Ok(())
    }
}

pub(super) async fn commit(tx: Tx) -> Result<()> {
    tx.commit().await
}
