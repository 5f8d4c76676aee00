//! The alert rules of the ledger and their limits.

use postroom::alert::Channel;
use postroom::{Result, clock, operate};
use postroom_host::{Finding, Host, Rule};

use crate::events::TYPES;

/// An event that is pending for longer than this is late.
pub const PENDING_LONG_S: u64 = 300;
/// The count of late events stops here; the alert fires at 100.
const LATE_MAX: usize = 1_000;

/// All rules.
pub const RULES: [Rule; 2] = [
    Rule {
        name: "ledger_events_failed",
        channel: Channel::Slack,
        says: "ledger events became dead letters",
        next: "postroom dead list; fix the cause, then postroom dead retry",
    },
    Rule {
        name: "ledger_events_pending",
        channel: Channel::PagerDuty,
        says: "ledger events have been pending for more than five minutes",
        next: "postroom why; check the broker",
    },
];

/// The values that the rules check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Events that became dead letters on a route.
    pub failed: u64,
    /// Events that are pending for longer than [`PENDING_LONG_S`].
    pub pending_long: u64,
}

/// Evaluates [`RULES`]: the first fires at one failed event, the second at 100 late events.
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
    store.pulse().await?; // includes events that were committed while no relay ran
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
