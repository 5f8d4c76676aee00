//! The tables of cards and subscriptions.

use postroom::{Error, ErrorKind, Migration, Result, Tx};
use sea_orm::QueryResult;
use sea_orm::sea_query::{Expr, ExprTrait};

use super::domain::{Status, Subscription};
use crate::plan::Plan;
use crate::rows::{self, Cell, cell, from_ms, to_ms};

pub(crate) const MIGRATION: Migration = Migration {
    number: 3,
    name: "billing",
    up: include_str!("../../migrations/0003_billing.up.sql"),
    down: include_str!("../../migrations/0003_billing.down.sql"),
};

const KEY: &str = "umbra_billing_key";
const SUBSCRIPTION: &str = "umbra_subscription";

/// A card for charges.
#[derive(Clone, Debug)]
pub(crate) struct BillingKey {
    pub(super) billing_key_id: String,
    pub(super) user_id: String,
    pub(super) card_token: String,
    pub(super) is_deleted: bool,
}

pub(super) async fn insert_key(tx: &Tx, key: &BillingKey) -> Result<()> {
    let row = vec![
        cell("billing_key_id", key.billing_key_id.as_str()),
        cell("user_id", key.user_id.as_str()),
        cell("card_token", key.card_token.as_str()),
        cell("is_deleted", key.is_deleted),
    ];
    rows::insert(tx, KEY, row).await
}

pub(super) async fn lock_key(tx: &Tx, billing_key_id: &str) -> Result<Option<BillingKey>> {
    let row = rows::lock(tx, KEY, ("billing_key_id", billing_key_id)).await?;
    row.map(read_key).transpose()
}

/// The user's newest card.
pub(super) async fn key_of(tx: &Tx, user_id: &str) -> Result<Option<BillingKey>> {
    let rows = rows::list(tx, KEY, ("user_id", user_id), "billing_key_id").await?;
    let keys: Vec<BillingKey> = rows.into_iter().map(read_key).collect::<Result<_>>()?;
    Ok(keys.into_iter().rfind(|key| !key.is_deleted))
}

pub(super) async fn delete_key(tx: &Tx, billing_key_id: &str) -> Result<()> {
    let this = Expr::col("billing_key_id").eq(billing_key_id);
    rows::change(tx, KEY, vec![cell("is_deleted", true)], this).await?;
    Ok(())
}

pub(super) async fn insert(tx: &Tx, subscription: &Subscription) -> Result<()> {
    let mut row = state(subscription);
    row.extend([
        cell("subscription_id", subscription.subscription_id.as_str()),
        cell("guild_id", subscription.guild_id.as_str()),
        cell("user_id", subscription.user_id.as_str()),
        cell("billing_key_id", subscription.billing_key_id.as_str()),
        cell("guild_version", subscription.guild_version),
    ]);
    rows::insert(tx, SUBSCRIPTION, row).await
}

/// Saves the subscription with the next version.
pub(super) async fn save(tx: &Tx, subscription: &mut Subscription) -> Result<()> {
    subscription.version += 1;
    let this = Expr::col("subscription_id").eq(subscription.subscription_id.as_str());
    rows::change(tx, SUBSCRIPTION, state(subscription), this).await?;
    Ok(())
}

/// The columns that change during the life of a subscription.
fn state(subscription: &Subscription) -> Vec<Cell> {
    let live = subscription.status.is_live().then(|| subscription.guild_id.clone());
    vec![
        cell("live_guild_id", live),
        cell("plan_code", subscription.plan.code()),
        cell("next_plan_code", subscription.next_plan.map(|(plan, _)| plan.code())),
        cell("next_plan_from_ms", subscription.next_plan.map(|(_, from)| to_ms(from))),
        cell("status", subscription.status.name()),
        cell("cancel_at_period_end", subscription.cancel_at_period_end),
        cell("period_end_ms", subscription.period_end.map(to_ms)),
        cell("failures", i64::from(subscription.failures)),
        cell("version", subscription.version),
    ]
}

pub(super) async fn find(tx: &Tx, subscription_id: &str) -> Result<Option<Subscription>> {
    let row = rows::find(tx, SUBSCRIPTION, ("subscription_id", subscription_id)).await?;
    row.map(read).transpose()
}

pub(super) async fn lock(tx: &Tx, subscription_id: &str) -> Result<Option<Subscription>> {
    let row = rows::lock(tx, SUBSCRIPTION, ("subscription_id", subscription_id)).await?;
    row.map(read).transpose()
}

/// Reads and locks the guild's live subscription.
pub(super) async fn lock_live(tx: &Tx, guild_id: &str) -> Result<Option<Subscription>> {
    let row = rows::lock(tx, SUBSCRIPTION, ("live_guild_id", guild_id)).await?;
    row.map(read).transpose()
}

/// All subscriptions of a guild, oldest first.
pub(super) async fn of_guild(tx: &Tx, guild_id: &str) -> Result<Vec<Subscription>> {
    let rows = rows::list(tx, SUBSCRIPTION, ("guild_id", guild_id), "subscription_id").await?;
    rows.into_iter().map(read).collect()
}

/// All subscriptions that are paid with a card.
pub(super) async fn of_key(tx: &Tx, billing_key_id: &str) -> Result<Vec<Subscription>> {
    let rows = rows::list(tx, SUBSCRIPTION, ("billing_key_id", billing_key_id), "subscription_id").await?;
    rows.into_iter().map(read).collect()
}

fn read_key(row: QueryResult) -> Result<BillingKey> {
    Ok(BillingKey {
        billing_key_id: row.try_get("", "billing_key_id")?,
        user_id: row.try_get("", "user_id")?,
        card_token: row.try_get("", "card_token")?,
        is_deleted: row.try_get("", "is_deleted")?,
    })
}

fn read(row: QueryResult) -> Result<Subscription> {
    let subscription_id: String = row.try_get("", "subscription_id")?;
    let broken = || Error::new(ErrorKind::Failed, format!("read the subscription {subscription_id}"));
    let next_plan: Option<String> = row.try_get("", "next_plan_code")?;
    let next_from: Option<i64> = row.try_get("", "next_plan_from_ms")?;
    let period_end: Option<i64> = row.try_get("", "period_end_ms")?;
    Ok(Subscription {
        guild_id: row.try_get("", "guild_id")?,
        user_id: row.try_get("", "user_id")?,
        billing_key_id: row.try_get("", "billing_key_id")?,
        plan: Plan::of(&row.try_get::<String>("", "plan_code")?).ok_or_else(broken)?,
        next_plan: next_plan.as_deref().and_then(Plan::of).zip(next_from.map(from_ms)),
        status: Status::of(&row.try_get::<String>("", "status")?).ok_or_else(broken)?,
        cancel_at_period_end: row.try_get("", "cancel_at_period_end")?,
        period_end: period_end.map(from_ms),
        failures: u32::try_from(row.try_get::<i64>("", "failures")?).unwrap_or(u32::MAX),
        version: row.try_get("", "version")?,
        guild_version: row.try_get("", "guild_version")?,
        subscription_id,
    })
}
