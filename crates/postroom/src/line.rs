//! A line: the loop that works one shard of a route while this process holds its lease.

mod delivery;
mod progress;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sea_orm::DatabaseTransaction;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::delivery::{all_unavailable, pair};
use crate::backoff::Backoff;
use crate::clock;
use crate::cursor::{self, Lease, Move, Shard};
use crate::destination::Receipt;
use crate::down::{self, Side};
use crate::error::{ErrorKind, Result};
use crate::feed::{Feed, Slice};
use crate::judge::Judge;
use crate::outbox::{Entry, Position, Pulse, answered};
use crate::parked::{self, Parked};
use crate::route::{Lanes, Ordering, Route};
use crate::table;
use crate::vitals::{Counts, Vitals, Worker};

/// A route with this many parked rows reads no further until some are gone: memory and tables stay bounded when a
/// destination refuses everything.
const PARKED_MAX: u64 = 10_000;
/// Parked entries tried in one turn.
const DUE_MAX: u64 = 200;
/// Progress over entries that were not for this route is written down this often.
const LAZY_SETTLE: Duration = Duration::from_secs(1);
/// And over entries that a destination has: so much of them it gets again after a crash.
const SOON_SETTLE: Duration = Duration::from_millis(50);

/// What a line works with, and how it hears of news.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: Worker,
    pub(crate) route: Arc<Route>,
    pub(crate) shard: Shard,
    pub(crate) feed: Arc<Feed>,
    pub(crate) lease: watch::Receiver<Option<Lease>>,
    pub(crate) pulse: watch::Receiver<Pulse>,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) joined: watch::Receiver<HashSet<String>>,
}

/// Where the work stands. Rebuilt from the database whenever there is doubt.
#[derive(Debug)]
struct Work {
    epoch: i64,
    position: Position,
    settled: Position,
    settled_at: Instant,
    /// Delivered since then.
    unsettled: u64,
    lanes: Lanes,
    parked: u64,
    /// Every lane's first row is due or held.
    is_arranged: bool,
    /// How many rows were tried since.
    tried: usize,
    next_due: Option<Instant>,
    is_paused: bool,
    signal: i64,
    /// The destination was down: send one entry and see.
    probing: bool,
    /// What the store says about that.
    down: Option<String>,
    /// The last turn went to parked entries; the next one is the log's, so that neither starves the other.
    retried: bool,
}

enum Turn {
    Moved,
    Idle,
    Down,
}

impl Line {
    /// Works the shard whenever the lease is ours, until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<()> {
        self.vitals.stands_by(&self.name);
        while let Some(epoch) = self.leased(&stop).await {
            self.until_joined(epoch, &stop).await;
            tracing::info!(route = %self.route.name, shard = self.shard.number, epoch, "lease taken");
            self.vitals.works(&self.name);
            self.hold(epoch, &stop).await;
            self.vitals.left(&self.name);
        }
        Ok(())
    }

    /// Waits until the groups that this route awaits have joined.
    async fn until_joined(&mut self, epoch: i64, stop: &CancellationToken) {
        let route = Arc::clone(&self.route);
        let is_missing = |joined: &HashSet<String>| route.awaits.iter().any(|group| !joined.contains(group));
        if is_missing(&self.joined.borrow()) {
            let reason = format!("waits for {} to join", route.awaits.join(", "));
            self.vitals.behind(&self.name, Some(&reason));
            self.record_down(epoch, &reason).await.unwrap_or_else(|error| {
                tracing::debug!(route = %self.route.name, error = error.report(), "that it waits was not written down");
            });
            stop.run_until_cancelled(self.joined.wait_for(|joined| !is_missing(joined)))
                .await;
        }
    }

    /// Waits for the lease; `None` when it is time to stop.
    async fn leased(&mut self, stop: &CancellationToken) -> Option<i64> {
        loop {
            if stop.is_cancelled() {
                return None;
            }
            if let Some(lease) = *self.lease.borrow_and_update() {
                return Some(lease.epoch);
            }
            stop.run_until_cancelled(self.lease.changed()).await?.ok()?;
        }
    }

    /// One tenure: from taking the lease to losing or giving it back.
    async fn hold(&mut self, epoch: i64, stop: &CancellationToken) {
        let mut backoff = Backoff::default();
        let mut work: Option<Work> = None;
        while !stop.is_cancelled() && self.is_ours(epoch) {
            let turn = match &mut work {
                None => match answered(self.load(epoch)).await {
                    Ok(loaded) => {
                        work = Some(loaded);
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Some(work) => self.turn(work).await,
            };
            match turn {
                // What has moved while the destination is down has not reached it.
                Ok(Turn::Moved) if work.as_ref().is_some_and(|work| work.probing) => {}
                Ok(Turn::Moved) => backoff.reset(),
                Ok(Turn::Idle) => self.wait(work.as_ref(), stop).await,
                Ok(Turn::Down) => backoff.wait(stop).await,
                Err(error) if error.kind() == ErrorKind::Deposed => {
                    tracing::warn!(route = %self.route.name, shard = self.shard.number, epoch, "deposed; stopping");
                    self.wait_for_other_lease(epoch, stop).await;
                    return;
                }
                Err(error) => {
                    tracing::warn!(route = %self.route.name, shard = self.shard.number, error = error.report(), "relay turn failed");
                    self.vitals.behind(&self.name, None);
                    work = None; // whether a commit that failed has happened is the database's to say
                    self.feed.clear(); // and so is whether it is still the same history
                    backoff.wait(stop).await;
                }
            }
        }
        if let Some(mut work) = work {
            self.settle_lazily(&mut work, true).await.unwrap_or_else(|error| {
                tracing::debug!(route = %self.route.name, error = error.report(), "last progress was not written; it will be read again");
            });
        }
    }

    /// Whether the lease with this epoch is still ours by our own, cautious clock.
    fn is_ours(&self, epoch: i64) -> bool {
        self.lease.borrow().is_some_and(|lease| lease.epoch == epoch)
    }

    fn is_live(&self) -> bool {
        self.lease.borrow().is_some_and(|lease| Instant::now() < lease.deadline)
    }

    async fn wait_for_other_lease(&mut self, epoch: i64, stop: &CancellationToken) {
        while self.is_ours(epoch) {
            match stop.run_until_cancelled(self.lease.changed()).await {
                Some(Ok(())) => {}
                _ => return,
            }
        }
    }

    async fn load(&self, epoch: i64) -> Result<Work> {
        let signal = self.pulse.borrow().signal;
        let tx = table::begin_own(self.feed.outbox().db()).await?;
        cursor::fence(&tx, &self.shard, epoch).await?; // operators change what is parked under this lock
        let cursor = cursor::read(&tx, &self.shard).await?;
        let arranged = parked::arrange_all(&tx, &self.shard, self.route.ordering).await?;
        let down = down::read(&tx, &self.shard, Side::Delivery).await?;
        let work = Work {
            epoch,
            position: cursor.position,
            settled: cursor.position,
            settled_at: Instant::now(),
            unsettled: 0,
            lanes: arranged.lanes,
            parked: arranged.parked,
            is_arranged: arranged.is_whole,
            tried: 0,
            next_due: parked::due_in(&tx, &self.shard)
                .await?
                .map(|wait| Instant::now() + wait),
            is_paused: cursor.is_paused,
            signal,
            probing: down.is_some(),
            down,
            retried: false,
        };
        tx.commit().await?;
        Ok(work)
    }

    /// Sleeps until there may be something to do.
    async fn wait(&mut self, work: Option<&Work>, stop: &CancellationToken) {
        let lazy = work.filter(|work| work.position != work.settled).map(Work::settle_at);
        let due = work.filter(|work| !work.is_paused).and_then(|work| work.next_due);
        // Without a live lease there is nothing to do in time; a renewal wakes the line.
        let until = lazy.into_iter().chain(due).min().filter(|_| self.is_live());
        let sleep = async {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            _ = self.pulse.changed() => {}
            _ = self.lease.changed() => {}
            () = sleep => {}
        }
    }

    /// One step: what is due again, else the next slice of the log.
    async fn turn(&mut self, work: &mut Work) -> Result<Turn> {
        let signal = self.pulse.borrow_and_update().signal;
        let is_due = |work: &Work| work.next_due.is_some_and(|due| due <= Instant::now());
        let is_next = |work: &Work| !is_due(work) || work.tried >= parked::DUE_MAX; // those that fail again starve no others
        if signal != work.signal || !work.is_arranged && is_next(work) {
            self.settle_lazily(work, true).await?;
            *work = answered(self.load(work.epoch)).await?;
        }
        if !self.is_live() {
            return Ok(Turn::Idle); // the keeper renews or somebody else takes over
        }
        if work.is_paused {
            self.vitals.moved(&self.name, Counts::default());
            return Ok(Turn::Idle);
        }
        let is_due = is_due(work);
        work.retried = is_due && !work.retried;
        let turn = match work.retried {
            true => self.retry_due(work).await?,
            false => self.read_on(work).await?,
        };
        let is_at_rest = matches!(turn, Turn::Idle) && !is_due;
        if is_at_rest || !work.probing {
            self.came_up(work).await?;
        }
        Ok(if matches!(turn, Turn::Idle) && is_due {
            Turn::Moved
        } else {
            turn
        })
    }

    /// The next slice of the log, unless what is parked stands in its way.
    async fn read_on(&self, work: &mut Work) -> Result<Turn> {
        let is_stopped = self.route.ordering == Ordering::Strict && !work.lanes.is_empty();
        if is_stopped || work.parked >= PARKED_MAX {
            self.vitals.behind(&self.name, None);
            self.settle_lazily(work, false).await?;
            return Ok(Turn::Idle);
        }
        let slice = match self.feed.read(work.position).await {
            Ok(slice) => slice,
            Err(error) => {
                self.settle_lazily(work, true).await?; // what was delivered before is not to come again
                return Err(error);
            }
        };
        if slice.next() == work.position {
            self.vitals.moved(&self.name, Counts::default());
            self.settle_lazily(work, false).await?;
            return Ok(Turn::Idle);
        }
        self.advance(work, &slice).await
    }

    /// Delivers what the slice has for this shard and settles it.
    async fn advance(&self, work: &mut Work, slice: &Slice) -> Result<Turn> {
        let mut entries: Vec<&Entry> = slice
            .entries()
            .iter()
            .filter(|entry| self.route.reads(self.shard.number, entry))
            .collect();
        if entries.is_empty() {
            work.position = slice.next();
            self.settle_lazily(work, false).await?;
            return Ok(Turn::Moved);
        }
        let is_whole = entries.len() <= self.route.batch;
        entries.truncate(self.route.batch);
        let is_free = |entry: &&Entry| work.lanes.is_empty() || !work.lanes.contains(&self.route.ordering.lane(entry));
        let send: Vec<&Entry> = entries.iter().copied().filter(is_free).collect();
        let first = if work.probing { 1 } else { send.len() };
        let delivering = self.deliver(send.get(..first).unwrap_or(&send));
        let (receipts, tx) = self.while_reading_ahead(slice, delivering).await?;
        let judged = pair(&entries, &send, receipts);
        let settlement = self.judge().page(&judged, &work.lanes);
        if let Some(reason) = settlement.down {
            if tx.is_none() {
                self.settle_lazily(work, true).await?;
            }
            drop(tx);
            self.went_down(work, reason).await?;
            return Ok(Turn::Down);
        }
        let position = match judged.get(..settlement.settled).and_then(<[_]>::last) {
            Some(_) if is_whole && settlement.settled == entries.len() => slice.next(),
            Some((last, _)) => slice.after(last.id),
            None => return Ok(Turn::Idle),
        };
        match tx {
            None if settlement.is_plain() => self.pass(work, position, settlement.counts()).await?,
            tx => self.settle_page(work, tx, position, settlement).await?,
        }
        Ok(Turn::Moved)
    }

    /// Tries parked entries whose time has come, each with what waits behind it.
    async fn retry_due(&self, work: &mut Work) -> Result<Turn> {
        let (mut due, foreign) = answered(self.due(work)).await?;
        if work.probing {
            due.truncate(1);
        }
        work.tried += due.len();
        if due.is_empty() && foreign.is_empty() {
            return Ok(Turn::Moved);
        }
        let send: Vec<&Entry> = due.iter().map(|row| &row.entry).collect();
        let (receipts, tx) = self.deliver(&send).await?;
        let now = clock::now();
        let is_expired = due
            .iter()
            .any(|row| self.route.retry.is_expired(row.entry.created_at, now));
        if let Some(reason) = all_unavailable(&receipts).filter(|_| !is_expired) {
            drop(tx);
            self.went_down(work, reason).await?;
            return Ok(Turn::Down);
        }
        let judged: Vec<(&Parked, Receipt)> = due.iter().zip(receipts).collect();
        let mut settlement = self.judge().retried(&judged);
        settlement.unpark.extend(foreign.iter().map(|row| row.entry.id));
        settlement.left.extend(foreign.iter().map(|row| row.entry.event.key()));
        self.settle_retried(work, tx, settlement).await?;
        Ok(Turn::Moved)
    }

    /// Parked entries whose time has come, and those among them that are not for this route.
    async fn due(&self, work: &mut Work) -> Result<(Vec<Parked>, Vec<Parked>)> {
        let tx = table::look(self.feed.outbox().db()).await?;
        let mut due = parked::due(&tx, &self.shard, self.route.ordering, self.due_max()).await?;
        let foreign = self.foreign(&tx, &mut due).await?;
        work.next_due = parked::due_in(&tx, &self.shard)
            .await?
            .map(|wait| Instant::now() + wait);
        tx.commit().await?;
        Ok((due, foreign))
    }

    /// Takes out what is not for this route: a replay parks whatever its range holds, and that leaves again, undelivered. All
    /// else was once taken by this route, and is delivered even if its filter has changed since.
    async fn foreign(&self, tx: &DatabaseTransaction, due: &mut Vec<Parked>) -> Result<Vec<Parked>> {
        let is_foreign = |row: &Parked| !self.route.filter.matches(&row.entry.event.event_type);
        let ids: Vec<i64> = due
            .iter()
            .filter(|row| is_foreign(row))
            .map(|row| row.entry.id)
            .collect();
        let replayed = parked::replayed(tx, &self.route.name, &ids).await?;
        Ok(due.extract_if(.., |row| replayed.contains(&row.entry.id)).collect())
    }

    fn due_max(&self) -> u64 {
        DUE_MAX.min(self.route.batch as u64)
    }

    fn judge(&self) -> Judge<'_> {
        Judge {
            route: &self.route,
            now: clock::now(),
            roll: rand::random(),
        }
    }
}

impl Work {
    /// From where the cursor is to where it should be.
    fn step(&self, to: Position) -> Move {
        Move {
            epoch: self.epoch,
            from: self.settled,
            to,
        }
    }

    fn settled_to(&mut self, position: Position) {
        self.position = position;
        self.settled = position;
        self.settled_at = Instant::now();
        self.unsettled = 0;
    }

    /// When progress is to be written down.
    fn settle_at(&self) -> Instant {
        let after = if self.unsettled > 0 { SOON_SETTLE } else { LAZY_SETTLE };
        self.settled_at + after
    }
}
