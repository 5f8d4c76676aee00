//! The relay: reads the outbox and works every route whose lease this process holds.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::consumer::{Consumer, Joined};
use crate::cursor::{self, Shard};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::Feed;
use crate::inbox;
use crate::job::{Job, JobRunner};
use crate::keeper::Keeper;
use crate::line::Line;
use crate::outbox::{Outbox, Position, answered};
use crate::pulse::Heart;
use crate::replay;
use crate::route::{BATCH_MAX, Route, Source, Start, To};
use crate::schedule;
use crate::subscriber::{Handling, Idempotency, Subscriber};
use crate::table;
use crate::vitals::{Vitals, Worker};

/// Delivers what the outbox holds. Run as many as you like on one database: each route shard is worked by one at a time.
///
/// ```no_run
/// # async fn example(outbox: std::sync::Arc<dyn postroom::Outbox>) -> postroom::Result<()> {
/// use postroom::{Event, Relay, Subscriber};
/// use sea_orm::DatabaseTransaction;
///
/// async fn greet(_tx: &DatabaseTransaction, event: &Event) -> postroom::Result<()> {
///     println!("{} happened to {}", event.event_type, event.key());
///     Ok(())
/// }
///
/// let stop = tokio_util::sync::CancellationToken::new();
/// Relay::new(outbox).subscriber(Subscriber::new("greeter", "**", greet)).run(stop).await
/// # }
/// ```
#[derive(Debug)]
pub struct Relay {
    outbox: Arc<dyn Outbox>,
    routes: Vec<Route>,
    jobs: Vec<Job>,
    lease_ttl: Duration,
    vitals: Arc<Vitals>,
}

impl Relay {
    /// A relay without routes. It releases scheduled events and runs replays, whatever else it is given.
    pub fn new(outbox: Arc<dyn Outbox>) -> Self {
        Self {
            outbox,
            routes: Vec::new(),
            jobs: Vec::new(),
            lease_ttl: Duration::from_secs(10),
            vitals: Arc::default(),
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

    /// Adds a job that one process at a time runs now and then.
    #[must_use]
    pub fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// How long a relay that dies keeps others waiting; ten seconds unless told.
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
    pub fn vitals(&self) -> Arc<Vitals> {
        Arc::clone(&self.vitals)
    }

    /// Works until `stop`, then finishes what has begun. Its leases go back as soon as no line works any more, whatever jobs are
    /// still under way. A database that is away is waited for; only a
    /// mistake in the routes ends it early.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        self.check()?;
        let stop = stop.child_token();
        if !self.register(&stop).await? {
            return Ok(());
        }
        let owner = owner();
        let heart = Arc::new(Heart::new(Arc::clone(&self.outbox), Arc::clone(&self.vitals)));
        let feed = Arc::new(Feed::new(Arc::clone(&self.outbox)));
        let mut keeper = Keeper::new(Arc::clone(&self.outbox), owner.clone(), self.lease_ttl);
        let joined = Joined::default();
        let mut lines = JoinSet::new();
        for route in self.routes.into_iter().map(Arc::new) {
            if let Some(consumer) = Consumer::of(&route, &self.outbox, &heart, &self.vitals, &joined) {
                lines.spawn(consumer.run(stop.clone()));
            }
            for number in 0..route.shards {
                let shard = Shard {
                    route: route.name.clone(),
                    number,
                };
                let line = Line {
                    name: Worker {
                        route: route.name.clone(),
                        shard: (route.shards > 1).then_some(number),
                        is_consumer: false,
                    },
                    route: Arc::clone(&route),
                    lease: keeper.slot(shard.clone()),
                    shard,
                    feed: Arc::clone(&feed),
                    pulse: heart.subscribe(),
                    vitals: Arc::clone(&self.vitals),
                    joined: joined.subscribe(),
                };
                lines.spawn(line.run(stop.clone()));
            }
        }
        let runner = JobRunner {
            outbox: self.outbox,
            owner,
            pulse: heart.subscribe(),
            due: heart.subscribe_due(),
            signal: 0,
        };
        let mut jobs = JoinSet::new();
        for job in self.jobs.into_iter().chain([schedule::job(), replay::job()]) {
            jobs.spawn(runner.clone().run(job, stop.clone()));
        }
        let leased = async {
            // The heart and the keeper outlive the lines: what has begun is finished under a renewed lease.
            let after_lines = CancellationToken::new();
            let drained = async {
                let outcome = drain(lines, &stop).await;
                stop.cancelled().await;
                after_lines.cancel();
                outcome
            };
            let (drained, (), ()) = tokio::join!(drained, heart.run(&after_lines), keeper.run(&after_lines));
            answered(keeper.release()).await.unwrap_or_else(|error| {
                tracing::debug!(error = error.report(), "leases were not given back; they will run out");
            });
            drained
        };
        // A job that takes long keeps nobody from the leases: it has none.
        let (lines, jobs) = tokio::join!(leased, drain(jobs, &stop));
        lines.and(jobs)
    }

    fn check(&self) -> Result<()> {
        let mut jobs = HashSet::from(["schedule", "replay"]);
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
            check_errand(route)?;
            check_numbers(route)?;
        }
        Ok(())
    }

    /// Makes the routes known to the database, waiting for it if need be; `false` when stopped meanwhile.
    async fn register(&self, stop: &CancellationToken) -> Result<bool> {
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            match answered(self.try_register()).await {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Invalid => return Err(error),
                Err(error) => tracing::warn!(error = error.report(), "routes could not be registered yet"),
            }
            backoff.wait(stop).await;
        }
        Ok(false)
    }

    async fn try_register(&self) -> Result<()> {
        for route in &self.routes {
            let start = match route.start {
                Start::Beginning => Position::START,
                Start::Head => {
                    self.outbox.pulse().await?;
                    self.outbox.head().await?
                }
            };
            let tx = table::begin_own(self.outbox.db()).await?;
            cursor::register(&tx, &route.name, route.shards, start).await?;
            tx.commit().await?;
        }
        Ok(())
    }
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
        name, shards, batch, ..
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
    Ok(())
}

fn check_errand(route: &Route) -> Result<()> {
    match &route.to {
        To::Subscriber(one)
            if matches!(one.handling, Handling::Errand(_)) && one.idempotency != Idempotency::Natural =>
        {
            Err(Error::invalid(format!(
                "subscriber {:?} runs errands, and no inbox keeps those from being run again; its idempotency is Natural",
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
