//! The routes at a glance: what `status` prints and what the live view shows.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use postroom::operate::{RouteState, RouteStatus};

use crate::age::age;
use crate::listing::{Cell, Listing};
use crate::output::Tone;
use crate::text;

/// Over how long a rate is measured.
const WINDOW: Duration = Duration::from_secs(10);

/// A route, or a shard of one.
#[derive(Clone, Debug)]
pub struct Row {
    /// The route, with the shard if it has several.
    pub name: String,
    /// Entries that it has delivered.
    pub delivered: i64,
    /// Deliveries per second, if they are measured.
    pub rate: Option<f64>,
    /// Entries that wait in the outbox.
    pub backlog: u64,
    /// Age of the oldest of them.
    pub oldest_s: Option<f64>,
    /// Entries that wait for a retry, and those behind them.
    pub parked: u64,
    /// Dead letters that wait for a decision.
    pub dead: u64,
    /// Whether it is delivered, or the cause why not.
    pub state: RouteState,
    /// How long until its destination is asked again, if it is out of reach.
    pub probe_s: Option<f64>,
}

fn cell(state: &RouteState, probe_s: Option<f64>) -> Cell {
    let tone = match state {
        RouteState::Working => Tone::Good,
        RouteState::Paused | RouteState::Held { .. } => Tone::Warn,
        RouteState::Unworked | RouteState::Down { .. } => Tone::Bad,
    };
    Cell::new(tone, text::route_state(state, probe_s))
}

/// One row per route shard, as the store knows them.
pub fn rows(routes: &[RouteStatus]) -> Vec<Row> {
    let is_sharded = |route: &str| routes.iter().filter(|other| other.route == route).count() > 1;
    routes
        .iter()
        .map(|route| Row {
            name: match is_sharded(&route.route) {
                true => format!("{}/{}", route.route, route.shard),
                false => route.route.clone(),
            },
            delivered: route.delivered,
            rate: None,
            backlog: route.backlog,
            oldest_s: route.oldest_s,
            parked: route.retrying + route.waiting,
            dead: route.dead,
            state: route.state(),
            probe_s: route.probe_s,
        })
        .collect()
}

/// The rows as a table; the rate is a column if it is known.
pub fn listing(rows: &[Row]) -> Listing {
    let has_rate = rows.iter().any(|row| row.rate.is_some());
    let mut listing = match has_rate {
        true => Listing::new(&[
            "route",
            "#delivered",
            "#rate/s",
            "#backlog",
            "#oldest",
            "#parked",
            "#dead",
            "state",
        ]),
        false => Listing::new(&[
            "route",
            "#delivered",
            "#backlog",
            "#oldest",
            "#parked",
            "#dead",
            "state",
        ]),
    };
    for row in rows {
        let alert = |count: u64, tone| Cell::new(if count > 0 { tone } else { Tone::Plain }, count);
        let rate = has_rate.then(|| Cell::from(row.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))));
        let first = [row.name.as_str().into(), row.delivered.into()];
        let rest = [
            row.backlog.into(),
            row.oldest_s.map_or_else(|| "-".into(), |seconds| age(seconds).into()),
            alert(row.parked, Tone::Warn),
            alert(row.dead, Tone::Bad),
            cell(&row.state, row.probe_s),
        ];
        listing.row(first.into_iter().chain(rate).chain(rest));
    }
    listing
}

/// Measures how fast each route delivers.
#[derive(Debug, Default)]
pub struct Meter {
    samples: HashMap<String, VecDeque<(Instant, i64)>>,
}

impl Meter {
    /// Takes a sample of each row and fills in its rate.
    pub fn measure(&mut self, rows: &mut [Row], now: Instant) {
        for row in rows {
            let samples = self.samples.entry(row.name.clone()).or_default();
            samples.push_back((now, row.delivered));
            while samples.len() > 2 && samples.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
                samples.pop_front();
            }
            row.rate = samples.front().map(|(at, delivered)| {
                let seconds = now.duration_since(*at).as_secs_f64();
                let moved = u32::try_from(row.delivered - delivered).unwrap_or_default();
                if seconds > 0.0 { f64::from(moved) / seconds } else { 0.0 }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, delivered: i64) -> Row {
        Row {
            name: name.to_owned(),
            delivered,
            rate: None,
            backlog: 0,
            oldest_s: None,
            parked: 0,
            dead: 0,
            state: RouteState::Working,
            probe_s: None,
        }
    }

    #[test]
    fn a_route_whose_destination_is_out_of_reach_shows_the_cause_and_the_next_probe() {
        let down = Row {
            state: RouteState::Down {
                says: "PostHog answered 503".to_owned(),
            },
            probe_s: Some(41.7),
            ..row("activity-posthog", 7)
        };
        let text = listing(&[down]).text();
        assert!(
            text.contains("cannot go on, asked again in 42 s: PostHog answered 503"),
            "{text}"
        );
    }

    #[test]
    fn a_rate_is_measured_over_the_window() {
        let mut meter = Meter::default();
        let begin = Instant::now();
        let mut at = |second: u64, delivered: i64| {
            let mut rows = [row("orders", delivered)];
            meter.measure(&mut rows, begin + Duration::from_secs(second));
            rows[0].rate.unwrap()
        };
        assert_eq!(at(0, 100), 0.0);
        assert_eq!(at(1, 150), 50.0);
        assert_eq!(at(10, 200), 10.0);
        assert_eq!(at(11, 200), 5.0, "the first sample is too old");
    }
}
