//! When to worry: what is measured over the module's routes, and the limits above which somebody should look.

use postroom::inspect::Status;
use serde::Serialize;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gauges {
    /// Events that somebody has not handled yet.
    pub unpublished_events: u64,
    /// How old the oldest of them is, in seconds.
    pub event_age_max_s: f64,
    /// Events that failed: those to be tried again, and those that were given up.
    pub failed_events: u64,
    /// How often those to be tried again have failed on average.
    pub retry_count_mean: f64,
}

/// Somebody should look when a gauge is above its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// The gauge, by its name.
    pub metric: &'static str,
    /// The limit.
    pub above: f64,
    /// What it may mean.
    pub suspicion: &'static str,
}

/// The four rules.
pub const RULES: [Rule; 4] = [
    Rule {
        metric: "unpublished_events",
        above: 1_000.0,
        suspicion: "events pile up",
    },
    Rule {
        metric: "event_age_max_s",
        above: 60.0,
        suspicion: "events come late",
    },
    Rule {
        metric: "failed_events",
        above: 10.0,
        suspicion: "a handler is broken",
    },
    Rule {
        metric: "retry_count_mean",
        above: 1.0,
        suspicion: "trying again does not help",
    },
];

impl Gauges {
    /// Measures a module's routes: its subscribers, whose names begin with its own, and, where a broker stands between, the
    /// route that publishes to its `topic`. An event counts as long as any of them has not handled it, so the route that is
    /// furthest behind tells how many there are.
    pub fn of(status: &Status, module: &str, topic: &str) -> Self {
        let is_ours = |name: &str| is_named(name, module) || is_publishing(name, topic);
        let routes = || status.routes.iter().filter(|route| is_ours(&route.route));
        let ages = routes().flat_map(|route| [route.oldest_s, route.parked_s]).flatten();
        let retrying: u64 = routes().map(|route| route.retrying).sum();
        let attempts: u64 = routes().map(|route| route.attempts).sum();
        Self {
            unpublished_events: routes()
                .map(|route| route.backlog + route.retrying + route.waiting)
                .max()
                .unwrap_or(0),
            event_age_max_s: ages.fold(0.0, f64::max),
            failed_events: retrying + routes().map(|route| route.dead).sum::<u64>(),
            retry_count_mean: mean(attempts, retrying),
        }
    }

    /// The rules whose limits are passed.
    pub fn firing(&self) -> impl Iterator<Item = &'static Rule> {
        RULES.iter().filter(|rule| self.value(rule.metric) > rule.above)
    }

    fn value(&self, metric: &str) -> f64 {
        match metric {
            "unpublished_events" => float(self.unpublished_events),
            "event_age_max_s" => self.event_age_max_s,
            "failed_events" => float(self.failed_events),
            _ => self.retry_count_mean,
        }
    }
}

/// Whether a route is named after the module: `umbra-licensing`.
fn is_named(route: &str, module: &str) -> bool {
    let rest = route.strip_prefix(module);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Whether a route publishes to the topic: `to-kafka-umbra-events`, as hosts name them.
fn is_publishing(route: &str, topic: &str) -> bool {
    let broker = route.strip_prefix("to-").and_then(|rest| rest.strip_suffix(topic));
    broker.is_some_and(|broker| broker.len() > 1 && broker.ends_with('-'))
}

fn mean(sum: u64, count: u64) -> f64 {
    match count {
        0 => 0.0,
        _ => float(sum) / float(count),
    }
}

/// Counts beyond four billion are as alarming as four billion.
fn float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Gauges = Gauges {
        unpublished_events: 1_000,
        event_age_max_s: 60.0,
        failed_events: 10,
        retry_count_mean: 1.0,
    };

    #[test]
    fn u_08_each_rule_fires_above_its_limit_and_not_at_it() {
        let check = |gauges: Gauges, expected: &[&str]| {
            let firing: Vec<&str> = gauges.firing().map(|rule| rule.metric).collect();
            assert_eq!(firing, expected, "{gauges:?}");
        };
        check(CALM, &[]);
        let unpublished_events = 1_001;
        check(
            Gauges {
                unpublished_events,
                ..CALM
            },
            &["unpublished_events"],
        );
        let event_age_max_s = 60.1;
        check(
            Gauges {
                event_age_max_s,
                ..CALM
            },
            &["event_age_max_s"],
        );
        let failed_events = 11;
        check(Gauges { failed_events, ..CALM }, &["failed_events"]);
        let retry_count_mean = 1.1;
        check(
            Gauges {
                retry_count_mean,
                ..CALM
            },
            &["retry_count_mean"],
        );
    }

    #[test]
    fn u_08_subscribers_and_publishing_routes_are_looked_at() {
        let check = |route: &str, is_ours: bool| {
            let found = is_named(route, "umbra") || is_publishing(route, "umbra-events");
            assert_eq!(found, is_ours, "{route}");
        };
        for route in ["umbra", "umbra-audit", "umbra-to-kafka", "to-kafka-umbra-events"] {
            check(route, true);
        }
        for route in [
            "umbrage",
            "to-kafka",
            "to-kafka-ledger-events",
            "to--",
            "to-umbra-events",
            "ledger",
        ] {
            check(route, false);
        }
    }

    #[test]
    fn u_08_a_mean_of_nothing_is_nothing() {
        assert_eq!(mean(7, 0), 0.0);
        assert_eq!(mean(3, 2), 1.5);
    }
}
