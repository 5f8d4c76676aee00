//! `postroom bench relay`: how fast the relay delivers a backlog, and how soon after its commit a single event.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use postroom::{Event, Outbox, Relay, inspect};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::command::bench::figure::{Figure, Outcome, percentile};
use crate::command::bench::limit::Limit;
use crate::command::bench::paid;
use crate::command::bench::progress;
use crate::command::bench::receiver::{ROUTE, Receiver};
use crate::command::bench::site::Site;
use crate::command::bench::steady::{Steady, Written};
use crate::command::bench::tally::Tally;

/// Events of one transaction while the backlog is written.
const BATCH: usize = 1_000;
/// This part of the steady events, the first, is not counted: connections and plans are made then.
const WARM_UP: f64 = 0.1;
/// How long a relay may take to register its route.
const REGISTER_MAX: Duration = Duration::from_secs(30);

/// How fast a backlog is delivered, and how soon a single event
#[derive(Debug, Args)]
pub(super) struct RelayBench {
    /// Where to
    #[arg(long, value_enum, default_value_t)]
    to: Receiver,
    /// How many events the backlog has
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(2..))]
    events: u32,
    /// Events per second while latency is measured, each in a transaction of its own
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// For how long latency is measured
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
}

/// What came out.
#[derive(Debug, Serialize)]
pub(super) struct RelayResult {
    events_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    limit_events_per_s: f64,
    ratio_to_limit: f64,
    /// What the writers made of the rate they were asked for.
    achieved_per_s: f64,
    #[serde(skip)]
    asked_per_s: f64,
}

impl RelayBench {
    /// The flags that repeat this run.
    pub(super) fn flags(&self) -> String {
        let to = match self.to {
            Receiver::Subscriber => "subscriber",
            Receiver::Null => "null",
        };
        format!(
            "relay --to {to} --events {} --rate {} --seconds {}",
            self.events, self.rate, self.seconds
        )
    }

    pub(super) async fn run(&self, site: &Site) -> Result<RelayResult> {
        let tally = Arc::new(Tally::default());
        let mut limit = Limit::default();
        self.register(site, &tally).await?;
        let floor = site.last_id().await?; // in front of the backlog
        let events = self.write_backlog(site).await?;
        let (half, other_half) = events.split_at(events.len() / 2);
        if self.to == Receiver::Subscriber {
            limit.have_effects(site, half).await?;
        }
        let (events_per_s, written, times) = self.deliver(site, &tally, events.len()).await?;
        match self.to {
            Receiver::Subscriber => {
                let effects = site.count("bench_effect").await?;
                let expected = i64::try_from(half.len() + events.len() + written.acks.len())?;
                ensure!(effects == expected, "there are {effects} effects instead of {expected}");
                limit.have_effects(site, other_half).await?;
            }
            Receiver::Null => limit.read_entries(site, floor).await?,
        }
        let waits = waits_ms(&written, &times)?;
        Ok(RelayResult {
            events_per_s,
            p50_ms: percentile(&waits, 0.50),
            p99_ms: percentile(&waits, 0.99),
            limit_events_per_s: limit.per_s(),
            ratio_to_limit: events_per_s / limit.per_s(),
            achieved_per_s: written.per_s,
            asked_per_s: f64::from(self.rate),
        })
    }

    /// The relay's part: the backlog, then events as they come.
    async fn deliver(
        &self,
        site: &Site,
        tally: &Arc<Tally>,
        backlog: usize,
    ) -> Result<(f64, Written, HashMap<Uuid, Instant>)> {
        tally.expect(backlog, false);
        let begun = Instant::now();
        let relay = Running::start(site, self.to, tally);
        let events_per_s = tally.complete("delivering the backlog").await?.per_s(begun);
        let steady = Steady::new(self.rate, self.seconds)?;
        tally.expect(steady.len(), true);
        let (written, arrivals) = tokio::join!(steady.write(&site.native), tally.complete("delivering as they come"));
        relay.stop().await?;
        Ok((events_per_s, written?, arrivals?.times.unwrap_or_default()))
    }

    /// Makes the route known, so that it begins in front of the backlog and not at the beginning of the log.
    async fn register(&self, site: &Site, tally: &Arc<Tally>) -> Result<()> {
        let relay = Running::start(site, self.to, tally);
        let known = async {
            while !inspect::status(&*site.store)
                .await?
                .routes
                .iter()
                .any(|route| route.route == ROUTE && route.is_leased)
            {
                sleep(Duration::from_millis(10)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(REGISTER_MAX, known)
            .await
            .context("the relay does not register its route")??;
        relay.stop().await
    }

    async fn write_backlog(&self, site: &Site) -> Result<Vec<Event>> {
        let count = usize::try_from(self.events)?;
        let events = paid::events(0..count)?;
        for (at, batch) in events.chunks(BATCH).enumerate() {
            progress(&format!("writing the backlog: {} of {count}", at * BATCH));
            let mut tx = site.native.begin().await.context("begin a transaction")?;
            tx.append(batch).await.context("append events")?;
            tx.commit().await.context("commit events")?;
        }
        Ok(events)
    }
}

/// Milliseconds from each commit's acknowledgement to its delivery, ascending. A delivery may come before its writer is
/// told: that is no wait at all.
fn waits_ms(written: &Written, times: &HashMap<Uuid, Instant>) -> Result<Vec<f64>> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a length"
    )]
    let skip = (written.acks.len() as f64 * WARM_UP) as usize;
    let mut waits = Vec::with_capacity(written.acks.len());
    for (id, ack) in written.acks.iter().skip(skip) {
        let came = times.get(id).with_context(|| format!("event {id} was not delivered"))?;
        waits.push(came.saturating_duration_since(*ack).as_secs_f64() * 1000.0);
    }
    waits.sort_unstable_by(f64::total_cmp);
    Ok(waits)
}

/// A relay at work.
#[derive(Debug)]
pub(super) struct Running {
    tasks: JoinSet<postroom::Result<()>>,
    stop: CancellationToken,
}

impl Running {
    fn start(site: &Site, to: Receiver, tally: &Arc<Tally>) -> Self {
        let store: Arc<dyn Outbox> = site.native.store();
        Self::of(Relay::new(store).route(to.route(site.kind(), tally)))
    }

    pub(super) fn of(relay: Relay) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(relay.run(stop.clone()));
        Self { tasks, stop }
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.context("run the relay")??;
        }
        Ok(())
    }
}

impl RelayResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let kept = self.achieved_per_s >= 0.95 * self.asked_per_s;
        let figures = vec![
            Figure::new(
                "a backlog is delivered",
                format!("{:.0} events/s", self.events_per_s),
                "",
            ),
            Figure::new(
                "the same without Postroom",
                format!("{:.0} events/s", self.limit_events_per_s),
                "plain loop, one connection",
            ),
            Figure::new("ratio to that limit", format!("{:.2}", self.ratio_to_limit), ""),
            Figure::new(
                "commit → delivery, half within",
                format!("{:.1} ms", self.p50_ms),
                "goal: 5 ms",
            ),
            Figure::new("99 of 100 within", format!("{:.1} ms", self.p99_ms), "goal: 20 ms"),
            Figure::new(
                "at a rate of",
                format!("{:.0} events/s", self.achieved_per_s),
                if kept {
                    "as asked"
                } else {
                    "LESS than asked: the writers could not keep up"
                },
            ),
        ];
        Outcome::new(self, figures)
    }
}
