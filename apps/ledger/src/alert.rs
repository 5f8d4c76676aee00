//! When to wake whom: the rules, and what they say about what is seen.

use postroom::alert::Channel;
use postroom::{Result, clock, operate};
use postroom_host::{Finding, Host, Rule};

use crate::events::TYPES;

/// An event that waits longer than this waits too long.
pub const PENDING_LONG_S: u64 = 300;
/// More late events than this are not counted: the alert has fired long before.
const LATE_MAX: usize = 1_000;

/// Every rule.
pub const RULES: [Rule; 2] = [
    Rule {
        name: "ledger_events_failed",
        channel: Channel::Slack,
        says: "events of the ledger were given up",
        next: "postroom dead list; mend the cause, then postroom dead retry",
    },
    Rule {
        name: "ledger_events_pending",
        channel: Channel::PagerDuty,
        says: "events of the ledger have waited for more than five minutes",
        next: "postroom why; look after the broker",
    },
];

/// What the rules look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Events that a route has given up.
    pub failed: u64,
    /// Events that have been waiting for longer than [`PENDING_LONG_S`].
    pub pending_long: u64,
}

/// What each of [`RULES`] says: one failure is enough, of late events there must be a hundred.
pub fn judge(observed: &Observed) -> [Finding; 2] {
    [
        Finding::above(observed.failed as f64, 0.0),
        Finding::at_least(observed.pending_long as f64, 100.0),
    ]
}

pub(crate) async fn look(host: Host) -> Result<[Finding; 2]> {
    Ok(judge(&observe(&host).await?))
}

async fn observe(host: &Host) -> Result<Observed> {
    let store = &*host.store;
    store.pulse().await?; // what was committed while no relay ran is pending too
    let carriers = host.carriers(&TYPES);
    let late = clock::now() - std::time::Duration::from_secs(PENDING_LONG_S);
    let pending = operate::undelivered(store, &TYPES, &carriers, LATE_MAX).await?;
    Ok(Observed {
        failed: operate::failures(store, &TYPES, &carriers).await?.dead,
        pending_long: pending.iter().filter(|entry| entry.created_at < late).count() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_goes_to_slack_and_a_hundred_late_events_wake_somebody() {
        let check = |failed, pending_long, expected: &[Channel]| {
            let findings = judge(&Observed { failed, pending_long });
            let firing = RULES.iter().zip(findings).filter(|(_, finding)| finding.is_firing);
            let channels: Vec<Channel> = firing.map(|(rule, _)| rule.channel).collect();
            assert_eq!(channels, expected, "{failed} failed, {pending_long} late");
        };
        check(0, 0, &[]);
        check(0, 99, &[]);
        check(1, 0, &[Channel::Slack]);
        check(0, 100, &[Channel::PagerDuty]);
        check(7, 500, &[Channel::Slack, Channel::PagerDuty]);
    }
}
