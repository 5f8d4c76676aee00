//! Alert rules: the values measured over the module's events, and their limits.

use postroom::alert::Channel;
use postroom::operate::Failures;
use postroom::{DomainEvent as _, Entry, Result, clock, operate};
use postroom_host::{Finding, Host, Rule};
use time::OffsetDateTime;

use crate::billing::events::ChargeRequested;

/// The count stops here; the alert fires above 1,000.
const UNPUBLISHED_MAX: usize = 2_000;

/// The four rules of the specification.
pub const RULES: [Rule; 4] = [
    rule("umbra_unpublished_events", "too many Umbra events are undelivered"),
    rule(
        "umbra_event_age_max_s",
        "the oldest undelivered Umbra event is too old, in seconds",
    ),
    rule(
        "umbra_failed_events",
        "too many Umbra events fail; a handler may be broken",
    ),
    rule("umbra_retry_count_mean", "Umbra events keep failing after retries"),
];

/// One more rule. A charge is retried until its outcome is known, so a dead letter means a payment or refund that nothing
/// else settles.
pub const CHARGES: Rule = Rule {
    name: "umbra_charges_given_up",
    channel: Channel::PagerDuty,
    says: "a charge or a refund became a dead letter; a customer's payment is not settled",
    next: "postroom dead list; settle it with the bank, then postroom dead retry or discard",
};

/// Counts the dead letters of charges.
pub(crate) async fn look_at_charges(host: Host) -> Result<[Finding; 1]> {
    let types = [ChargeRequested::TYPE];
    let failures = operate::failures(&*host.store, &types, &host.carriers(&types)).await?;
    Ok([Finding::above(failures.dead as f64, 0.0)])
}

const fn rule(name: &'static str, says: &'static str) -> Rule {
    Rule {
        name,
        channel: Channel::Slack,
        says,
        next: "postroom why; postroom status",
    }
}

/// The measured values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauges {
    /// Events that at least one route has not delivered yet.
    pub unpublished_events: u64,
    /// The age of the oldest of them, in seconds.
    pub event_age_max_s: f64,
    /// Failed events: those in retry and the dead letters.
    pub failed_events: u64,
    /// The mean number of failed attempts of the events in retry.
    pub retry_count_mean: f64,
}

impl Gauges {
    /// Computes the values from the undelivered entries (oldest first) and the failures.
    pub fn of(waiting: &[Entry], failures: &Failures, now: OffsetDateTime) -> Self {
        let oldest = waiting.first().map(|entry| now - entry.created_at);
        Self {
            unpublished_events: waiting.len() as u64,
            event_age_max_s: oldest.map_or(0.0, |age| age.as_seconds_f64().max(0.0)),
            failed_events: failures.retrying + failures.dead,
            retry_count_mean: mean(failures.attempts, failures.retrying),
        }
    }

    /// Evaluates [`RULES`].
    pub fn judge(&self) -> [Finding; 4] {
        [
            Finding::above(self.unpublished_events as f64, 1_000.0),
            Finding::above(self.event_age_max_s, 60.0),
            Finding::above(self.failed_events as f64, 10.0),
            Finding::above(self.retry_count_mean, 1.0),
        ]
    }
}

/// Evaluates the rules over all events of the module, on all routes that carry them.
pub(crate) async fn look(host: Host, types: Vec<&'static str>) -> Result<[Finding; 4]> {
    let (store, carriers) = (&*host.store, host.carriers(&types));
    store.pulse().await?; // includes events that were committed while no relay ran
    let waiting = operate::undelivered(store, &types, &carriers, UNPUBLISHED_MAX).await?;
    let failures = operate::failures(store, &types, &carriers).await?;
    Ok(Gauges::of(&waiting, &failures, clock::now()).judge())
}

fn mean(sum: u64, count: u64) -> f64 {
    match count {
        0 => 0.0,
        _ => sum as f64 / count as f64,
    }
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
        let check = |change: fn(&mut Gauges), expected: &[&str]| {
            let mut gauges = CALM;
            change(&mut gauges);
            let firing = RULES
                .iter()
                .zip(gauges.judge())
                .filter(|(_, finding)| finding.is_firing);
            let firing: Vec<&str> = firing.map(|(rule, _)| rule.name).collect();
            assert_eq!(firing, expected, "{gauges:?}");
        };
        check(|_| (), &[]);
        check(|gauges| gauges.unpublished_events += 1, &["umbra_unpublished_events"]);
        check(|gauges| gauges.event_age_max_s += 0.1, &["umbra_event_age_max_s"]);
        check(|gauges| gauges.failed_events += 1, &["umbra_failed_events"]);
        check(|gauges| gauges.retry_count_mean += 0.1, &["umbra_retry_count_mean"]);
    }

    #[test]
    fn u_08_what_failed_is_counted_and_a_mean_of_nothing_is_nothing() {
        let now = clock::now();
        let failures = Failures {
            retrying: 2,
            attempts: 3,
            dead: 4,
        };
        let gauges = Gauges::of(&[], &failures, now);
        assert_eq!((gauges.failed_events, gauges.retry_count_mean), (6, 1.5));
        let nothing = Gauges::of(&[], &Failures::default(), now);
        assert_eq!((nothing.event_age_max_s, nothing.retry_count_mean), (0.0, 0.0));
    }
}
