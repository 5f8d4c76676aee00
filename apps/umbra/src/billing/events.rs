//! What happens to cards and subscriptions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::catalog::catalog;

/// The header of [`SubscriptionStarted`] that names the card it is paid with: licensing needs it when a card goes.
pub const BILLING_KEY_ID: &str = "billingkeyid";
/// The header of [`SubscriptionStarted`], [`SubscriptionCanceled`] and [`PaymentRefunded`] that names who pays: notification needs
/// it to tell them.
pub const USER_ID: &str = "userid";

/// A user's card can be charged from now on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BillingKeyIssued {
    /// Whose card.
    pub user_id: String,
    /// The card, as we call it.
    pub billing_key_id: String,
}

/// A user took a card away.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BillingKeyDeleted {
    /// Whose card.
    pub user_id: String,
    /// The card, as we call it.
    pub billing_key_id: String,
}

/// A subscription was made and its first charge succeeded. The headers `billingkeyid` and `userid` name the card and who pays.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionStarted {
    /// The subscription.
    pub subscription_id: String,
    /// For which guild.
    pub guild_id: String,
    /// To which plan.
    pub plan_code: String,
}

/// A later charge succeeded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentSucceeded {
    /// The subscription.
    pub subscription_id: String,
    /// The charge.
    pub attempt_id: String,
    /// Paid until then.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String")]
    pub new_period_end: OffsetDateTime,
}

/// A charge failed and will be tried again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentFailed {
    /// The subscription.
    pub subscription_id: String,
    /// The charge.
    pub attempt_id: String,
    /// How often this period's charge has failed.
    pub retry_count: u32,
}

/// A charge failed for the fourth time; the subscription is canceled.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentFailedFinal {
    /// The subscription.
    pub subscription_id: String,
}

/// A payment was given back: it turned out to have succeeded when its subscription had ended or been stopped. The header `userid`
/// names who paid.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentRefunded {
    /// The subscription.
    pub subscription_id: String,
    /// The charge.
    pub attempt_id: String,
    /// How much, in won.
    pub amount: i64,
}

/// A user canceled a subscription, or its guild is gone. The header `userid` names who pays.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionCanceled {
    /// The subscription.
    pub subscription_id: String,
    /// Whether it goes on until what is paid for has passed.
    pub cancel_at_period_end: bool,
}

/// A subscription stands still, for example because the bot was thrown out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionSuspended {
    /// The subscription.
    pub subscription_id: String,
    /// Why.
    pub reason: String,
}

/// A subscription has a better plan at once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanUpgraded {
    /// The subscription.
    pub subscription_id: String,
    /// The plan it had.
    pub old_plan: String,
    /// The plan it has.
    pub new_plan: String,
}

/// A subscription will have a smaller plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanDowngraded {
    /// The subscription.
    pub subscription_id: String,
    /// The plan it has.
    pub old_plan: String,
    /// The plan it will have.
    pub new_plan: String,
    /// From then on.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String")]
    pub effective_at: OffsetDateTime,
}

/// The time of a charge has come. Billing tells itself, by the schedule; nobody else listens.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChargeRequested {
    /// The subscription.
    pub subscription_id: String,
    /// The charge.
    pub attempt_id: String,
}

catalog! {
    BillingKeyIssued of "billing_key" by billing_key_id,
    BillingKeyDeleted of "billing_key" by billing_key_id,
    SubscriptionStarted of "subscription" by subscription_id,
    PaymentSucceeded of "subscription" by subscription_id,
    PaymentFailed of "subscription" by subscription_id,
    PaymentFailedFinal of "subscription" by subscription_id,
    SubscriptionCanceled of "subscription" by subscription_id,
    SubscriptionSuspended of "subscription" by subscription_id,
    PlanUpgraded of "subscription" by subscription_id,
    PlanDowngraded of "subscription" by subscription_id,
    PaymentRefunded of "subscription" by subscription_id,
    ChargeRequested of "subscription" by subscription_id,
}
