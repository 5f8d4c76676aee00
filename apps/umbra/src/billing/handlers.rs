//! User requests for cards and subscriptions, and billing's reactions to deleted guilds and cards.

use postroom::{DomainEvent, Event, Result, Tx, append, clock, emit, table};
use postroom_host::Problem;
use sea_orm::DatabaseConnection;

use super::attempt::{self, Attempt};
use super::card::{Answer, Charge};
use super::charge::{self, Till};
use super::domain::{Status, Subscription};
use super::events::{
    BillingKeyDeleted, BillingKeyIssued, ChargeRequested, PlanDowngraded, PlanUpgraded, SubscriptionCanceled,
    SubscriptionSuspended, USER_ID,
};
use super::tables::{self, BillingKey};
use crate::door::{commit, new_id};
use crate::guild::events::{BotKicked, GuildDeleted};
use crate::order;
use crate::plan::Plan;
use crate::refusal::{Kind, Refusal};

pub(crate) async fn issue_key(tx: &Tx, user_id: &str, card_token: &str) -> Result<BillingKey> {
    let key = BillingKey {
        billing_key_id: new_id(),
        user_id: user_id.to_owned(),
        card_token: card_token.to_owned(),
        is_deleted: false,
    };
    tables::insert_key(tx, &key).await?;
    let issued = BillingKeyIssued {
        user_id: key.user_id.clone(),
        billing_key_id: key.billing_key_id.clone(),
    };
    emit(tx, &issued).await?;
    Ok(key)
}

pub(super) async fn delete_key(tx: &Tx, billing_key_id: &str) -> Result<(), Problem> {
    let known = tables::lock_key(tx, billing_key_id).await?;
    let key = known
        .filter(|key| !key.is_deleted)
        .ok_or_else(|| Refusal::absent("unknown_billing_key", "there is no such billing key"))?;
    tables::delete_key(tx, billing_key_id).await?;
    let deleted = BillingKeyDeleted {
        user_id: key.user_id,
        billing_key_id: key.billing_key_id,
    };
    emit(tx, &deleted).await?;
    Ok(())
}

/// Creates a subscription that waits for its first charge. If the outcome of this charge is not stored, it is requested again
/// after a delay.
pub(crate) async fn open(
    tx: &Tx,
    till: &Till,
    (guild_id, user_id, plan): (&str, &str, Plan),
    guild_version: i64,
) -> Result<(ChargeRequested, Charge), Problem> {
    if tables::lock_live(tx, guild_id).await?.is_some() {
        return Err(Refusal::conflict("already_subscribed", "this guild has a subscription").into());
    }
    let key = tables::key_of(tx, user_id).await?.ok_or_else(no_key)?;
    let before = tables::of_guild(tx, guild_id).await?;
    let subscription = Subscription {
        subscription_id: new_id(),
        guild_id: guild_id.to_owned(),
        user_id: user_id.to_owned(),
        billing_key_id: key.billing_key_id,
        plan,
        next_plan: None,
        status: Status::Pending,
        cancel_at_period_end: false,
        period_end: None,
        failures: 0,
        version: before.iter().map(|one| one.version).max().unwrap_or(0) + 1,
        guild_version,
    };
    tables::insert(tx, &subscription).await?;
    let ask_at = clock::now() + till.pace.ask_after;
    let due = charge::request(tx, &subscription.subscription_id, ask_at).await?;
    let charge = charge::ask_for(tx, &subscription, &due.attempt_id).await?;
    Ok((due, charge.ok_or_else(no_key)?))
}

/// The error code for a declined card.
pub(crate) const CARD_DECLINED: &str = "card_declined";

fn no_key() -> Refusal {
    Refusal::conflict("no_billing_key", "this user has no billing key; issue one first")
}

/// Requests the first charge outside any transaction and stores its outcome. If the outcome is unknown, the schedule repeats
/// the request.
pub(crate) async fn charge_first(
    db: &DatabaseConnection,
    till: &Till,
    (due, charge): (ChargeRequested, Charge),
) -> Result<Subscription, Problem> {
    let answer = till.cards.charge(&charge).await;
    let tx = table::begin(db).await?;
    till.settle(&tx, &due, &answer).await?;
    let subscription = tables::find(&tx, &due.subscription_id).await?;
    commit(tx).await?;
    if let Answer::Declined { code } = answer {
        let says = format!("the card was declined: {code}");
        return Err(Refusal::new(Kind::Unpaid, CARD_DECLINED, says).into());
    }
    Ok(subscription.ok_or_else(unknown)?)
}

pub(super) async fn upgrade(tx: &Tx, id: &str, plan: Plan) -> Result<Subscription, Problem> {
    let mut subscription = tables::lock(tx, id).await?.ok_or_else(unknown)?;
    let old = subscription.upgrade(plan)?;
    tables::save(tx, &mut subscription).await?;
    let upgraded = PlanUpgraded {
        subscription_id: id.to_owned(),
        old_plan: old.code().to_owned(),
        new_plan: plan.code().to_owned(),
    };
    order::emit(tx, &upgraded, subscription.version).await?;
    Ok(subscription)
}

pub(super) async fn downgrade(tx: &Tx, till: &Till, (id, plan): (&str, Plan)) -> Result<Subscription, Problem> {
    let mut subscription = tables::lock(tx, id).await?.ok_or_else(unknown)?;
    let is_asked = matches!(attempt::newest(tx, id).await?, Attempt::Asked(_));
    let effective_at = subscription.downgrade(plan, is_asked, &till.pace)?;
    tables::save(tx, &mut subscription).await?;
    let downgraded = PlanDowngraded {
        subscription_id: id.to_owned(),
        old_plan: subscription.plan.code().to_owned(),
        new_plan: plan.code().to_owned(),
        effective_at,
    };
    order::emit(tx, &downgraded, subscription.version).await?;
    Ok(subscription)
}

pub(super) async fn cancel(tx: &Tx, id: &str, at_period_end: bool) -> Result<Subscription, Problem> {
    let mut subscription = tables::lock(tx, id).await?.ok_or_else(unknown)?;
    subscription.cancel(at_period_end)?;
    tables::save(tx, &mut subscription).await?;
    emit_canceled(tx, &subscription, at_period_end).await?;
    Ok(subscription)
}

pub(super) fn unknown() -> Refusal {
    Refusal::absent("unknown_subscription", "there is no such subscription")
}

/// The events that billing subscribes to.
pub(crate) const LISTENS: [&str; 3] = [BotKicked::TYPE, GuildDeleted::TYPE, BillingKeyDeleted::TYPE];

/// `umbra-billing`: suspends or ends the subscriptions of a removed bot, a deleted guild or a deleted card.
///
/// Pattern 3, natural idempotency: a suspended or ended subscription stays unchanged. A late event does not affect a
/// subscription that was created after it: the guild's version gives the order.
pub(crate) async fn follow(tx: &mut Tx, event: &Event) -> Result<()> {
    match event.event_type.as_str() {
        BotKicked::TYPE => {
            let kicked: BotKicked = event.decode()?;
            suspend(tx, live_before(tx, &kicked.guild_id, event).await?, "bot_kicked").await
        }
        BillingKeyDeleted::TYPE => {
            let deleted: BillingKeyDeleted = event.decode()?;
            suspend(
                tx,
                tables::of_key(tx, &deleted.billing_key_id).await?,
                "billing_key_deleted",
            )
            .await
        }
        _ => {
            let deleted: GuildDeleted = event.decode()?;
            end_all(tx, tables::of_guild(tx, &deleted.guild_id).await?).await
        }
    }
}

async fn live_before(tx: &Tx, guild_id: &str, event: &Event) -> Result<Vec<Subscription>> {
    let live = tables::lock_live(tx, guild_id).await?;
    let is_before = |subscription: &Subscription| match order::version(event) {
        Some(version) => subscription.guild_version < version,
        None => subscription.subscription_id < event.id.to_string(),
    };
    Ok(live.into_iter().filter(is_before).collect())
}

async fn suspend(tx: &Tx, subscriptions: Vec<Subscription>, reason: &str) -> Result<()> {
    for known in subscriptions {
        let Some(mut subscription) = tables::lock(tx, &known.subscription_id).await? else {
            continue;
        };
        if subscription.suspend() {
            tables::save(tx, &mut subscription).await?;
            let suspended = SubscriptionSuspended {
                subscription_id: subscription.subscription_id,
                reason: reason.to_owned(),
            };
            order::emit(tx, &suspended, subscription.version).await?;
        }
    }
    Ok(())
}

async fn end_all(tx: &Tx, subscriptions: Vec<Subscription>) -> Result<()> {
    for known in subscriptions {
        let Some(mut subscription) = tables::lock(tx, &known.subscription_id).await? else {
            continue;
        };
        if subscription.end() {
            tables::save(tx, &mut subscription).await?;
            emit_canceled(tx, &subscription, false).await?;
        }
    }
    Ok(())
}

async fn emit_canceled(tx: &Tx, subscription: &Subscription, cancel_at_period_end: bool) -> Result<()> {
    let canceled = SubscriptionCanceled {
        subscription_id: subscription.subscription_id.clone(),
        cancel_at_period_end,
    };
    let canceled = order::event_of(&canceled, subscription.version)?;
    append(tx, &[canceled.header(USER_ID, &subscription.user_id)]).await?;
    Ok(())
}
