//! The table of licences.

use postroom::{Error, ErrorKind, Migration, Result, Tx};
use sea_orm::QueryResult;
use sea_orm::sea_query::{Expr, ExprTrait};
use time::OffsetDateTime;

use super::domain::{License, Status};
use crate::plan::Plan;
use crate::rows::{self, Cell, cell, from_ms, to_ms};

pub(crate) const MIGRATION: Migration = Migration {
    number: 4,
    name: "licensing",
    up: include_str!("../../migrations/0004_licensing.up.sql"),
    down: include_str!("../../migrations/0004_licensing.down.sql"),
};

const LICENSE: &str = "umbra_license";

pub(super) async fn find(tx: &Tx, guild_id: &str) -> Result<Option<License>> {
    let row = rows::find(tx, LICENSE, ("guild_id", guild_id)).await?;
    row.map(read).transpose()
}

/// The licence with this `guild_id`, `subscription_id` or `billing_key_id`.
pub(super) async fn lock(tx: &Tx, by: (&'static str, &str)) -> Result<Option<License>> {
    let row = rows::lock(tx, LICENSE, by).await?;
    row.map(read).transpose()
}

/// The licences that a card pays for.
pub(super) async fn of_key(tx: &Tx, billing_key_id: &str) -> Result<Vec<License>> {
    let rows = rows::list(tx, LICENSE, ("billing_key_id", billing_key_id), "license_id").await?;
    rows.into_iter().map(read).collect()
}

pub(super) async fn insert(tx: &Tx, license: &License) -> Result<()> {
    let mut row = state(license);
    row.push(cell("license_id", license.license_id.as_str()));
    row.push(cell("guild_id", license.guild_id.as_str()));
    rows::insert(tx, LICENSE, row).await
}

pub(super) async fn save(tx: &Tx, license: &License) -> Result<()> {
    rows::change(tx, LICENSE, state(license), this(license)).await?;
    Ok(())
}

/// Pattern 1, conditional update: the later end wins, so a repeated or older payment changes nothing. Returns whether the end
/// changed.
pub(super) async fn extend(tx: &Tx, license: &License, until: OffsetDateTime) -> Result<bool> {
    let is_longer = Expr::col("expires_at_ms").lt(to_ms(until));
    let cells = vec![cell("expires_at_ms", to_ms(until))];
    rows::change(tx, LICENSE, cells, this(license).and(is_longer)).await
}

fn this(license: &License) -> Expr {
    Expr::col("license_id").eq(license.license_id.as_str())
}

fn state(license: &License) -> Vec<Cell> {
    vec![
        cell("plan_code", license.plan.code()),
        cell("next_plan_code", license.next_plan.map(|(plan, _)| plan.code())),
        cell("next_plan_from_ms", license.next_plan.map(|(_, from)| to_ms(from))),
        cell("status", license.status.name()),
        cell("expires_at_ms", license.expires_at.map(to_ms)),
        cell("subscription_id", license.subscription_id.clone()),
        cell("billing_key_id", license.billing_key_id.clone()),
        cell("guild_event_id", license.guild_mark.as_str()),
        cell("subscription_event_id", license.subscription_mark.as_str()),
    ]
}

fn read(row: QueryResult) -> Result<License> {
    let plan: String = row.try_get("", "plan_code")?;
    let next_plan: Option<String> = row.try_get("", "next_plan_code")?;
    let next_from: Option<i64> = row.try_get("", "next_plan_from_ms")?;
    let expires_at: Option<i64> = row.try_get("", "expires_at_ms")?;
    Ok(License {
        license_id: row.try_get("", "license_id")?,
        guild_id: row.try_get("", "guild_id")?,
        plan: Plan::of(&plan).ok_or_else(|| Error::new(ErrorKind::Failed, format!("read the plan {plan:?}")))?,
        next_plan: next_plan.as_deref().and_then(Plan::of).zip(next_from.map(from_ms)),
        status: Status::of(&row.try_get::<String>("", "status")?),
        expires_at: expires_at.map(from_ms),
        subscription_id: row.try_get("", "subscription_id")?,
        billing_key_id: row.try_get("", "billing_key_id")?,
        guild_mark: row.try_get("", "guild_event_id")?,
        subscription_mark: row.try_get("", "subscription_event_id")?,
    })
}
