//! The rules of a licence: what it follows, and that it never goes back.

use std::time::Duration;

use time::OffsetDateTime;

use crate::plan::Plan;

/// What a guild may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct License {
    /// Its id.
    pub(crate) license_id: String,
    /// Which guild.
    pub(crate) guild_id: String,
    /// What it may use.
    pub(crate) plan: Plan,
    /// What it may use from then on, once that is paid.
    pub(crate) next_plan: Option<(Plan, OffsetDateTime)>,
    /// Whether it counts.
    pub(crate) status: Status,
    /// Until when; a free one has no end.
    pub(crate) expires_at: Option<OffsetDateTime>,
    /// The subscription that pays for it.
    pub(crate) subscription_id: Option<String>,
    /// The card that pays for it.
    pub(crate) billing_key_id: Option<String>,
    /// The mark of the newest event of its guild that it has followed.
    pub(crate) guild_mark: String,
    /// The mark of the newest event of its guild's subscriptions that it has followed.
    pub(crate) subscription_mark: String,
}

/// Whether a licence counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It does.
    Active,
    /// Not for now.
    Suspended,
    /// Never again.
    Canceled,
}

/// A subscription that begins.
#[derive(Clone, Debug)]
pub(crate) struct Paid {
    /// Which.
    pub(crate) subscription_id: String,
    /// With which card.
    pub(crate) billing_key_id: Option<String>,
    /// What for.
    pub(crate) plan: Plan,
    /// Until when.
    pub(crate) until: OffsetDateTime,
}

impl Status {
    /// As it is kept and shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Canceled => "canceled",
        }
    }

    /// Reads back [`Status::name`].
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

    /// Whether an event of its guild is news to it. Marks of one guild's events rise, so an old one that comes again is none.
    pub(crate) fn follow_guild(&mut self, mark: &str) -> bool {
        follow(&mut self.guild_mark, mark)
    }

    /// Whether an event of its subscriptions is news to it. To one that is over nothing is: its guild is gone for ever, and a
    /// payment that is told late revives nothing.
    pub(crate) fn follow_subscription(&mut self, mark: &str) -> bool {
        !self.is_over() && follow(&mut self.subscription_mark, mark)
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.status == Status::Canceled
    }

    /// The bot is back: a licence that stood still is a free one.
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

    /// A subscription pays for it.
    pub(crate) fn grant(&mut self, paid: Paid) {
        self.plan = paid.plan;
        self.next_plan = None;
        self.status = Status::Active;
        self.expires_at = Some(paid.until);
        self.subscription_id = Some(paid.subscription_id);
        self.billing_key_id = paid.billing_key_id;
    }

    /// It is for a better plan, at once.
    pub(crate) fn upgrade(&mut self, plan: Plan) {
        self.plan = plan;
        self.next_plan = None;
    }

    /// It falls to a plan; answers the one it was for, if that was a greater one.
    pub(crate) fn fall_to(&mut self, plan: Plan) -> Option<Plan> {
        self.next_plan = None;
        if plan == Plan::Free {
            self.expires_at = None;
        }
        (plan < self.plan).then(|| std::mem::replace(&mut self.plan, plan))
    }

    /// The smaller plan that a payment until then is for, if one was announced.
    pub(crate) fn plan_paid_until(&self, until: OffsetDateTime) -> Option<Plan> {
        self.next_plan.filter(|(_, from)| until > *from).map(|(plan, _)| plan)
    }

    /// It does not count for now. Pattern 3, natural idempotency: one that does not count stays so.
    pub(crate) fn suspend(&mut self) -> bool {
        let is_active = self.status == Status::Active;
        if is_active {
            self.status = Status::Suspended;
        }
        is_active
    }

    /// It is over. Pattern 3, natural idempotency.
    pub(crate) fn cancel(&mut self) -> bool {
        std::mem::replace(&mut self.status, Status::Canceled) != Status::Canceled
    }

    /// What the guild may use now. After the end of what is paid there is some grace, in which failed charges are repeated.
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
        assert!(license.follow_subscription("3"), "whoever subscribes anew has it again");
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
        assert_eq!(license.fall_to(Plan::Pro), Some(Plan::Business));
        assert_eq!(license.fall_to(Plan::Pro), None);
    }

    #[test]
    fn a_bot_that_comes_back_brings_a_free_licence() {
        let mut license = pro();
        assert!(!license.reinstall(), "it was never away");
        license.suspend();
        assert!(license.reinstall());
        assert_eq!(
            (license.plan, license.status, &license.billing_key_id),
            (Plan::Free, Status::Active, &None)
        );
        assert!(license.cancel() && !license.cancel() && !license.suspend() && !license.reinstall());
    }
}
