//! The rules of a licence: the events it follows, and that an old event never changes it back.

use std::time::Duration;

use time::OffsetDateTime;

use crate::plan::Plan;

/// The licence of a guild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct License {
    /// The licence id.
    pub(crate) license_id: String,
    /// The licensed guild.
    pub(crate) guild_id: String,
    /// The current plan.
    pub(crate) plan: Plan,
    /// The announced lower plan and its start. It takes effect with the payment for it.
    pub(crate) next_plan: Option<(Plan, OffsetDateTime)>,
    /// The status.
    pub(crate) status: Status,
    /// The end of the paid period. A free licence has none.
    pub(crate) expires_at: Option<OffsetDateTime>,
    /// The subscription that pays for the licence.
    pub(crate) subscription_id: Option<String>,
    /// The card that pays for the licence.
    pub(crate) billing_key_id: Option<String>,
    /// The mark of the newest applied event of the guild.
    pub(crate) guild_mark: String,
    /// The mark of the newest applied event of the guild's subscriptions.
    pub(crate) subscription_mark: String,
}

/// The status of a licence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The guild may use the plan.
    Active,
    /// Suspended; a new subscription or a reinstallation activates it again.
    Suspended,
    /// Ended forever.
    Canceled,
}

/// The paid subscription behind a licence.
#[derive(Clone, Debug)]
pub(crate) struct Paid {
    /// The subscription id.
    pub(crate) subscription_id: String,
    /// The card.
    pub(crate) billing_key_id: Option<String>,
    /// The paid plan.
    pub(crate) plan: Plan,
    /// The end of the paid period.
    pub(crate) until: OffsetDateTime,
}

impl Status {
    /// The name in the database and in responses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Canceled => "canceled",
        }
    }

    /// Parses [`Status::name`].
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "active" => Self::Active,
            "suspended" => Self::Suspended,
            _ => Self::Canceled,
        }
    }
}

impl License {
    /// A free licence for a guild.
    pub(crate) fn free(license_id: String, guild_id: String, mark: &str) -> Self {
        Self {
            license_id,
            guild_id,
            plan: Plan::Free,
            next_plan: None,
            status: Status::Active,
            expires_at: None,
            subscription_id: None,
            billing_key_id: None,
            guild_mark: mark.to_owned(),
            subscription_mark: String::new(),
        }
    }

    /// Returns whether an event of the guild is newer than the last applied one, and records its mark. Marks of one guild
    /// increase, so a repeated old event returns `false`.
    pub(crate) fn follow_guild(&mut self, mark: &str) -> bool {
        follow(&mut self.guild_mark, mark)
    }

    /// Like [`License::follow_guild`], for events of the subscriptions. A canceled licence follows none: its guild is
    /// deleted, and a late payment event must not activate it again.
    pub(crate) fn follow_subscription(&mut self, mark: &str) -> bool {
        !self.is_over() && follow(&mut self.subscription_mark, mark)
    }

    /// Whether the licence has ended forever.
    pub(crate) fn is_over(&self) -> bool {
        self.status == Status::Canceled
    }

    /// Handles a reinstallation of the bot: a suspended licence becomes a free one. Returns whether it changed.
    pub(crate) fn reinstall(&mut self) -> bool {
        if self.status != Status::Suspended {
            return false;
        }
        *self = Self {
            subscription_mark: self.subscription_mark.clone(),
            ..Self::free(self.license_id.clone(), self.guild_id.clone(), &self.guild_mark)
        };
        true
    }

    /// Applies a paid subscription.
    pub(crate) fn grant(&mut self, paid: Paid) {
        self.plan = paid.plan;
        self.next_plan = None;
        self.status = Status::Active;
        self.expires_at = Some(paid.until);
        self.subscription_id = Some(paid.subscription_id);
        self.billing_key_id = paid.billing_key_id;
    }

    /// Upgrades to a plan at once.
    pub(crate) fn upgrade(&mut self, plan: Plan) {
        self.plan = plan;
        self.next_plan = None;
    }

    /// Downgrades to a plan. Returns the old plan if it was higher.
    pub(crate) fn downgrade_to(&mut self, plan: Plan) -> Option<Plan> {
        self.next_plan = None;
        if plan == Plan::Free {
            self.expires_at = None;
        }
        (plan < self.plan).then(|| std::mem::replace(&mut self.plan, plan))
    }

    /// The announced lower plan, if a payment up to `until` pays for it.
    pub(crate) fn plan_paid_until(&self, until: OffsetDateTime) -> Option<Plan> {
        self.next_plan.filter(|(_, from)| until > *from).map(|(plan, _)| plan)
    }

    /// Suspends the licence. Pattern 3, natural idempotency: a licence that is not active stays unchanged.
    pub(crate) fn suspend(&mut self) -> bool {
        let is_active = self.status == Status::Active;
        if is_active {
            self.status = Status::Suspended;
        }
        is_active
    }

    /// Cancels the licence forever. Pattern 3, natural idempotency.
    pub(crate) fn cancel(&mut self) -> bool {
        std::mem::replace(&mut self.status, Status::Canceled) != Status::Canceled
    }

    /// The plan that the guild may use now. A grace period follows the paid period, because failed charges are retried then.
    pub(crate) fn plan_at(&self, now: OffsetDateTime, grace: Duration) -> Plan {
        let is_over = self.expires_at.is_some_and(|end| now > end + grace);
        match self.status {
            Status::Active if !is_over => self.plan,
            _ => Plan::Free,
        }
    }
}

fn follow(newest: &mut String, mark: &str) -> bool {
    let is_news = newest.as_str() < mark;
    if is_news {
        mark.clone_into(newest);
    }
    is_news
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-04-13 0:15 UTC);
    const DAY: Duration = Duration::from_secs(86_400);

    fn pro() -> License {
        let mut license = License::free("l".into(), "g".into(), "1");
        license.grant(Paid {
            subscription_id: "s".into(),
            billing_key_id: Some("b".into()),
            plan: Plan::Pro,
            until: NOW + DAY,
        });
        license
    }

    #[test]
    fn u_05_an_old_event_that_comes_again_is_no_news() {
        let mut license = License::free("l".into(), "g".into(), "1");
        assert!(!license.follow_guild("1"));
        assert!(license.follow_guild("3"));
        assert!(!license.follow_guild("2"));
        assert!(license.follow_subscription("2"), "each has an order of its own");
    }

    #[test]
    fn a_licence_that_is_over_follows_no_subscription() {
        let mut license = pro();
        assert!(license.follow_subscription("2"));
        license.suspend();
        assert!(
            license.follow_subscription("3"),
            "a new subscription activates it again"
        );
        license.cancel();
        let over = license.clone();
        assert!(!license.follow_subscription("4"));
        assert_eq!(license, over);
    }

    #[test]
    fn a_licence_lasts_as_long_as_it_is_paid_and_some_grace() {
        let mut license = pro();
        assert_eq!(license.plan_at(NOW + DAY + DAY, DAY), Plan::Pro);
        assert_eq!(license.plan_at(NOW + DAY + DAY + DAY, DAY), Plan::Free);
        assert!(license.suspend() && !license.suspend());
        assert_eq!(license.plan_at(NOW, DAY), Plan::Free);
    }

    #[test]
    fn a_smaller_plan_comes_with_the_payment_for_it() {
        let mut license = pro();
        license.upgrade(Plan::Business);
        license.next_plan = Some((Plan::Pro, NOW + DAY));
        assert_eq!(license.plan_paid_until(NOW + DAY), None, "that was paid before");
        assert_eq!(license.plan_paid_until(NOW + DAY + DAY), Some(Plan::Pro));
        assert_eq!(license.downgrade_to(Plan::Pro), Some(Plan::Business));
        assert_eq!(license.downgrade_to(Plan::Pro), None);
    }

    #[test]
    fn a_bot_that_comes_back_brings_a_free_licence() {
        let mut license = pro();
        assert!(!license.reinstall(), "it was not suspended");
        license.suspend();
        assert!(license.reinstall());
        assert_eq!(
            (license.plan, license.status, &license.billing_key_id),
            (Plan::Free, Status::Active, &None)
        );
        assert!(license.cancel() && !license.cancel() && !license.suspend() && !license.reinstall());
    }
}
