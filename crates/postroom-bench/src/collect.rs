//! `postroom bench collect`: how much slower the requests of a service are while nothing of activity collection works.
//!
//! The requests are those of tasteam: reviews, joins and searches, one after the other. Rounds without collection and rounds in
//! which it is on and broken take turns, so that other load on the machine meets both. After each broken round everything that
//! was to be collected must arrive.

mod cable;
mod fault;
mod visitor;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use postroom::{CancellationToken, operate};
use postroom_activity::Recorder;
use postroom_host::{Doors, Module, Platform};
use sea_orm::sea_query::{Expr, ExprTrait as _};
use serde::Serialize;
use serde_json::json;
use tasteam::Tasteam;
use tasteam_activity::{SearchRecorder, collecting};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::HASH_SECRET;
use crate::figure::{Figure, Outcome, percentile};
use crate::site::Site;
use cable::Cable;
use fault::{Fault, Posthog};
use visitor::Visitor;

/// Requests before each round, which are not measured.
const WARM_UP: u32 = 30;
/// The route to PostHog.
const ROUTE: &str = "activity-posthog";
/// How long everything may take to arrive after a round.
const ARRIVE_MAX: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(50);

/// Measures what broken collection costs the requests of a service.
#[derive(Debug)]
pub struct CollectBench {
    /// Requests with collection, and as many without.
    pub requests: u32,
    /// Both kinds of rounds take turns this often. In one round, everything stays broken for all requests.
    pub rounds: u32,
    /// Requests per second; as fast as one client can, if absent.
    pub rate: Option<NonZeroU32>,
    /// Address of a Redis that feeds collection and is cut off too, if there is one.
    pub redis: Option<String>,
}

/// The measured values.
#[derive(Debug, Serialize)]
pub(super) struct CollectResult {
    requests: u64,
    failed: u64,
    off_p50_ms: f64,
    off_p99_ms: f64,
    broken_p50_ms: f64,
    broken_p99_ms: f64,
    /// Of the 99th percentiles: 1.1 is 10 % slower.
    p99_ratio: f64,
    /// Events that arrived in the table and at PostHog.
    arrived: u64,
    /// Recorded searches that found the queue full. They are best effort.
    searches_dropped: u64,
}

/// Counts of the events to collect: those that were sent while collection was on, and those that were dropped.
#[derive(Debug, Default)]
struct Collected {
    sent: u64,
    dropped: u64,
}

/// Latencies of the measured requests, and how many failed.
#[derive(Debug, Default)]
struct Measured {
    latencies_ms: Vec<f64>,
    failed: u64,
}

/// Requests of a round, the time between two of them, and the number of the last one.
type Load<'a> = (u32, Option<Duration>, &'a mut u64);

/// The services that collection needs besides the store. The bench can break them.
struct Surroundings {
    posthog: Posthog,
    cable: Option<Cable>,
}

impl Surroundings {
    fn set_broken(&self, is_broken: bool) {
        self.posthog.set_dead(is_broken);
        if let Some(cable) = &self.cable {
            cable.set_cut(is_broken);
        }
    }
}

/// A process with tasteam, and with collection or not.
struct Service {
    visitor: Visitor,
    stop: CancellationToken,
    running: JoinSet<postroom::Result<()>>,
}

impl CollectBench {
    /// Modules whose tables the bench needs.
    pub(super) fn modules() -> [Module; 2] {
        [Tasteam::default().module(), collecting(Recorder::default()).module()]
    }

    pub(super) async fn run(&self, site: &Site) -> Result<CollectResult> {
        let surroundings = Surroundings {
            posthog: Posthog::open().await?,
            cable: match &self.redis {
                Some(url) => Some(Cable::to(url).await?),
                None => None,
            },
        };
        let measured = self.measure(site, &surroundings).await;
        if let Some(cable) = &surroundings.cable {
            cable
                .remove()
                .await
                .context("remove the keys of the bench from Redis")?;
            site.sweep_routes(cable::ROUTE).await?;
        }
        measured
    }

    async fn measure(&self, site: &Site, surroundings: &Surroundings) -> Result<CollectResult> {
        let (mut off, mut broken) = (Measured::default(), Measured::default());
        let (mut collected, mut number) = (Collected::default(), 0);
        let count = self.requests.div_ceil(Ord::max(self.rounds, 1));
        let pace = self.rate.map(|rate| Duration::from_secs(1) / rate.get());
        for round in 0..self.rounds {
            site.progress(&format!("round {} of {}", round + 1, self.rounds));
            // The order changes: nothing else than collection tells the two apart.
            for is_on in [round % 2 == 0, round % 2 != 0] {
                let load = (count, pace, &mut number);
                match is_on {
                    true => broken_round(site, surroundings, load, &mut broken, &mut collected).await?,
                    false => off_round(site, load, &mut off).await?,
                }
            }
        }
        let failed = off.failed + broken.failed;
        ensure!(
            failed == 0,
            "{failed} requests failed, {} of them with broken collection",
            broken.failed
        );
        let arrived = collected.sent - collected.dropped;
        let [off_p50_ms, off_p99_ms] = off.percentiles();
        let [broken_p50_ms, broken_p99_ms] = broken.percentiles();
        Ok(CollectResult {
            requests: broken.latencies_ms.len() as u64,
            failed,
            off_p50_ms,
            off_p99_ms,
            broken_p50_ms,
            broken_p99_ms,
            p99_ratio: broken_p99_ms / off_p99_ms,
            arrived,
            searches_dropped: collected.dropped,
        })
    }
}

/// Requests without collection. Their events are removed, so that no later round collects them.
async fn off_round(site: &Site, (count, pace, number): Load<'_>, measured: &mut Measured) -> Result<()> {
    let mut service = Service::start(site, None).await?;
    service
        .visitor
        .send((WARM_UP, None, number), &mut Measured::default())
        .await?;
    service.visitor.send((count, pace, number), measured).await?;
    service.stop().await?;
    site.store.pulse().await?; // MySQL numbers its events now; then they can be removed
    site.sweep_log("tasteam.").await
}

/// Requests while collection is on and nothing of it works. Then it works again, and everything arrives.
async fn broken_round(
    site: &Site,
    surroundings: &Surroundings,
    (count, pace, number): Load<'_>,
    measured: &mut Measured,
    collected: &mut Collected,
) -> Result<()> {
    let recorder = Recorder::default();
    let mut service = Service::start(site, Some((&recorder, surroundings))).await?;
    let warm_up = (WARM_UP, None, &mut *number);
    let mut sent = service.visitor.send(warm_up, &mut Measured::default()).await?;
    arrive(site, collected.sent + sent - collected.dropped).await?;
    let fault = Fault::begin(site).await?;
    surroundings.set_broken(true);
    let requests = service.visitor.send((count, pace, number), measured).await;
    surroundings.set_broken(false);
    fault.end().await?;
    sent += requests?;
    collected.sent += sent;
    collected.dropped += recorder.dropped();
    arrive(site, collected.sent - collected.dropped).await?;
    service.stop().await
}

/// Waits until exactly so many events are stored, and all of them at PostHog.
async fn arrive(site: &Site, expected: u64) -> Result<()> {
    let arrived = async {
        loop {
            let stored = site.count_where("user_activity_event", Expr::val(1).eq(1)).await?;
            let stored = u64::try_from(stored)?;
            ensure!(
                stored <= expected,
                "{stored} events are stored, but {expected} happened"
            );
            let status = operate::status(&*site.store).await?;
            let route = status.routes.iter().find(|route| route.route == ROUTE);
            let is_at_posthog = |delivered: i64| u64::try_from(delivered).is_ok_and(|delivered| delivered >= expected);
            if stored == expected && route.is_some_and(|route| is_at_posthog(route.delivered) && route.backlog == 0) {
                let dead: u64 = status.routes.iter().map(|route| route.dead).sum();
                ensure!(dead == 0, "{dead} events are dead letters");
                return Ok(());
            }
            site.progress(&format!("{stored} of {expected} events are stored"));
            sleep(LOOK).await;
        }
    };
    let waited = timeout(ARRIVE_MAX, arrived).await;
    waited.with_context(|| format!("not all of {expected} events arrived in {} s", ARRIVE_MAX.as_secs()))?
}

impl Service {
    /// Starts a process; with collection if there is a recorder for searches, and what collection needs.
    async fn start(site: &Site, collection: Option<(&Recorder, &Surroundings)>) -> Result<Self> {
        let modules = match collection {
            None => vec![Tasteam::default().module()],
            Some((recorder, surroundings)) => {
                let searches = Arc::new(SearchRecorder(recorder.clone()));
                let settings = json!({
                    "mode": "INTERNAL_PLUS_POSTHOG",
                    "posthog": {
                        "enabled": true,
                        "host": surroundings.posthog.url,
                        "project_api_key": "phc_bench",
                        "circuit_open_seconds": 1, // so that a round ends soon
                        "start": "beginning",
                    },
                    "pii": { "hash_secret": HASH_SECRET },
                });
                let settings = settings.as_object().cloned().unwrap_or_default();
                let activity = collecting(recorder.clone()).module().configure(settings)?;
                vec![Tasteam::default().observer(searches).module(), activity]
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listen on a free port")?;
        let server = listener.local_addr().context("read the bound address")?;
        let platform = Platform::new(Arc::clone(&site.store))
            .doors(Doors::unlocked())
            .modules(modules);
        let cable = collection.and_then(|(_, surroundings)| surroundings.cable.as_ref());
        let platform = match cable {
            Some(cable) => platform.feed(postroom_activity::NAME, cable.feed()?),
            None => platform,
        };
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        running.spawn(platform.serve(listener).build()?.run(stop.clone()));
        Ok(Self {
            visitor: Visitor::open(server).await?,
            stop,
            running,
        })
    }

    async fn stop(self) -> Result<()> {
        let Self { stop, mut running, .. } = self;
        stop.cancel();
        while let Some(ended) = running.join_next().await {
            ended.context("run the service")??;
        }
        Ok(())
    }
}

impl Measured {
    fn percentiles(&mut self) -> [f64; 2] {
        self.latencies_ms.sort_unstable_by(f64::total_cmp);
        [0.5, 0.99].map(|part| percentile(&self.latencies_ms, part))
    }
}

impl CollectResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let ms = |p50: f64, p99: f64| format!("{p50:.2}, {p99:.2} ms");
        let figures = vec![
            Figure::new(
                "a request without collection, p50 and p99",
                ms(self.off_p50_ms, self.off_p99_ms),
                "reviews, joins and searches, one after the other",
            ),
            Figure::new(
                "a request while collection is broken",
                ms(self.broken_p50_ms, self.broken_p99_ms),
                "its table locked or away, PostHog dead, Redis cut off if one was named",
            ),
            Figure::new(
                "ratio of the 99th percentiles",
                format!("{:.2}", self.p99_ratio),
                "goal: at most 1.10",
            ),
            Figure::new(
                "failed requests",
                self.failed.to_string(),
                format!("of {} with collection, and as many without", self.requests),
            ),
            Figure::new(
                "events that arrived afterwards",
                self.arrived.to_string(),
                format!(
                    "in the table and at PostHog: all; {} searches found the queue full",
                    self.searches_dropped
                ),
            ),
        ];
        Outcome::new(self, figures)
    }
}
