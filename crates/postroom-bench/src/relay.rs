//! `postroom bench relay`: how fast the relay delivers a backlog, and how soon after its commit a single event.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use postroom::Event;
use serde::Serialize;
use uuid::Uuid;

use crate::figure::{Figure, Outcome, percentile};
use crate::limit::Limit;
use crate::paid;
use crate::publish;
use crate::receiver::{Receiver, Target};
use crate::running::{Running, register};
use crate::site::Site;
use crate::tally::Tally;
use crate::trial_broker::TrialBroker;
use crate::writers::{Writers, Written};

/// Events of one transaction while the backlog is written.
const BATCH: usize = 1_000;
/// This part of the steady events, the first, is not counted: connections and plans are made then.
const WARM_UP: f64 = 0.1;

/// Measures how fast a backlog is delivered, and how soon a single event.
#[derive(Debug)]
pub struct RelayBench {
    /// Receiver of the events.
    pub to: Target,
    /// To a broker in transactions, one per page; Kafka only.
    pub is_transactional: bool,
    /// Number of events in the backlog.
    pub events: u32,
    /// Events per second while latency is measured, each in its own transaction.
    pub rate: u32,
    /// Duration of the latency measurement.
    pub seconds: u32,
}

/// The measured values.
#[derive(Debug, Serialize)]
pub(super) struct RelayResult {
    events_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    limit_events_per_s: f64,
    ratio_to_limit: f64,
    /// The rate that the writers reached.
    achieved_per_s: f64,
    #[serde(skip)]
    asked_per_s: f64,
}

impl RelayBench {
    /// The broker of a bench that publishes.
    pub(super) fn broker(&self) -> Result<Option<TrialBroker>> {
        match &self.to {
            Target::Here(_) => Ok(None),
            Target::Broker(address) => TrialBroker::open(address).map(Some),
        }
    }

    pub(super) async fn outcome(&self, site: &Site) -> Result<Outcome> {
        match &self.to {
            Target::Here(receiver) => self.run(site, *receiver).await?.outcome(),
            Target::Broker(_) => {
                let stage = site.stage.as_ref().context("no topic was made")?;
                publish::run(self, site, stage).await?.outcome()
            }
        }
    }

    async fn run(&self, site: &Site, to: Receiver) -> Result<RelayResult> {
        let tally = Arc::new(Tally::default());
        let mut limit = Limit::default();
        register(site, to.route(&site.native, &tally)).await?;
        let floor = site.last_id().await?; // in front of the backlog
        let events = write_backlog(site, self.events).await?;
        let (half, other_half) = events.split_at(events.len() / 2);
        if to == Receiver::Subscriber {
            limit.have_effects(site, half).await?;
        }
        let (events_per_s, written, times) = self.deliver(site, to, &tally, events.len()).await?;
        match to {
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
        to: Receiver,
        tally: &Arc<Tally>,
        backlog: usize,
    ) -> Result<(f64, Written, HashMap<Uuid, Instant>)> {
        tally.expect(backlog, false);
        let begun = Instant::now();
        let relay = Running::start(site, to.route(&site.native, tally));
        let events_per_s = tally.complete("delivering the backlog", site.tell).await?.per_s(begun);
        let steady = Writers::steady(self.rate, self.seconds)?;
        tally.expect(steady.len(), true);
        let (written, arrivals) = tokio::join!(
            steady.write(&site.native),
            tally.complete("delivering as they come", site.tell)
        );
        relay.stop().await?;
        Ok((events_per_s, written?, arrivals?.times.unwrap_or_default()))
    }
}

/// Writes so many events before anybody delivers them.
pub(super) async fn write_backlog(site: &Site, events: u32) -> Result<Vec<Event>> {
    let count = usize::try_from(events)?;
    let events = paid::events(0..count)?;
    for (at, batch) in events.chunks(BATCH).enumerate() {
        site.progress(&format!("writing the backlog: {} of {count}", at * BATCH));
        let mut tx = site.native.begin().await.context("begin a transaction")?;
        tx.append(batch).await.context("append events")?;
        tx.commit().await.context("commit events")?;
    }
    Ok(events)
}

/// Milliseconds from each commit's acknowledgement to its delivery, ascending. A delivery may come before its writer is
/// told: that is no wait at all.
pub(super) fn waits_ms(written: &Written, times: &HashMap<Uuid, Instant>) -> Result<Vec<f64>> {
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

impl RelayResult {
    fn outcome(&self) -> Result<Outcome> {
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
