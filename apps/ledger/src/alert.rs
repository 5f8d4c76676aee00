//! When to wake whom: the rules, and what they say about what is seen. Sending is not done here.

use serde::Serialize;

/// An event that waits longer than this waits too long.
pub const PENDING_LONG_S: u64 = 300;

/// Where an alert goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// Somebody looks in the morning.
    Slack,
    /// Somebody gets up.
    PagerDuty,
}

/// What the rules look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Observed {
    /// Events that were given up.
    pub failed: u64,
    /// Events that have been waiting for longer than [`PENDING_LONG_S`].
    pub pending_long: u64,
}

/// A rule: from how many on, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What it is called.
    pub name: &'static str,
    /// Where it goes.
    pub channel: Channel,
    /// It fires from this number on.
    pub at_least: u64,
    /// What to do.
    pub next: &'static str,
    number: fn(&Observed) -> u64,
}

/// Every rule.
pub const RULES: [Rule; 2] = [
    Rule {
        name: "ledger_events_failed",
        channel: Channel::Slack,
        at_least: 1,
        next: "postroom dead list; mend the cause, then postroom dead retry",
        number: |observed| observed.failed,
    },
    Rule {
        name: "ledger_events_pending",
        channel: Channel::PagerDuty,
        at_least: 100,
        next: "postroom why; look after the broker",
        number: |observed| observed.pending_long,
    },
];

/// A rule that fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Which rule.
    pub rule: &'static str,
    /// Where it goes.
    pub channel: Channel,
    /// How many events.
    pub events: u64,
    /// What to do.
    pub next: &'static str,
}

/// What fires.
pub fn alerts(observed: &Observed) -> Vec<Alert> {
    let fires = |rule: &&Rule| (rule.number)(observed) >= rule.at_least;
    let alert = |rule: &Rule| Alert {
        rule: rule.name,
        channel: rule.channel,
        events: (rule.number)(observed),
        next: rule.next,
    };
    RULES.iter().filter(fires).map(alert).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_goes_to_slack_and_a_hundred_late_events_wake_somebody() {
        let check = |failed, pending_long, expected: &[Channel]| {
            let channels: Vec<Channel> = alerts(&Observed { failed, pending_long })
                .iter()
                .map(|alert| alert.channel)
                .collect();
            assert_eq!(channels, expected, "{failed} failed, {pending_long} late");
        };
        check(0, 0, &[]);
        check(0, 99, &[]);
        check(1, 0, &[Channel::Slack]);
        check(0, 100, &[Channel::PagerDuty]);
        check(7, 500, &[Channel::Slack, Channel::PagerDuty]);
    }
}
