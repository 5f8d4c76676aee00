//! The rules of a subscription: when it is charged, the effect of a failed charge, and how it ends.

use std::time::Duration;

use time::OffsetDateTime;

use crate::plan::Plan;
use crate::refusal::Refusal;

/// The number of failed charges that ends a subscription.
pub(crate) const FAILURES_MAX: u32 = 4;

/// The periods and delays of billing.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The length of a paid period.
    pub period: Duration,
    /// The delay before a failed charge is retried.
    pub retry_after: Duration,
    /// The delay before a first charge without a stored outcome is requested again.
    pub ask_after: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(30 * 86_400),
            retry_after: Duration::from_secs(86_400),
            ask_after: Duration::from_secs(60),
        }
    }
}

/// A guild's subscription to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// The subscription id. A later subscription has a greater id.
    pub(crate) subscription_id: String,
    /// The subscribed guild.
    pub(crate) guild_id: String,
    /// The paying user.
    pub(crate) user_id: String,
    /// The card.
    pub(crate) billing_key_id: String,
    /// The current plan.
    pub(crate) plan: Plan,
    /// The announced lower plan and its start.
    pub(crate) next_plan: Option<(Plan, OffsetDateTime)>,
    /// The status.
    pub(crate) status: Status,
    /// Whether the subscription ends at the end of the paid period.
    pub(crate) cancel_at_period_end: bool,
    /// The end of the paid period.
    pub(crate) period_end: Option<OffsetDateTime>,
    /// The number of failed charges for this period.
    pub(crate) failures: u32,
    /// The version of the row. It continues the versions of the guild's earlier subscriptions.
    pub(crate) version: i64,
    /// The guild's version when the subscription was created.
    pub(crate) guild_version: i64,
}

/// The status of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The first charge is in progress.
    Pending,
    /// Paid.
    Active,
    /// A charge failed and will be retried.
    PastDue,
    /// Paused; it is not charged.
    Suspended,
    /// Ended.
    Canceled,
    /// Never started: the first charge was declined.
    Declined,
}

/// The outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Paid.
    Paid,
    /// Not paid.
    Declined,
}

/// The consequence of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The subscription started. The next charge is at the end of the period.
    Started(OffsetDateTime),
    /// The subscription was renewed. The next charge is at the end of the new period.
    Renewed(OffsetDateTime),
    /// The charge is retried at this time.
    Retry(OffsetDateTime),
    /// The subscription ended after too many failed charges.
    GivenUp,
    /// The charge was paid, but the subscription was ended or suspended before: refund it.
    Unwanted,
    /// No consequence: the subscription never started or has ended.
    Nothing,
}

impl Status {
    const ALL: [Self; 6] = [
        Self::Pending,
        Self::Active,
        Self::PastDue,
        Self::Suspended,
        Self::Canceled,
        Self::Declined,
    ];

    /// The name in the database and in responses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::PastDue => "past_due",
            Self::Suspended => "suspended",
            Self::Canceled => "canceled",
            Self::Declined => "declined",
        }
    }

    /// Parses [`Status::name`].
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether the subscription is charged now or later. A guild has at most one live subscription.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Active | Self::PastDue)
    }
}

impl Subscription {
    /// The plan of the next charge.
    pub(crate) fn plan_to_pay(&self) -> Plan {
        self.next_plan_due().unwrap_or(self.plan)
    }

    /// The announced lower plan, if it starts when the current period ends.
    fn next_plan_due(&self) -> Option<Plan> {
        let next = self.next_plan.filter(|(_, from)| Some(*from) <= self.period_end);
        next.map(|(plan, _)| plan)
    }

    /// Whether the next charge should be made. A subscription with `cancel_at_period_end` is canceled here instead.
    pub(crate) fn is_to_be_charged(&mut self) -> bool {
        if self.status.is_live() && self.cancel_at_period_end {
            self.status = Status::Canceled;
        }
        self.status.is_live()
    }

    /// Applies the outcome of a charge.
    pub(crate) fn settle(&mut self, outcome: Outcome, now: OffsetDateTime, pace: &Pace) -> After {
        match (self.status, outcome) {
            (Status::Pending, Outcome::Paid) => After::Started(self.pay_from(now, pace)),
            (Status::Pending, Outcome::Declined) => {
                self.status = Status::Declined;
                After::Nothing
            }
            (Status::Active | Status::PastDue, Outcome::Paid) => {
                After::Renewed(self.pay_from(self.period_end.unwrap_or(now), pace))
            }
            (Status::Active | Status::PastDue, Outcome::Declined) => self.fail(now, pace),
            (Status::Suspended | Status::Canceled | Status::Declined, Outcome::Paid) => After::Unwanted,
            (Status::Suspended | Status::Canceled | Status::Declined, Outcome::Declined) => After::Nothing,
        }
    }

    fn pay_from(&mut self, begin: OffsetDateTime, pace: &Pace) -> OffsetDateTime {
        let end = begin + pace.period;
        if let Some(plan) = self.next_plan_due() {
            self.plan = plan;
            self.next_plan = None;
        }
        self.status = Status::Active;
        self.period_end = Some(end);
        self.failures = 0;
        end
    }

    /// Counts a failed charge. With `cancel_at_period_end` it is not retried: the subscription ends.
    fn fail(&mut self, now: OffsetDateTime, pace: &Pace) -> After {
        self.failures += 1;
        if self.cancel_at_period_end {
            self.status = Status::Canceled;
            return After::Nothing;
        }
        if self.failures >= FAILURES_MAX {
            self.status = Status::Canceled;
            return After::GivenUp;
        }
        self.status = Status::PastDue;
        After::Retry(now + pace.retry_after)
    }

    /// Upgrades at once. The price changes with the next charge. Returns the old plan.
    pub(crate) fn upgrade(&mut self, to: Plan) -> Result<Plan, Refusal> {
        self.check_active()?;
        if to <= self.plan {
            let says = format!("{} is not higher than the current plan {}", to.code(), self.plan.code());
            return Err(Refusal::conflict("not_an_upgrade", says));
        }
        self.next_plan = None;
        Ok(std::mem::replace(&mut self.plan, to))
    }

    /// Downgrades with the first period whose charge was not requested yet. Returns the start of that period.
    pub(crate) fn downgrade(&mut self, to: Plan, is_asked: bool, pace: &Pace) -> Result<OffsetDateTime, Refusal> {
        self.check_active()?;
        let last = self.next_plan.map_or(self.plan, |(plan, _)| plan);
        if to >= last {
            let says = format!("{} is not lower than the plan {}", to.code(), last.code());
            return Err(Refusal::conflict("not_a_downgrade", says));
        }
        let end = self.period_end.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let from = if is_asked { end + pace.period } else { end };
        self.next_plan = Some((to, from));
        Ok(from)
    }

    /// Cancels the subscription for the user, at once or at the end of the paid period.
    pub(crate) fn cancel(&mut self, at_period_end: bool) -> Result<(), Refusal> {
        if !matches!(self.status, Status::Active | Status::PastDue) {
            return Err(self.not_active());
        }
        if at_period_end && self.cancel_at_period_end {
            return Err(Refusal::conflict(
                "already_canceled",
                "the subscription already ends at the end of its period",
            ));
        }
        self.cancel_at_period_end = at_period_end;
        if !at_period_end {
            self.status = Status::Canceled;
        }
        Ok(())
    }

    /// Suspends the subscription. Pattern 3, natural idempotency: a subscription that is not live stays unchanged.
    pub(crate) fn suspend(&mut self) -> bool {
        let is_live = self.status.is_live();
        if is_live {
            self.status = Status::Suspended;
        }
        is_live
    }

    /// Ends the subscription, also within a paid period. Pattern 3, natural idempotency: an ended subscription stays
    /// unchanged.
    pub(crate) fn end(&mut self) -> bool {
        let is_over = matches!(self.status, Status::Canceled | Status::Declined);
        if !is_over {
            self.status = Status::Canceled;
        }
        !is_over
    }

    fn check_active(&self) -> Result<(), Refusal> {
        match self.status {
            Status::Active => Ok(()),
            _ => Err(self.not_active()),
        }
    }

    pub(crate) fn not_active(&self) -> Refusal {
        Refusal::conflict("not_active", format!("the subscription is {}", self.status.name()))
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-04-13 0:15 UTC);

    fn subscription(status: Status) -> Subscription {
        Subscription {
            subscription_id: "s".into(),
            guild_id: "g".into(),
            user_id: "u".into(),
            billing_key_id: "b".into(),
            plan: Plan::Pro,
            next_plan: None,
            status,
            cancel_at_period_end: false,
            period_end: Some(NOW),
            failures: 0,
            version: 1,
            guild_version: 1,
        }
    }

    #[test]
    fn u_03_the_fourth_failure_ends_it_and_those_before_wait_a_day() {
        let pace = Pace::default();
        let mut one = subscription(Status::Active);
        let tomorrow = NOW + Duration::from_secs(86_400);
        for failures in 1..=3 {
            assert_eq!(one.settle(Outcome::Declined, NOW, &pace), After::Retry(tomorrow));
            assert_eq!((one.status, one.failures), (Status::PastDue, failures));
        }
        assert_eq!(one.settle(Outcome::Declined, NOW, &pace), After::GivenUp);
        assert_eq!(one.status, Status::Canceled);
        assert_eq!(one.settle(Outcome::Declined, NOW, &pace), After::Nothing);
    }

    #[test]
    fn a_payment_that_nobody_wants_any_more_goes_back() {
        for status in [Status::Suspended, Status::Canceled, Status::Declined] {
            let mut one = subscription(status);
            let as_it_was = one.clone();
            assert_eq!(one.settle(Outcome::Paid, NOW, &Pace::default()), After::Unwanted);
            assert_eq!(one.settle(Outcome::Declined, NOW, &Pace::default()), After::Nothing);
            assert_eq!(one, as_it_was);
        }
    }

    #[test]
    fn a_charge_under_way_renews_what_is_to_end_or_ends_it() {
        let pace = Pace::default();
        let mut paid = subscription(Status::Active);
        paid.cancel(true).unwrap();
        let mut declined = paid.clone();
        let end = NOW + pace.period;
        assert_eq!(paid.settle(Outcome::Paid, NOW, &pace), After::Renewed(end));
        assert!(!paid.is_to_be_charged(), "it ends with the paid period");
        assert_eq!(declined.settle(Outcome::Declined, NOW, &pace), After::Nothing);
        assert_eq!(declined.status, Status::Canceled);
    }

    #[test]
    fn a_late_payment_goes_on_from_the_end_of_the_period() {
        let pace = Pace::default();
        let mut one = subscription(Status::Active);
        let late = NOW + Duration::from_secs(5);
        one.settle(Outcome::Declined, late, &pace);
        assert_eq!(
            one.settle(Outcome::Paid, late, &pace),
            After::Renewed(NOW + pace.period)
        );
        assert_eq!((one.status, one.failures), (Status::Active, 0));
    }

    #[test]
    fn a_first_charge_starts_it_or_leaves_nothing() {
        let pace = Pace::default();
        let mut one = subscription(Status::Pending);
        assert_eq!(one.settle(Outcome::Paid, NOW, &pace), After::Started(NOW + pace.period));
        let mut two = subscription(Status::Pending);
        assert_eq!(two.settle(Outcome::Declined, NOW, &pace), After::Nothing);
        assert!(!two.status.is_live());
    }

    #[test]
    fn a_plan_rises_at_once_and_falls_with_the_next_period() {
        let mut one = subscription(Status::Active);
        assert_eq!(one.upgrade(Plan::Pro).unwrap_err().code, "not_an_upgrade");
        assert_eq!(one.upgrade(Plan::Business).unwrap(), Plan::Pro);
        let pace = Pace::default();
        let down = |one: &mut Subscription, to| one.downgrade(to, false, &pace);
        assert_eq!(down(&mut one, Plan::Business).unwrap_err().code, "not_a_downgrade");
        assert_eq!(down(&mut one, Plan::Pro).unwrap(), NOW);
        assert_eq!(down(&mut one, Plan::Pro).unwrap_err().code, "not_a_downgrade");
        assert_eq!((one.plan, one.plan_to_pay()), (Plan::Business, Plan::Pro));
        one.settle(Outcome::Paid, NOW, &pace);
        assert_eq!((one.plan, one.next_plan), (Plan::Pro, None));
        assert_eq!(
            subscription(Status::PastDue).upgrade(Plan::Business).unwrap_err().code,
            "not_active"
        );
    }

    #[test]
    fn a_plan_does_not_fall_with_a_period_that_is_being_paid() {
        let pace = Pace::default();
        let mut one = subscription(Status::Active);
        one.upgrade(Plan::Business).unwrap();
        let from = one.downgrade(Plan::Pro, true, &pace).unwrap();
        assert_eq!(from, NOW + pace.period);
        assert_eq!(
            one.plan_to_pay(),
            Plan::Business,
            "also when that charge fails and is repeated"
        );
        one.settle(Outcome::Paid, NOW, &pace);
        assert_eq!((one.plan, one.plan_to_pay()), (Plan::Business, Plan::Pro));
        one.settle(Outcome::Paid, from, &pace);
        assert_eq!((one.plan, one.next_plan), (Plan::Pro, None));
    }

    #[test]
    fn canceling_at_the_end_of_the_period_charges_no_more() {
        let mut one = subscription(Status::Active);
        one.cancel(true).unwrap();
        assert_eq!(one.cancel(true).unwrap_err().code, "already_canceled");
        assert_eq!(one.status, Status::Active);
        assert!(!one.is_to_be_charged());
        assert_eq!(one.status, Status::Canceled);
    }

    #[test]
    fn u_05_suspending_or_ending_twice_is_the_same_as_once() {
        let mut one = subscription(Status::Active);
        assert!(one.suspend());
        let once = one.clone();
        assert!(!one.suspend());
        assert_eq!(one, once);
        assert!(one.end());
        assert!(!one.end() && !one.suspend());
        assert_eq!(one.status, Status::Canceled);
    }
}
