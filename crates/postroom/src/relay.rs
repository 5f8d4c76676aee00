//! The relay: reads the outbox and works every route whose lease this process holds.

mod backoff;
mod consumer;
mod copies;
mod delivery;
pub(crate) mod health;
mod idle;
mod judge;
mod lease_keeper;
mod page_cache;
mod poller;
mod repeated;
mod settle;
mod worker;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sea_orm::DatabaseConnection;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::event::entry::Position;
use crate::job::{Job, JobRunner, schedule};

use crate::policy::Start;
use crate::policy::probe::{PROBE_EVERY, Probe};
use crate::relay::backoff::Backoff;
use crate::relay::consumer::{Consumer, Joined};
use crate::relay::health::{Health, Worker};
use crate::relay::idle::Idle;
use crate::relay::lease_keeper::LeaseKeeper;
use crate::relay::page_cache::PageCache;
use crate::relay::poller::Poller;
use crate::relay::worker::ShardWorker;
use crate::route::{BATCH_MAX, Route, Source, To};
use crate::state::cursor::{self, Shard};
use crate::state::feeding::{self, Feeding};
use crate::store::fault::Fault;
use crate::store::migration::Migration;
use crate::store::outbox::{Outbox, Page, Prune, Pulse, with_timeout};
use crate::store::{inbox, table};
use crate::subscriber::{HandlerPool, Handling, Idempotency, Subscriber};

/// Most connections for the transactions of handlers. Workers beyond this number share them.
const HANDLER_CONNECTIONS_MAX: u32 = 64;
/// For progress, parked entries, jobs: transactions of milliseconds.
const OWN_CONNECTIONS: u32 = 8;
/// One renews; the others are spare, while a connection that does not answer is given up.
const LEASE_CONNECTIONS: u32 = 4;
/// The time between the end of a handler's transaction and the end of the lease, for a process that was paused.
const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// Delivers what the outbox holds. Run as many as you like on one database: at any time one of them delivers a route shard.
///
/// ```no_run
/// # async fn example(store: std::sync::Arc<dyn postroom::Outbox>) -> postroom::Result<()> {
/// use postroom::{CancellationToken, Event, Relay, Subscriber, Tx};
///
/// async fn greet(_tx: &mut Tx, event: &Event) -> postroom::Result<()> {
///     println!("{} happened to {}", event.event_type, event.key());
///     Ok(())
/// }
///
/// let stop = CancellationToken::new();
/// Relay::new(store).subscriber(Subscriber::matching("greeter", ["**"], greet)).run(stop).await
/// # }
/// ```
#[derive(Debug)]
pub struct Relay {
    outbox: Arc<dyn Outbox>,
    routes: Vec<Route>,
    jobs: Vec<Job>,
    lease_ttl: Duration,
    health: Arc<Health>,
}

impl Relay {
    /// A relay without routes. It releases scheduled events and runs replays, whatever else it is given.
    pub fn new(outbox: Arc<dyn Outbox>) -> Self {
        Self {
            outbox,
            routes: Vec::new(),
            jobs: Vec::new(),
            lease_ttl: Duration::from_secs(10),
            health: Arc::default(),
        }
    }

    /// Adds a route.
    #[must_use]
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Adds a subscriber, fed straight from the outbox.
    #[must_use]
    pub fn subscriber(self, subscriber: Subscriber) -> Self {
        self.route(subscriber.into_route())
    }

    /// Adds a job that one process at a time runs periodically.
    #[must_use]
    pub fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Removes events from the outbox when every route has passed them and they are older than `keep`. Inbox rows, and dead
    /// letters that an operator has retried or discarded, are removed after the same time. Without this, and without retention jobs of your own, nothing is deleted.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        self.job(Job::retention(keep, false))
            .job(Job::inbox_retention(keep))
            .job(Job::dead_retention(keep))
    }

    /// How long other relays wait before they take over from a dead relay; ten seconds by default.
    #[must_use]
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.lease_ttl = ttl;
        self
    }

    /// Its routes, so far.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// How the relay is doing, for health checks.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }

    /// Works until `stop`, then finishes what has begun. It releases its leases when all workers have stopped, without waiting
    /// for jobs. If the database is unreachable or has no tables, it waits; [`Health::troubles`] and the log say what to do.
    /// Only a mistake in the routes ends it early.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        self.check()?;
        let stop = stop.child_token();
        if !self.register(&stop).await? {
            return Ok(());
        }
        let owner = owner();
        let parts = self.parts();
        let leases = self.outbox.pool(LEASE_CONNECTIONS);
        let mut lease_keeper = LeaseKeeper::new(leases, owner.clone(), self.lease_ttl, self.health());
        let mut workers = JoinSet::new();
        let feedings = feedings(&self.routes);
        let copies = copies::job(&self.routes);
        for (route, feeding) in self.routes.into_iter().map(Arc::new).zip(feedings) {
            let feeding = feeding.map(Arc::new);
            if let Some(consumer) = Consumer::of(&route, feeding.as_ref(), &parts) {
                workers.spawn(consumer.run(stop.clone()));
            }
            for number in 0..route.shards {
                let worker = parts.worker((&route, feeding.clone()), number, &mut lease_keeper);
                workers.spawn(worker.run(stop.clone()));
            }
        }
        let runner = JobRunner {
            outbox: Arc::clone(&parts.outbox),
            owner,
            pulse: parts.poller.subscribe(),
            due: parts.poller.subscribe_due(),
            signal: 0,
        };
        let mut jobs = JoinSet::new();
        for job in self.jobs {
            jobs.spawn(runner.clone().run(job, Arc::clone(&self.outbox), stop.clone()));
        }
        for job in [schedule::job(), crate::job::replay::job()].into_iter().chain(copies) {
            jobs.spawn(runner.clone().run(job, Arc::clone(&parts.outbox), stop.clone()));
        }
        let poller = Arc::clone(&parts.poller);
        let leased = async {
            // The poller and the lease keeper outlive the workers: what has begun is finished under a renewed lease.
            let after_workers = CancellationToken::new();
            let drained = async {
                let outcome = drain(workers, &stop).await;
                stop.cancelled().await;
                after_workers.cancel();
                outcome
            };
            let (drained, (), ()) = tokio::join!(drained, poller.run(&after_workers), lease_keeper.run(&after_workers));
            with_timeout(lease_keeper.release()).await.unwrap_or_else(|error| {
                tracing::debug!(error = error.report(), "leases were not given back; they will run out");
            });
            drained
        };
        // A job that takes long keeps nobody from the leases: it has none.
        let (workers, jobs) = tokio::join!(leased, drain(jobs, &stop));
        workers.and(jobs)
    }

    /// Works until nothing is left to do now, then stops: every committed event has been delivered, waits for a later retry, or
    /// was given up. For tests: emit, drain, look at the effects.
    ///
    /// Events that handlers emit are delivered too. Scheduled events whose time has not come, and parked events whose retry is not
    /// due, stay. A route that a broker feeds may still wait for what the broker brings. Like [`Relay::run`], it waits for a database
    /// that is unreachable or has no tables: use a timeout around it.
    pub async fn drain(self) -> Result<()> {
        let stop = CancellationToken::new();
        let idle = Idle::of(&self.outbox, &self.routes);
        let mut running = pin!(self.run(stop.clone()));
        tokio::select! {
            ended = &mut running => return ended,
            () = idle.wait() => stop.cancel(),
        }
        running.await
    }

    fn parts(&self) -> Parts {
        let own: Arc<dyn Outbox> = Arc::new(OwnConnections::beside(Arc::clone(&self.outbox)));
        Parts {
            poller: Arc::new(Poller::new(Arc::clone(&own), Arc::clone(&self.health))),
            pages: Arc::new(PageCache::new(Arc::clone(&own))),
            outbox: own,
            health: Arc::clone(&self.health),
            joined: Joined::default(),
            handlers: self.handler_pool(),
        }
    }

    fn handler_pool(&self) -> HandlerPool {
        let workers = self.routes.iter().map(|route| match (&route.to, &route.from) {
            (To::Destination(_), _) => 0,
            (To::Subscriber(_), Source::Outbox) => route.shards,
            (To::Subscriber(_), Source::Broker { .. }) => route.shards + 1, // and its consumer
        });
        let connections = workers.sum::<u32>().clamp(1, HANDLER_CONNECTIONS_MAX);
        HandlerPool {
            transactions: self.outbox.pool(connections),
            external: self.outbox.db().clone().into(),
            wait_max: self.lease_ttl.saturating_sub(LEASE_MARGIN).max(LEASE_MARGIN),
        }
    }

    /// Refuses mistakes in its routes and jobs, as [`Relay::run`] does first.
    pub fn check(&self) -> Result<()> {
        let mut jobs = HashSet::from(["schedule", "replay", copies::JOB]);
        if let Some(job) = self.jobs.iter().find(|job| !jobs.insert(&job.name)) {
            return Err(Error::invalid(format!(
                "two jobs are named {:?}; give each its own name",
                job.name
            )));
        }
        let mut names = HashSet::new();
        for route in &self.routes {
            if !names.insert(route.name.as_str()) {
                return Err(Error::invalid(format!(
                    "two routes are named {:?}; progress is kept by name, so give each its own",
                    route.name
                )));
            }
            if route.name.is_empty() || route.name.len() > 200 {
                return Err(Error::invalid(format!(
                    "the route name {:?} must have 1 to 200 bytes",
                    route.name
                )));
            }
            if route.name == inbox::ACCEPTED {
                return Err(Error::invalid(format!(
                    "no route or group may be named {:?}: the inbox keeps under it which events were accepted from outside, \
                     and they would count as handled",
                    route.name
                )));
            }
            let is_consumer = |name: &String| {
                let mut others = self
                    .routes
                    .iter()
                    .filter(|other| matches!(other.from, Source::Broker { .. }));
                others.any(|other| other.name == *name)
            };
            if let Some(nobody) = route.awaits.iter().find(|name| !is_consumer(name)) {
                return Err(Error::invalid(format!(
                    "route {:?} awaits {nobody:?}, which is no group of this relay",
                    route.name
                )));
            }
            if let Source::Broker { topics, .. } = &route.from {
                check_consumer(route, topics)?;
            }
            check_filter(route)?;
            check_external(route)?;
            check_numbers(route)?;
        }
        Ok(())
    }

    /// Makes the routes known to the database, waiting for it if need be; `false` when stopped meanwhile.
    async fn register(&self, stop: &CancellationToken) -> Result<bool> {
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            match with_timeout(self.try_register()).await {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Invalid => return Err(error),
                Err(error) => {
                    self.health.silenced(&error);
                    let advice = Fault::of(&error).advice();
                    tracing::warn!(error = error.report(), "routes could not be registered yet: {advice}");
                }
            }
            backoff.wait(stop).await;
        }
        Ok(false)
    }

    async fn try_register(&self) -> Result<()> {
        let mut new = HashSet::new();
        for route in &self.routes {
            if self.is_registered(route).await? {
                continue;
            }
            let start = self.start(route).await?;
            let tx = table::begin_own(self.outbox.db()).await?;
            cursor::register(&tx, &route.name, route.shards, start).await?;
            tx.commit().await?;
            new.insert(route.name.as_str());
        }
        self.begin_fed(&new).await
    }

    /// Writes nothing: a session that has locked a row of one route keeps no other route from its start.
    async fn is_registered(&self, route: &Route) -> Result<bool> {
        let tx = table::begin_own(self.outbox.db()).await?;
        let is_registered = cursor::is_registered(&tx, &route.name, route.shards).await?;
        tx.commit().await?;
        Ok(is_registered)
    }

    /// Where a new route begins. Only a new route asks for the head: on MySQL the answer can take seconds when the process that
    /// numbers events has just died.
    async fn start(&self, route: &Route) -> Result<Position> {
        match route.start {
            Start::Beginning => Ok(Position::START),
            Start::Head => {
                self.outbox.pulse().await?;
                self.outbox.head().await
            }
        }
    }

    /// A group that is new, and gets everything from publishers that are new too and begin at the beginning, has nothing to read
    /// in the log first.
    async fn begin_fed(&self, new: &HashSet<&str>) -> Result<()> {
        for (route, feeding) in self.routes.iter().zip(feedings(&self.routes)) {
            let Some(feeding) = feeding.filter(|feeding| !feeding.publishers.is_empty()) else {
                continue;
            };
            let mut publishers = self
                .routes
                .iter()
                .filter(|other| feeding.publishers.contains(&other.name));
            let is_new = |route: &Route| new.contains(route.name.as_str());
            if is_new(route) && publishers.all(|other| is_new(other) && other.start == Start::Beginning) {
                let tx = table::begin_own(self.outbox.db()).await?;
                feeding::begin(&tx, &route.name, &feeding.mark).await?;
                tx.commit().await?;
            }
        }
        Ok(())
    }
}

/// The parts that the workers and consumers of a relay share.
#[derive(Debug)]
pub(crate) struct Parts {
    /// With connections of the relay's own.
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) poller: Arc<Poller>,
    pub(crate) pages: Arc<PageCache>,
    pub(crate) health: Arc<Health>,
    pub(crate) joined: Joined,
    pub(crate) handlers: HandlerPool,
}

impl Parts {
    fn worker(
        &self,
        (route, feeding): (&Arc<Route>, Option<Arc<Feeding>>),
        number: u32,
        lease_keeper: &mut LeaseKeeper,
    ) -> ShardWorker {
        let shard = Shard {
            route: route.name.clone(),
            number,
        };
        let name = Worker {
            route: route.name.clone(),
            shard: (route.shards > 1).then_some(number),
            is_consumer: false,
        };
        let lease = lease_keeper.slot(shard.clone());
        self.health.follow(&name, lease.clone());
        ShardWorker {
            name,
            route: Arc::clone(route),
            lease,
            shard,
            pages: Arc::clone(&self.pages),
            pulse: self.poller.subscribe(),
            changes: self.poller.subscribe_changes(),
            health: Arc::clone(&self.health),
            joined: self.joined.subscribe(),
            handlers: self.handlers.clone(),
            feeding,
        }
    }
}

/// The outbox as the parts of a relay see it: with a pool of their own, which no application and no handler can use up.
#[derive(Debug)]
struct OwnConnections {
    outbox: Arc<dyn Outbox>,
    db: DatabaseConnection,
}

impl OwnConnections {
    fn beside(outbox: Arc<dyn Outbox>) -> Self {
        let db = outbox.pool(OWN_CONNECTIONS);
        Self { outbox, db }
    }
}

#[async_trait]
impl Outbox for OwnConnections {
    fn db(&self) -> &DatabaseConnection {
        &self.db
    }

    fn pool(&self, connections_max: u32) -> DatabaseConnection {
        self.outbox.pool(connections_max)
    }

    fn migrations(&self) -> &'static [Migration] {
        self.outbox.migrations()
    }

    async fn pulse(&self) -> Result<Pulse> {
        self.outbox.pulse().await
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        self.outbox.read(after, limit).await
    }

    async fn head(&self) -> Result<Position> {
        self.outbox.head().await
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        self.outbox.prune(prune).await
    }
}

/// How each of these routes is fed.
fn feedings(routes: &[Route]) -> Vec<Option<Feeding>> {
    routes.iter().map(|route| Feeding::of(route, routes)).collect()
}

/// Waits for the end of all parts; one that fails stops the others.
async fn drain(mut parts: JoinSet<Result<()>>, stop: &CancellationToken) -> Result<()> {
    let mut outcome = Ok(());
    while let Some(ended) = parts.join_next().await {
        let ended = ended.map_err(|source| Error::caused(ErrorKind::Failed, "run a part of the relay", source));
        if let Err(error) = ended.and_then(|result| result) {
            stop.cancel();
            outcome = Err(error);
        }
    }
    outcome
}

fn check_numbers(route: &Route) -> Result<()> {
    let Route {
        name,
        shards,
        batch,
        probe,
        ..
    } = route;
    if !(1..=1024).contains(shards) {
        return Err(Error::invalid(format!(
            "route {name:?} has {shards} shards; give 1 to 1024"
        )));
    }
    if !(1..=BATCH_MAX).contains(batch) {
        return Err(Error::invalid(format!(
            "route {name:?} has batches of {batch}; give 1 to {BATCH_MAX}"
        )));
    }
    if let Probe::Every(interval) = probe
        && !PROBE_EVERY.contains(interval)
    {
        let (least, most) = (PROBE_EVERY.start(), PROBE_EVERY.end());
        return Err(Error::invalid(format!(
            "route {name:?} probes every {interval:?}; give {least:?} to {most:?}"
        )));
    }
    Ok(())
}

fn check_filter(route: &Route) -> Result<()> {
    route.filter.check().map_err(|error| {
        let says = format!("route or subscriber {:?}: {error}", route.name);
        Error::invalid(says)
    })
}

fn check_external(route: &Route) -> Result<()> {
    match &route.to {
        To::Subscriber(one)
            if matches!(one.handling, Handling::External(_)) && one.idempotency != Idempotency::Natural =>
        {
            Err(Error::invalid(format!(
                "subscriber {:?} runs external tasks, and no inbox keeps those from running again; its idempotency must be Natural",
                route.name
            )))
        }
        To::Subscriber(_) | To::Destination(_) => Ok(()),
    }
}

fn check_consumer(route: &Route, topics: &[String]) -> Result<()> {
    let name = &route.name;
    if !matches!(route.to, To::Subscriber(_)) {
        return Err(Error::invalid(format!(
            "route {name:?} leads from a broker to a destination; a broker feeds subscribers"
        )));
    }
    if topics.is_empty() {
        return Err(Error::invalid(format!(
            "subscriber {name:?} is fed by a broker but by no topic"
        )));
    }
    if route.shards != 1 {
        return Err(Error::invalid(format!(
            "subscriber {name:?} is fed by a broker, which shares out its work; leave its shards at 1"
        )));
    }
    Ok(())
}

/// A name for this process that no other has had: leases are recognised by it.
fn owner() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_unset| "host".to_owned());
    format!("{host}:{}:{}", std::process::id(), Uuid::now_v7())
}
