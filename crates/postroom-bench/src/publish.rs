//! `postroom bench relay --to` a broker: how near the relay comes to the broker's own client, and how soon after its commit
//! an event is confirmed by the broker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::figure::{Figure, Outcome, percentile};
use crate::relay::{self, RelayBench};
use crate::running::{Running, register};
use crate::site::Site;
use crate::stage::Stage;
use crate::tally::Tally;
use crate::writers::Writers;

/// The measured values.
#[derive(Debug, Default, Serialize)]
pub(super) struct PublishResult {
    /// Where it published, until it was removed.
    topic: String,
    /// How many messages the broker confirmed to the relay.
    confirmed: usize,
    /// Of a backlog.
    events_per_s: f64,
    /// While writers write as fast as they can.
    flood_events_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// At the rate that was asked for.
    steady_events_per_s: f64,
    steady_p50_ms: f64,
    steady_p99_ms: f64,
    limit_events_per_s: f64,
    ratio_to_limit: f64,
    #[serde(skip)]
    asked_per_s: f64,
}

/// The work of the broker's client alone: half before the relay, half after it, so that other load on the machine affects
/// both.
#[derive(Debug, Default)]
struct Alone {
    messages: usize,
    took: Duration,
}

impl Alone {
    async fn send(&mut self, site: &Site, stage: &Stage, count: usize) -> Result<()> {
        site.progress(&format!("{count} messages without Postroom"));
        let sending = stage.plain.send(count).await;
        self.took += sending.context("send without Postroom")?;
        self.messages += count;
        Ok(())
    }

    fn per_s(&self) -> f64 {
        self.messages as f64 / self.took.as_secs_f64()
    }
}

/// Measures all of it.
pub(super) async fn run(bench: &RelayBench, site: &Site, stage: &Stage) -> Result<PublishResult> {
    let tally = Arc::new(Tally::default());
    let mut alone = Alone::default();
    register(site, stage.route(&tally)?).await?;
    let backlog = relay::write_backlog(site, bench.events).await?.len();
    alone.send(site, stage, backlog / 2).await?;
    tally.expect(backlog, false);
    let begun = Instant::now();
    let relay = Running::start(site, stage.route(&tally)?);
    let events_per_s = tally.complete("delivering the backlog", site.tell).await?.per_s(begun);
    let mut result = PublishResult {
        topic: stage.topic.clone(),
        events_per_s,
        asked_per_s: f64::from(bench.rate),
        ..PublishResult::default()
    };
    let flood = Writers::flood(backlog, &tally)?;
    (result.flood_events_per_s, result.p50_ms, result.p99_ms) = follow(site, &tally, flood).await?;
    let steady = Writers::steady(bench.rate, bench.seconds)?;
    let steady_count = steady.len();
    (result.steady_events_per_s, result.steady_p50_ms, result.steady_p99_ms) = follow(site, &tally, steady).await?;
    relay.stop().await?;
    alone.send(site, stage, backlog - backlog / 2).await?;
    result.confirmed = 2 * backlog + steady_count;
    stage.check(result.confirmed + alone.messages).await?;
    result.limit_events_per_s = alone.per_s();
    result.ratio_to_limit = events_per_s / alone.per_s();
    Ok(result)
}

/// Lets writers write and the relay follow; answers events per second, and what half and 99 of 100 waited, in ms.
async fn follow(site: &Site, tally: &Arc<Tally>, writers: Writers) -> Result<(f64, f64, f64)> {
    tally.expect(writers.len(), true);
    let (written, arrivals) = tokio::join!(
        writers.write(&site.native),
        tally.complete("delivering as they come", site.tell)
    );
    let (written, arrivals) = (written?, arrivals?);
    let waits = relay::waits_ms(&written, &arrivals.times.unwrap_or_default())?;
    Ok((written.per_s, percentile(&waits, 0.50), percentile(&waits, 0.99)))
}

impl PublishResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let per_s = |value: f64| format!("{value:.0} events/s");
        let ms = |value: f64| format!("{value:.1} ms");
        let kept = self.steady_events_per_s >= 0.95 * self.asked_per_s;
        let rate_note = if kept {
            "as asked"
        } else {
            "LESS than asked: the writers could not keep up"
        };
        let figures = vec![
            Figure::new("a backlog is published", per_s(self.events_per_s), ""),
            Figure::new(
                "the same by the broker's client alone",
                per_s(self.limit_events_per_s),
                "no database, no relay",
            ),
            Figure::new(
                "ratio to that limit",
                format!("{:.2}", self.ratio_to_limit),
                "goal: 0.60",
            ),
            Figure::new("writers at full speed", per_s(self.flood_events_per_s), ""),
            Figure::new("commit → confirmed, half within", ms(self.p50_ms), ""),
            Figure::new("99 of 100 within", ms(self.p99_ms), ""),
            Figure::new("at a rate of", per_s(self.steady_events_per_s), rate_note),
            Figure::new("commit → confirmed, half within", ms(self.steady_p50_ms), "goal: 5 ms"),
            Figure::new("99 of 100 within", ms(self.steady_p99_ms), "goal: 20 ms"),
        ];
        Outcome::new(self, figures)
    }
}
