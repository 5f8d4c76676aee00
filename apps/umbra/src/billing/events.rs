//! The events of cards and subscriptions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::catalog::catalog;

/// The header of [`SubscriptionStarted`] with the id of the card. Licensing needs it when a card is deleted.
pub const BILLING_KEY_ID: &str = "billingkeyid";
/// The header of [`SubscriptionStarted`], [`SubscriptionCanceled`] and [`PaymentRefunded`] with the id of the paying user.
/// Notification needs it to address the message.
pub const USER_ID: &str = "userid";

/// A user registered a card for charges.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BillingKeyIssued {
    /// The owner of the card.
    pub user_id: String,
    /// The id of the card in Umbra.
    pub billing_key_id: String,
}

/// A user deleted a card.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BillingKeyDeleted {
    /// The owner of the card.
    pub user_id: String,
    /// The id of the card in Umbra.
    pub billing_key_id: String,
}

/// A subscription was created and its first charge succeeded. The headers `billingkeyid` and `userid` carry the card and the
/// paying user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionStarted {
    /// The subscription.
    pub subscription_id: String,
    /// The subscribed guild.
    pub guild_id: String,
    /// The subscribed plan.
    pub plan_code: String,
}

/// A later charge succeeded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentSucceeded {
    /// The subscription.
    pub subscription_id: String,
    /// The charge.
    pub attempt_id: String,
    /// The end of the paid period.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String")]
    pub new_period_end: OffsetDateTime,
}

/// A charge failed and will be retried.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentFailed {
    /// The subscription.
    pub subscription_id: String,
    /// The charge.
    pub attempt_id: String,
    /// The number of failed charges for this period.
    pub retry_count: u32,
}

/// A charge failed for the fourth time; the subscription is canceled.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentFailedFinal {
    /// The subscription.
    pub subscription_id: String,
}

/// A payment was refunded: it succeeded after its subscription had ended or been suspended. The header `userid` carries the
/// paying user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentRefunded {
    /// The subscription.
    pub subscription_id: String,
    /// The charge.
    pub attempt_id: String,
    /// The refunded amount, in won.
    pub amount: i64,
}

/// A user canceled a subscription, or its guild was deleted. The header `userid` carries the paying user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionCanceled {
    /// The subscription.
    pub subscription_id: String,
    /// Whether the subscription continues until the end of the paid period.
    pub cancel_at_period_end: bool,
}

/// A subscription was suspended, for example because the bot was removed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionSuspended {
    /// The subscription.
    pub subscription_id: String,
    /// The reason.
    pub reason: String,
}

/// A subscription was upgraded, effective at once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanUpgraded {
    /// The subscription.
    pub subscription_id: String,
    /// The plan before the upgrade.
    pub old_plan: String,
    /// The plan after the upgrade.
    pub new_plan: String,
}

/// A subscription will be downgraded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanDowngraded {
    /// The subscription.
    pub subscription_id: String,
    /// The current plan.
    pub old_plan: String,
    /// The future plan.
    pub new_plan: String,
    /// The start of the future plan.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String")]
    pub effective_at: OffsetDateTime,
}

/// A charge is due. The schedule emits this event, and only billing subscribes to it.
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
