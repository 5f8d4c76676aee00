//! The run with failures: handlers and destinations refuse, reject, panic, hang on a lock and go away; keys are held; an operator
//! retries, discards and replays meanwhile; scheduled events come, retention removes; and two relay processes are killed and
//! paused in turn. The checker knows what each of these may and may not do.
//!
//! `postroom verify --failures` and the fault tests run the same.

mod check;
mod counts;
mod fate;
mod faults;
mod journal;
mod operator;
mod work;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postroom::table::{Table as PlatformTable, named};
use postroom::{
    Broker, Dead, Delays, Destination, DomainEvent, Error, ErrorKind, Filter, Idempotency, Inspect, Job, Mode, Outbox,
    Prune, Relay, Result, Retry, Route, Start, Subscriber, To, Topic,
};
use sea_orm::sea_query::{Alias, ColumnDef, Expr, ExprTrait, Query, Table};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::check::{Acts, Repeats, Rule};
pub use self::counts::Counts;
use self::faults::Relays;
pub use self::faults::is_in_the_middle;
pub use self::journal::Journal;
use self::operator::Operator;
use self::work::{Flaky, LOCK, Recording, Script, Worker};
use crate::history::{Findings, Truth};
use crate::process::Process;
use crate::trial::Outcome;
use crate::verify::{LEASE, effects, forget};
use crate::workload::{Change, Tally, Workload};

/// Writers rest while a group is this many events behind.
const BEHIND_MAX: u64 = 600;
/// Between two looks at how far the groups are.
const BURST: Duration = Duration::from_millis(500);
/// A run that has not moved for this long will not move any more. The claim of a process that was killed in a job lasts a minute.
const QUIET_MAX: Duration = Duration::from_secs(100);
/// Number of faults that are explained.
const WORDS_MAX: usize = 20;
/// Retention removes events that are older.
const KEEP: Duration = Duration::from_secs(15);

/// A receiver of the events; each has its own rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// A subscriber with an inbox; a dead letter holds its key.
    Inbox,
    /// A subscriber with an inbox, in batches; a key goes on without its dead letters.
    Skip,
    /// A subscriber that must stand repetitions.
    Upsert,
    /// A subscriber without any memory, fed by the outbox: one effect by the fence alone. Nothing is replayed to it.
    Natural,
    /// A destination, which gets each event at least once.
    Sink,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Inbox, Self::Skip, Self::Upsert, Self::Natural, Self::Sink];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Skip => "skip",
            Self::Upsert => "upsert",
            Self::Natural => "natural",
            Self::Sink => "sink",
        }
    }

    fn slot(self) -> usize {
        Self::ALL.into_iter().position(|group| group == self).unwrap_or(0)
    }

    /// Whether a broker feeds it, if there is one.
    fn is_fed(self) -> bool {
        matches!(self, Self::Inbox | Self::Skip | Self::Upsert)
    }

    fn rule(self, has_broker: bool) -> Rule {
        let is_fed = has_broker && self.is_fed();
        Rule {
            repeats: match self {
                Self::Inbox | Self::Skip | Self::Natural => Repeats::Never,
                Self::Upsert if is_fed => Repeats::Always,
                Self::Upsert => Repeats::Replayed,
                Self::Sink => Repeats::Always,
            },
            skips: self == Self::Skip,
            replay_disorders: is_fed,
        }
    }

    fn dead(self) -> Dead {
        match self {
            Self::Skip => Dead::Skip,
            Self::Inbox | Self::Upsert | Self::Natural | Self::Sink => Dead::Hold,
        }
    }

    fn idempotency(self) -> Idempotency {
        match self {
            Self::Inbox | Self::Skip => Idempotency::Inbox,
            Self::Upsert => Idempotency::Upsert,
            Self::Natural | Self::Sink => Idempotency::Natural,
        }
    }
}

/// One run with failures on a database.
#[derive(Clone, Debug)]
pub struct Failures {
    /// The writers; the seed also decides which events fail.
    pub workload: Workload,
    /// The broker that feeds the subscribers, but for the natural one.
    pub through: Option<Arc<dyn Broker>>,
    /// Where the relay processes of the run keep their journals.
    pub folder: PathBuf,
}

impl Failures {
    /// Makes the tables.
    pub async fn prepare(&self, store: &dyn Inspect) -> Result<()> {
        self.workload.prepare(store.db()).await?;
        effects::create(store.db()).await?;
        let doing = |source| Error::db("make the table of locks", source);
        let mut create = Table::create();
        create
            .table(Alias::new(LOCK))
            .if_not_exists()
            .col(
                ColumnDef::new(Alias::new("key"))
                    .string_len(100)
                    .not_null()
                    .primary_key(),
            )
            .col(ColumnDef::new(Alias::new("count")).big_integer().not_null());
        store.db().execute(&create).await.map_err(doing)?;
        let mut insert = Query::insert();
        insert
            .into_table(Alias::new(LOCK))
            .columns(["key", "count"].map(Alias::new))
            .values_panic([self.workload.prefix.as_str().into(), 0_i64.into()]);
        store.db().execute(&insert).await.map_err(doing)?;
        Ok(())
    }

    /// The relay of one process of the run.
    pub fn relay(&self, store: &Arc<dyn Inspect>, journal: Journal) -> Relay {
        let journal = Arc::new(journal);
        let outbox: Arc<dyn Outbox> = Arc::<dyn Inspect>::clone(store);
        let mut relay = Relay::new(outbox).lease_ttl(LEASE).job(retention());
        let db = store.db();
        for group in [Group::Inbox, Group::Skip, Group::Upsert, Group::Natural] {
            let subscriber = self.subscriber(group, db.get_database_backend(), &journal);
            relay = relay.route(match &self.through {
                Some(broker) if group.is_fed() => {
                    subscriber.fed_by(Arc::clone(broker), vec![self.topic()], Filter::all())
                }
                _ => subscriber.into_route(),
            });
        }
        let recording: Arc<dyn Destination> = Arc::new(Recording {
            who: Group::Sink.name(),
            db: db.clone(),
        });
        let sink = self.destination(Group::Sink.name(), recording, &journal);
        relay = relay.route(Route {
            dead: Group::Sink.dead(),
            retry: retry(Some(4)),
            ..sink
        });
        match &self.through {
            None => relay,
            Some(broker) => relay.route(self.publishing(&**broker, &journal)),
        }
    }

    fn subscriber(&self, group: Group, backend: DbBackend, journal: &Arc<Journal>) -> Subscriber {
        let worker = || Worker {
            group,
            script: self.script(group.name(), journal),
        };
        let (name, pattern) = (self.route(group.name()), Change::TYPE);
        let subscriber = match group {
            Group::Skip => Subscriber::in_batches(name, [pattern], worker()),
            _ => Subscriber::matching(name, [pattern], worker()),
        };
        Subscriber {
            start: Start::Head,
            joins_at: Start::Beginning, // of the topic, which is this run's own
            idempotency: group.idempotency(),
            retry: retry(Some(4)),
            dead: group.dead(),
            shards: 2,
            timeout: match (group, backend) {
                // Its transaction may outlive its lease: then only the fence keeps it from a second effect.
                (Group::Natural, _) => subscriber.timeout,
                // A handler that hangs keeps the one write lock of the file.
                (_, DbBackend::Sqlite) => Duration::from_millis(500),
                _ => Duration::from_secs(1),
            },
            ..subscriber
        }
    }

    fn destination(&self, who: &'static str, inner: Arc<dyn Destination>, journal: &Arc<Journal>) -> Route {
        let flaky = Flaky {
            script: self.script(who, journal),
            inner,
        };
        Route {
            start: Start::Head,
            filter: Filter::any_of([Change::TYPE]),
            batch: 100,
            ..Route::new(self.route(who), To::Destination(Arc::new(flaky)))
        }
    }

    /// The route that publishes what subscribers get from the broker. Nothing is given up there: whatever it refuses is tried
    /// again for as long as the run lasts.
    fn publishing(&self, broker: &dyn Broker, journal: &Arc<Journal>) -> Route {
        let topic: Topic = self.topic().parse().unwrap_or_default();
        let publisher = broker.publisher(topic, Mode::Binary);
        let fed = Group::ALL.into_iter().filter(|group| group.is_fed());
        Route {
            awaits: fed.map(|group| self.route(group.name())).collect(),
            retry: retry(None),
            ..self.destination(PUBLISH, publisher, journal)
        }
    }

    fn script(&self, who: &'static str, journal: &Arc<Journal>) -> Script {
        Script {
            who,
            seed: self.workload.seed,
            prefix: self.workload.prefix.clone(),
            journal: Arc::clone(journal),
        }
    }

    /// The topic of a run through a broker; it must be there.
    pub fn topic(&self) -> String {
        format!("verify-{}", self.workload.prefix)
    }

    /// The groups that a broker feeds, if there is one.
    pub fn fed_groups(&self) -> Vec<String> {
        let fed = Group::ALL.into_iter().filter(|group| group.is_fed());
        fed.map(|group| self.route(group.name())).collect()
    }

    fn route(&self, who: &str) -> String {
        format!("verify-{}{who}", self.workload.prefix)
    }

    fn routes(&self) -> Vec<String> {
        let groups = Group::ALL.into_iter().map(Group::name);
        groups.chain([PUBLISH]).map(|who| self.route(who)).collect()
    }

    /// Runs for this long with relay processes that `spawn` starts, waits until all is done that will be, and checks. `tell` hears
    /// how far it is.
    pub async fn run(
        &self,
        (store, writers): (&dyn Inspect, &DatabaseConnection),
        length: Duration,
        spawn: &(dyn Fn() -> Result<Process> + Sync),
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<Outcome> {
        let stop = CancellationToken::new();
        let mut relays = Relays::start(self, store, spawn)?;
        self.until_registered(store.db()).await?;
        let mut operator = Operator::new(self, store);
        let faulting = async {
            let faulted = relays.fault(length, tell).await;
            stop.cancel();
            faulted
        };
        let (tally, faulted, (), ()) = tokio::join!(
            Box::pin(self.write(writers, store.db(), &stop)),
            faulting,
            operator.run(&stop),
            self.hold_lock(writers, &stop)
        );
        let tally = tally?;
        faulted?;
        tell("waiting for the last effects");
        let (findings, mut words, truth) = Box::pin(self.finish(store, &mut operator)).await?;
        let mut counts = operator.counts().await?;
        counts.interrupted = relays.interrupted;
        counts.paused = relays.paused;
        counts.scheduled = truth.keys().filter(|key| self.is_scheduled(key)).count() as u64;
        counts.add_failures(&self.folder);
        words.truncate(WORDS_MAX);
        Ok(Outcome {
            findings,
            words,
            tally,
            relay_kills: relays.kills,
            failures: Some(counts),
        })
    }

    /// Waits until a relay has registered every route: what is written from now on is for them.
    async fn until_registered(&self, db: &DatabaseConnection) -> Result<()> {
        let begun = Instant::now();
        let wanted = self.routes().len() - usize::from(self.through.is_none());
        loop {
            let mut select = Query::select();
            select
                .distinct()
                .column("route")
                .from(named(db, PlatformTable::Cursor))
                .and_where(Expr::col("route").is_in(self.routes()));
            let found = db
                .query_all(&select)
                .await
                .map_err(|source| Error::db("look for the routes of the run", source))?;
            if found.len() == wanted {
                return Ok(());
            }
            if begun.elapsed() > Duration::from_secs(30) {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "no relay has registered the routes of this run within 30 s",
                ));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes in bursts, as fast as the slowest group can follow.
    async fn write(
        &self,
        db: &DatabaseConnection,
        store: &DatabaseConnection,
        stop: &CancellationToken,
    ) -> Result<Tally> {
        let mut total = Tally::default();
        for burst in 0.. {
            let workload = Workload {
                seed: self.workload.seed.wrapping_add(burst << 32),
                ..self.workload.clone()
            };
            let pause = stop.child_token();
            let (tally, ()) = tokio::join!(workload.run(db, &pause), async {
                stop.run_until_cancelled(sleep(BURST)).await;
                pause.cancel();
            });
            total.add(tally?);
            while !stop.is_cancelled() && self.behind(store).await.unwrap_or(0) > BEHIND_MAX {
                stop.run_until_cancelled(sleep(BURST)).await;
            }
            if stop.is_cancelled() {
                break;
            }
        }
        Ok(total)
    }

    /// How many events the slowest group is behind, about.
    async fn behind(&self, db: &DatabaseConnection) -> Result<u64> {
        let committed: u64 = self.workload.truth(db).await?.values().copied().map(u64::from).sum();
        let counts = effects::count_each(db, &self.workload.prefix).await?;
        let slowest = [Group::Inbox, Group::Skip, Group::Natural]
            .into_iter()
            .map(|group| counts.get(group.name()).copied().unwrap_or(0))
            .min();
        // Some of them were discarded.
        Ok(committed.saturating_sub(slowest.unwrap_or(0) + committed / 100))
    }

    /// Holds the lock on which handlers hang, most of the time.
    async fn hold_lock(&self, db: &DatabaseConnection, stop: &CancellationToken) {
        while db.get_database_backend() != DbBackend::Sqlite && !stop.is_cancelled() {
            if let Err(error) = self.hold_lock_once(db, stop).await {
                tracing::debug!(error = error.report(), "the lock was not held");
            }
            stop.run_until_cancelled(sleep(Duration::from_millis(100))).await;
        }
    }

    async fn hold_lock_once(&self, db: &DatabaseConnection, stop: &CancellationToken) -> Result<()> {
        let tx = postroom::table::begin(db).await?;
        work::lock(&tx, &self.workload.prefix).await?;
        stop.run_until_cancelled(sleep(Duration::from_secs(3))).await;
        tx.rollback().await
    }

    /// Waits until nothing is left to do, or nothing has moved for a while, and checks. The operator goes on deciding.
    async fn finish(&self, store: &dyn Inspect, operator: &mut Operator<'_>) -> Result<(Findings, Vec<String>, Truth)> {
        let (mut pending_min, mut effects_max, mut moved_at) = (u64::MAX, 0, Instant::now());
        loop {
            operator.decide().await;
            operator.replay_once().await?;
            let pending = operator.pending().await?;
            let effects = effects::count(store.db(), &self.workload.prefix).await?;
            if pending < pending_min || effects > effects_max {
                moved_at = Instant::now();
            }
            (pending_min, effects_max) = (Ord::min(pending_min, pending), Ord::max(effects_max, effects));
            let is_over = moved_at.elapsed() > QUIET_MAX;
            if pending == 0 || is_over {
                let checked = self.check(store.db(), operator).await?;
                if checked.0.lost == 0 || is_over {
                    sleep(LEASE).await; // what comes although it must not comes by then
                    return self.check(store.db(), operator).await;
                }
            }
            sleep(BURST / 2).await;
        }
    }

    async fn check(&self, db: &DatabaseConnection, operator: &Operator<'_>) -> Result<(Findings, Vec<String>, Truth)> {
        let truth = self.workload.truth(db).await?;
        let histories = effects::histories(db, &self.workload.prefix).await?;
        let mut acts: HashMap<Group, Acts> = operator.acts().await?;
        let (mut total, mut words) = (Findings::default(), Vec::new());
        total.events = truth.values().copied().map(u64::from).sum();
        for group in Group::ALL {
            let history = histories.get(group.name()).cloned().unwrap_or_default();
            let rule = group.rule(self.through.is_some());
            let acts = acts.remove(&group).unwrap_or_default();
            let (found, said) = check::check(group.name(), rule, &truth, &history, &acts);
            total.lost += found.lost;
            total.phantom += found.phantom;
            total.double_effects += found.double_effects;
            total.order_violations += found.order_violations;
            words.extend(said);
        }
        Ok((total, words, truth))
    }

    /// Whether a key is that of a scheduled event.
    fn is_scheduled(&self, key: &str) -> bool {
        let rest = key.strip_prefix(&self.workload.prefix);
        rest.is_some_and(|rest| rest.starts_with("-s"))
    }

    /// Forgets the routes, removes their dead letters and drops the tables of all runs. The relays must be gone.
    pub async fn remove(&self, store: &dyn Inspect) -> Result<()> {
        for route in self.routes() {
            forget(store, &route).await?;
        }
        let mut delete = Query::delete();
        delete
            .from_table(named(store.db(), PlatformTable::Failed))
            .and_where(Expr::col("route").is_in(self.routes()));
        store
            .db()
            .execute(&delete)
            .await
            .map_err(|source| Error::db("remove the dead letters of the run", source))?;
        Workload::remove(store.db()).await?;
        effects::remove(store.db()).await?;
        let mut drop = Table::drop();
        drop.table(Alias::new(LOCK)).if_exists();
        store
            .db()
            .execute(&drop)
            .await
            .map_err(|source| Error::db("drop the table of locks", source))?;
        Ok(())
    }
}

/// The route to the broker.
const PUBLISH: &str = "publish";

fn retry(attempts_max: Option<u32>) -> Retry {
    Retry {
        delays: Delays::Fixed(Duration::from_millis(200)),
        attempts_max,
        age_max: None,
    }
}

/// Removes what every route has passed, all the time.
fn retention() -> Job {
    let mut job = Job::every(
        "retention",
        Duration::from_secs(1),
        |outbox: Arc<dyn Outbox>| async move {
            let prune = Prune {
                keep: KEEP,
                batch: 500,
                archive: true,
            };
            outbox.prune(&prune).await
        },
    );
    job.timeout = Duration::from_secs(10); // so long a process that is killed meanwhile keeps the others from it
    job
}
