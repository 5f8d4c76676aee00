//! A worker: the loop that works one shard of a route while this process holds its lease.

mod breaker;
mod delivery;
mod evidence;
mod feeding;
mod joining;
mod progress;
mod retry;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::breaker::Down;
use self::delivery::Sent;
use self::evidence::Evidence;
use self::feeding::Stage;
use crate::error::{ErrorKind, Result};
use crate::event::entry::{Entry, Position};
use crate::policy::ordering::{Lanes, Ordering};
use crate::relay::backoff::Backoff;
use crate::relay::delivery::pair;
use crate::relay::health::{Counts, Health, Worker};
use crate::relay::judge::Judge;
use crate::relay::page_cache::{PageCache, Slice};
use crate::route::Route;
use crate::state::cursor::{self, Changes, Lease, Move, Shard};
use crate::state::feeding::Feeding;
use crate::state::outage::{self, Side};
use crate::state::parked::{self, PARKED_MAX};
use crate::store::outbox::{Pulse, with_timeout};
use crate::store::table;
use crate::subscriber::HandlerPool;

/// About how many bytes are delivered together: each route has so much in memory, several times if it has to be parked.
const BATCH_BYTES: usize = 1 << 20;
/// Progress over entries that were not for this route is written down this often.
const LAZY_SETTLE: Duration = Duration::from_secs(1);
/// And over entries that a destination has: so much of them it gets again after a crash.
const SOON_SETTLE: Duration = Duration::from_millis(50);

/// The worker of one shard, with the channels that wake it.
#[derive(Debug)]
pub(crate) struct ShardWorker {
    pub(crate) name: Worker,
    pub(crate) route: Arc<Route>,
    pub(crate) shard: Shard,
    pub(crate) pages: Arc<PageCache>,
    pub(crate) lease: watch::Receiver<Option<Lease>>,
    pub(crate) pulse: watch::Receiver<Pulse>,
    pub(crate) changes: watch::Receiver<Changes>,
    pub(crate) health: Arc<Health>,
    pub(crate) joined: watch::Receiver<HashMap<String, i64>>,
    pub(crate) handlers: HandlerPool,
    /// How a broker feeds the route, if one does.
    pub(crate) feeding: Option<Arc<Feeding>>,
}

/// A worker spends no more than one part in so many of its time on reading its state again, however often it is changed.
const RELOAD_SHARE: u32 = 5;
/// A probe of a destination that may be away: one entry, and if it is unavailable one of each of so many other lanes, because one
/// entry can be unavailable by itself.
const PROBE_LANES: usize = 8;

/// A destination that needs longer to say that it is unavailable does not answer at all: that is an outage at once, not only the second
/// time.
const SILENT_MAX: Duration = Duration::from_secs(2);

/// The state of the work. Rebuilt from the database whenever there is doubt.
#[derive(Debug)]
struct Work {
    epoch: i64,
    /// The database server that all this was read from.
    server: Arc<str>,
    log: LogProgress,
    parked: ParkedRows,
    seen: Seen,
    /// The outage of the destination, as the store has it.
    down: Option<Down>,
    /// The current feed of the route.
    stage: Stage,
    memory: Memory,
}

/// How far the worker has come in the log.
#[derive(Debug)]
struct LogProgress {
    position: Position,
    /// The position in the cursor's row.
    settled: Position,
    settled_at: Instant,
    /// Entries delivered since then.
    unsettled: u64,
}

/// The worker's knowledge of the shard's parked rows.
#[derive(Debug)]
struct ParkedRows {
    /// Lanes that stand still.
    lanes: Lanes,
    /// About how many rows the shard has parked by itself.
    failed: u64,
    /// Every lane's first row is due or held.
    is_arranged: bool,
    /// How many rows were tried since the state was read.
    tried: usize,
    next_due: Option<Instant>,
}

/// Which changes by operators the worker has seen.
#[derive(Debug)]
struct Seen {
    is_paused: bool,
    /// The route's number when the state was read.
    version: i64,
    /// The route's number when `is_paused` was read.
    pause_version: i64,
    /// The state is not read again before this.
    reload_at: Instant,
}

/// The memory of a worker while it holds its lease. It survives a reload of the state.
#[derive(Debug, Default)]
struct Memory {
    /// The log's head when the last turn began.
    head: i64,
    /// The last turn went to parked entries; the next one is the log's, so that neither starves the other.
    retried: bool,
    /// The destination was unavailable: send one entry and see.
    probing: bool,
    evidence: Evidence,
    /// The waits between retries while nothing but `Unavailable` is answered to them.
    pause: Backoff,
    /// No parked entry is tried before.
    retry_at: Option<Instant>,
}

enum Turn {
    Moved,
    Idle,
    Down,
}

impl ShardWorker {
    /// Works the shard whenever the lease is ours, until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<()> {
        self.health.stands_by(&self.name);
        while let Some(epoch) = self.leased(&stop).await {
            self.until_joined(epoch, &stop).await;
            tracing::info!(route = %self.route.name, shard = self.shard.number, epoch, "lease taken");
            self.health.works(&self.name);
            self.hold(epoch, &stop).await;
            self.health.left(&self.name);
        }
        Ok(())
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
                None => match with_timeout(self.load(epoch)).await {
                    Ok(loaded) => {
                        work = Some(loaded);
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Some(work) => self.turn(work).await,
            };
            match turn {
                // Entries that moved while the destination is down have not reached it.
                Ok(Turn::Moved) if work.as_ref().is_some_and(|work| work.memory.probing) => {}
                Ok(Turn::Moved) => backoff.reset(),
                Ok(Turn::Idle) => {
                    if let Some(work) = &work {
                        self.wait(work, stop).await;
                    }
                }
                Ok(Turn::Down) if work.as_ref().is_some_and(Work::waits) => {} // the next turn waits for the probe
                Ok(Turn::Down) => backoff.wait(stop).await,
                Err(error) if error.kind() == ErrorKind::Deposed => {
                    tracing::warn!(route = %self.route.name, shard = self.shard.number, epoch, "deposed; stopping");
                    self.wait_for_other_lease(epoch, stop).await;
                    return;
                }
                Err(error) => {
                    tracing::warn!(route = %self.route.name, shard = self.shard.number, error = error.report(), "relay turn failed");
                    self.health.failed(&self.name, &error);
                    work = None; // whether a commit that failed has happened is the database's to say
                    self.pages.clear(); // and so is whether it is still the same history
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

    /// The route's number: it grows with each change.
    fn version(&self) -> i64 {
        self.changes.borrow().version(&self.shard.route)
    }

    async fn load(&self, epoch: i64) -> Result<Work> {
        let (version, begun) = (self.version(), Instant::now());
        let tx = table::begin_own(self.pages.outbox().db()).await?;
        cursor::fence(&tx, &self.shard, epoch).await?; // operators change what is parked under this lock
        let stage = self.stage(&tx, version).await?;
        let cursor = cursor::read(&tx, &self.shard).await?;
        let arranged = parked::arrange_all(&tx, &self.shard, self.route.ordering).await?;
        let down = outage::read(&tx, &self.shard, Side::Delivery).await?;
        let next_due = parked::due_in(&tx, &self.shard).await?;
        let work = Work {
            epoch,
            server: cursor.server.into(),
            log: LogProgress {
                position: cursor.position,
                settled: cursor.position,
                settled_at: Instant::now(),
                unsettled: 0,
            },
            parked: ParkedRows {
                lanes: arranged.lanes,
                failed: arranged.failed,
                is_arranged: arranged.is_whole,
                tried: 0,
                next_due: next_due.map(|wait| Instant::now() + wait),
            },
            seen: Seen {
                is_paused: cursor.is_paused,
                version,
                pause_version: version,
                reload_at: Instant::now() + RELOAD_SHARE * begun.elapsed(),
            },
            memory: Memory {
                probing: down.is_some(),
                ..Memory::default()
            },
            down: down.map(|recorded| Down::read(recorded, self.route.probe)),
            stage,
        };
        tx.commit().await?;
        Ok(work)
    }

    /// Sleeps until there may be something to do.
    async fn wait(&mut self, work: &Work, stop: &CancellationToken) {
        let lazy = (work.log.position != work.log.settled).then(|| work.settle_at());
        let probe = work.waits_until().filter(|_| !work.seen.is_paused);
        let due = work.retry_at().filter(|_| !work.seen.is_paused && probe.is_none());
        let changed = (self.version() != work.seen.version).then_some(work.seen.reload_at);
        // Without a live lease there is nothing to do in time; a renewal wakes the worker.
        let look = work.look_at().filter(|_| !work.seen.is_paused);
        let is_joining = self.feeding.is_some() && work.stage.is_joining();
        let until = lazy
            .into_iter()
            .chain(due)
            .chain(probe)
            .chain(changed)
            .chain(look)
            .min();
        let until = until.filter(|_| self.is_live());
        let (head, version) = (work.memory.head, self.version());
        let sleep = async {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        let mut is_news = false;
        tokio::select! {
            () = stop.cancelled() => {}
            _ = self.pulse.wait_for(|pulse| pulse.head != head) => is_news = true,
            _ = self.changes.wait_for(|changes| changes.version(&self.shard.route) != version) => {}
            _ = self.lease.changed() => {}
            _ = self.joined.changed(), if is_joining => {}
            () = sleep => {}
        }
        if is_news && !self.route.linger.is_zero() {
            stop.run_until_cancelled(tokio::time::sleep(self.route.linger)).await;
        }
    }

    /// One step: what is due again, else the next slice of the log.
    async fn turn(&mut self, work: &mut Work) -> Result<Turn> {
        work.memory.head = self.pulse.borrow().head;
        let has_due = |work: &Work| work.parked.next_due.is_some_and(|due| due <= Instant::now());
        let is_next = |work: &Work| !has_due(work) || work.parked.tried >= parked::DUE_MAX; // those that fail again starve no others
        let is_changed = self.version() != work.seen.version && Instant::now() >= work.seen.reload_at;
        if is_changed || !work.parked.is_arranged && is_next(work) {
            self.settle_lazily(work, true).await?;
            let memory = std::mem::take(&mut work.memory);
            *work = with_timeout(self.load(work.epoch)).await?;
            work.memory = memory;
        }
        self.look_for_pause(work).await?;
        if !self.is_live() {
            return Ok(Turn::Idle); // the lease keeper renews or somebody else takes over
        }
        if work.seen.is_paused {
            self.health.moved(&self.name, Counts::default());
            return Ok(Turn::Idle);
        }
        self.follow_feed(work).await?;
        if work.waits_until().is_some() {
            self.health.behind(&self.name, work.reason());
            self.settle_lazily(work, false).await?;
            return Ok(Turn::Idle);
        }
        let is_due = work.is_due();
        work.memory.retried = is_due && !work.memory.retried;
        let turn = match work.memory.retried {
            true => self.retry_due(work).await?,
            false => self.read_on(work).await?,
        };
        let is_at_rest = matches!(turn, Turn::Idle) && !is_due && !work.is_retry_paused();
        if is_at_rest || !work.memory.probing {
            self.came_up(work).await?;
        }
        Ok(if matches!(turn, Turn::Idle) && is_due {
            Turn::Moved
        } else {
            turn
        })
    }

    /// A route that was changed is loaded again after a while; whether it was paused counts at once.
    async fn look_for_pause(&self, work: &mut Work) -> Result<()> {
        let version = self.version();
        if version == work.seen.pause_version {
            return Ok(());
        }
        let cursor = with_timeout(async {
            let tx = table::look(self.pages.outbox().db()).await?;
            let cursor = cursor::read(&tx, &self.shard).await?;
            tx.commit().await?;
            Ok(cursor)
        });
        work.seen.is_paused = cursor.await?.is_paused;
        work.seen.pause_version = version;
        Ok(())
    }

    /// The next slice of the log, unless what is parked stands in its way.
    async fn read_on(&self, work: &mut Work) -> Result<Turn> {
        let is_stopped = self.route.ordering == Ordering::Strict && !work.parked.lanes.is_empty();
        if is_stopped || work.parked.failed >= PARKED_MAX {
            self.health.behind(&self.name, work.reason());
            self.settle_lazily(work, false).await?;
            return Ok(Turn::Idle);
        }
        let reading = match work.memory.probing {
            true => self.pages.read_anew(work.log.position).await,
            false => self.pages.read(work.log.position).await,
        };
        let slice = match reading {
            Ok(slice) => slice,
            Err(error) => {
                self.settle_lazily(work, true).await?; // what was delivered before is not to come again
                return Err(error);
            }
        };
        if slice.next() == work.log.position {
            self.health.moved(&self.name, Counts::default());
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
            .filter(|entry| self.route.reads(self.shard.number, entry, work.stage.is_fed()))
            .collect();
        if work.reads_again() {
            entries = with_timeout(self.open(&entries)).await?;
        }
        if entries.is_empty() {
            work.log.position = slice.next();
            self.settle_lazily(work, false).await?;
            return Ok(Turn::Moved);
        }
        let all = entries.len();
        entries.truncate(batch(&entries, self.route.batch));
        let is_free = |entry: &&Entry| {
            work.parked.lanes.is_empty() || !work.parked.lanes.contains(&self.route.ordering.lane(entry))
        };
        let send: Vec<&Entry> = entries.iter().copied().filter(is_free).collect();
        let begun = Instant::now();
        let sent = match work.memory.probing {
            true => self.probe(work, &mut entries, &send).await?,
            false => self.while_reading_ahead(slice, self.deliver(send)).await?,
        };
        let plans = sent.plans(&entries);
        let Sent { receipts, effects, .. } = sent;
        let judged = pair(entries.iter().copied().zip(&plans), receipts);
        let mut settlement = self.judge().page(&judged, &work.parked.lanes);
        if let Some(outage) = settlement.down.take() {
            if !self.may_look_further(work, slice, entries.len() < all).await? {
                match effects {
                    Some(effects) => effects.roll_back(),
                    None => self.settle_lazily(work, true).await?,
                }
                let wait = work.memory.wait(self.route.probe, &outage);
                self.health.behind(&self.name, Some(&outage.says));
                work.memory.probing |= begun.elapsed() >= SILENT_MAX;
                self.is_unavailable(work, outage.says, wait).await?;
                return Ok(Turn::Down);
            }
            settlement = self.judge().past(&judged, &work.parked.lanes);
        }
        let answers = judged
            .iter()
            .filter_map(|(entry, receipt)| Some((entry.id, receipt.as_ref()?)));
        let heard = work.memory.hear(self.route.probe, answers);
        work.memory.evidence.forget(&settlement.dead);
        let position = match judged.get(..settlement.settled).and_then(<[_]>::last) {
            Some(_) if settlement.settled == all => slice.next(),
            Some((last, _)) => slice.after(last.id),
            None => return Ok(Turn::Idle),
        };
        match effects {
            None if settlement.is_plain() => self.pass(work, position, settlement.counts()).await?,
            effects => self.settle_page(work, effects, position, settlement).await?,
        }
        self.heed(work, heard).await?;
        Ok(Turn::Moved)
    }

    /// Whether a few entries that a probe found unavailable are put aside, to ask with those behind them: the slice may hold no
    /// others, and an outage puts aside no more than these few.
    async fn may_look_further(&self, work: &Work, slice: &Slice, has_others: bool) -> Result<bool> {
        let memory = &work.memory;
        if !memory.probing || self.route.ordering == Ordering::Strict || memory.evidence.unexplained() >= PROBE_LANES {
            return Ok(false);
        }
        Ok(has_others || self.pages.read(slice.next()).await?.next() != slice.next())
    }

    fn judge(&self) -> Judge<'_> {
        Judge::now(&self.route)
    }
}

/// Pure: how many of these entries are delivered together.
fn batch(entries: &[&Entry], rows_max: usize) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&&Entry| {
        let is_first = bytes == 0;
        bytes += entry.weight();
        is_first || bytes <= BATCH_BYTES
    };
    entries.iter().take(rows_max).take_while(fits).count()
}

impl Work {
    /// When a parked entry is to be tried again.
    fn retry_at(&self) -> Option<Instant> {
        self.parked.next_due.max(self.parked.next_due.and(self.memory.retry_at))
    }

    /// Whether a parked entry is to be tried again now.
    fn is_due(&self) -> bool {
        self.retry_at().is_some_and(|at| at <= Instant::now())
    }

    /// Whether there is something to retry that was unavailable, or that the destination has not been asked with since.
    fn is_retry_paused(&self) -> bool {
        self.parked.next_due.is_some() && (self.memory.retry_at.is_some() || self.has_probe())
    }

    /// Why the destination is down.
    fn reason(&self) -> Option<&str> {
        self.down.as_ref().map(|down| down.reason.as_str())
    }

    /// From where the cursor is to where it should be.
    fn step(&self, to: Position) -> Move {
        Move {
            epoch: self.epoch,
            server: Arc::clone(&self.server),
            from: self.log.settled,
            to,
            is_fed: self.stage.is_fed(),
        }
    }

    fn settled_to(&mut self, position: Position) {
        self.log.position = position;
        self.log.settled = position;
        self.log.settled_at = Instant::now();
        self.log.unsettled = 0;
    }

    /// When progress is to be written down.
    fn settle_at(&self) -> Instant {
        let after = if self.log.unsettled > 0 {
            SOON_SETTLE
        } else {
            LAZY_SETTLE
        };
        self.log.settled_at + after
    }
}
