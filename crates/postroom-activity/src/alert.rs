//! The alert rule of activity collection, and its limit.

use postroom::alert::Channel;
use postroom::operate::{self, RouteStatus};
use postroom::{Result, Route};
use postroom_host::{Finding, Host, Module, Rule};

/// A stored event that no sink has taken for longer than this is late: the specification allows ten minutes.
const LATE_S: f64 = 600.0;

const RULES: [Rule; 1] = [Rule {
    name: "activity_sink_late",
    channel: Channel::Slack,
    says: "stored activity events have waited for a sink for more than ten minutes",
    next: "postroom status; then the runbook \"A sink is down\"",
}];

/// Adds the rule for these routes to sinks, if there are any.
pub(crate) fn watch(module: Module, sinks: &[Route]) -> Module {
    let names: Vec<String> = sinks.iter().map(|route| route.name.clone()).collect();
    match names.is_empty() {
        true => module,
        false => module.alerts(RULES, move |host| look(host, names.clone())),
    }
}

async fn look(host: Host, sinks: Vec<String>) -> Result<[Finding; 1]> {
    let status = operate::status(&*host.store).await?;
    let of_sinks = status.routes.iter().filter(|route| sinks.contains(&route.route));
    let oldest = of_sinks.filter_map(waiting_s).fold(0.0, f64::max);
    Ok([Finding::above(oldest, LATE_S)])
}

/// The age of the oldest entry that the route has not delivered.
fn waiting_s(route: &RouteStatus) -> Option<f64> {
    let ages = route.oldest_s.into_iter().chain(route.parked_s);
    ages.reduce(f64::max)
}
