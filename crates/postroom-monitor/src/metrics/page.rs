//! Metrics as they are written: names, words and labels.

use std::fmt;
use std::time::{Duration, Instant};

use postroom::operate::{RouteStatus, Status};
use postroom::{Counts, Reading};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

type Labels<const N: usize> = [(&'static str, String); N];

/// A metric: its name, what it means, and where its value is.
type Shown<T, V> = (&'static str, &'static str, fn(&T) -> V);

/// The page that is being written.
pub(super) struct Page<'a>(pub(super) DescriptorEncoder<'a>);

impl Page<'_> {
    /// How the store answers this process.
    pub(super) fn pulse(&mut self, age: Option<Duration>) -> fmt::Result {
        let age = age.map(|age| ([], age.as_secs_f64()));
        self.gauge("pulse_age_seconds", "Since the store last answered", age)
    }

    /// How far groups are behind.
    pub(super) fn groups(&mut self, waiting: &[(String, u64)]) -> fmt::Result {
        let values = waiting
            .iter()
            .map(|(group, waiting)| ([("group", group.clone())], *waiting as f64));
        let help = "About how many messages wait at a broker for a group";
        self.gauge("group_waiting_messages", help, values)
    }

    /// The work of this process, now and since its start.
    pub(super) fn workers(&mut self, readings: &[Reading]) -> fmt::Result {
        let counters: [Shown<Counts, u64>; 5] = [
            ("delivered", "Entries that reached their destination", |counts| {
                counts.delivered
            }),
            ("failed", "Tries that failed", |counts| counts.failed),
            ("retried", "Tries of entries that were parked", |counts| counts.retried),
            (
                "parked",
                "Entries put aside, to be retried or behind one that is",
                |counts| counts.parked,
            ),
            ("dead", "Entries given up", |counts| counts.dead),
        ];
        for (name, help, count) in counters {
            let help = format!("{help}, since this process started");
            let values = readings
                .iter()
                .map(|reading| (of_worker(reading), count(&reading.counts)));
            self.counter(name, &help, values)?;
        }
        let flags: [Shown<Reading, bool>; 2] = [
            (
                "working",
                "Whether this process holds the lease, or is a member of the group",
                |reading| reading.is_working,
            ),
            (
                "reachable",
                "Whether the destination, or the broker that feeds it, was there when last tried",
                |reading| !reading.is_down,
            ),
        ];
        for (name, help, flag) in flags {
            let values = readings
                .iter()
                .map(|reading| (of_worker(reading), number(flag(reading))));
            self.gauge(name, help, values)?;
        }
        Ok(())
    }

    /// The state of the store at that time, for all processes.
    pub(super) fn status(&mut self, at: Instant, status: &Status) -> fmt::Result {
        let age = at.elapsed().as_secs_f64();
        self.gauge(
            "status_age_seconds",
            "Since the store was last looked at for what follows",
            [([], age)],
        )?;
        let gauges: [Shown<RouteStatus, f64>; 7] = [
            (
                "backlog_entries",
                "About how many entries the route has not read yet",
                |route| route.backlog as f64,
            ),
            ("backlog_age_seconds", "How old the oldest of them is", |route| {
                route.oldest_s.unwrap_or(0.0)
            }),
            ("dead_letters", "Dead letters that nobody has decided on", |route| {
                route.dead as f64
            }),
            ("leased", "Whether any process works the route", |route| {
                number(route.is_leased)
            }),
            ("paused", "Whether an operator paused the route", |route| {
                number(route.is_paused)
            }),
            (
                "down",
                "Whether the destination, or the broker that feeds the route, is out of reach",
                |route| number(route.down.is_some()),
            ),
            (
                "probe_seconds",
                "How long until the destination that is out of reach is asked again",
                |route| route.probe_s.unwrap_or(0.0),
            ),
        ];
        for (name, help, value) in gauges {
            let values = status.routes.iter().map(|route| (of_route(route), value(route)));
            self.gauge(&format!("route_{name}"), help, values)?;
        }
        self.gauge(
            "route_parked_entries",
            "Entries put aside: for a retry, behind one on their key, held by a dead letter",
            status.routes.iter().flat_map(parked),
        )?;
        self.gauge(
            "scheduled_events",
            "Events that wait for their time",
            [([], status.scheduled as f64)],
        )
    }

    fn counter<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<N>, u64)>,
    ) -> fmt::Result {
        self.family(
            name,
            help,
            values
                .into_iter()
                .map(|(labels, value)| (labels, ConstCounter::new(value))),
        )
    }

    fn gauge<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<N>, f64)>,
    ) -> fmt::Result {
        self.family(
            name,
            help,
            values
                .into_iter()
                .map(|(labels, value)| (labels, ConstGauge::new(value))),
        )
    }

    /// A metric by its labels; nothing, if there are none.
    fn family<const N: usize, M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (Labels<N>, M)>,
    ) -> fmt::Result {
        let mut values = values.peekable();
        let Some((_, first)) = values.peek() else {
            return Ok(());
        };
        let kind = first.metric_type();
        let name = format!("postroom_{name}");
        let mut family = self.0.encode_descriptor(&name, help, None, kind)?;
        for (labels, value) in values {
            if N == 0 {
                return value.encode(family);
            }
            value.encode(family.encode_family(&labels.as_slice())?)?;
        }
        Ok(())
    }
}

fn of_worker(reading: &Reading) -> Labels<3> {
    let worker = &reading.worker;
    let part = if worker.is_consumer { "consumer" } else { "line" };
    [
        ("route", worker.route.clone()),
        ("shard", worker.shard.unwrap_or(0).to_string()),
        ("part", part.to_owned()),
    ]
}

fn of_route(route: &RouteStatus) -> Labels<2> {
    [("route", route.route.clone()), ("shard", route.shard.to_string())]
}

fn parked(route: &RouteStatus) -> [(Labels<3>, f64); 3] {
    [("retry", route.retrying), ("wait", route.waiting), ("held", route.held)].map(|(state, entries)| {
        let [name, shard] = of_route(route);
        ([name, shard, ("state", state.to_owned())], entries as f64)
    })
}

fn number(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}
