//! The tables of snapshots and restores.

use postroom::{Migration, Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait};

use super::domain::Status;
use crate::rows::{self, cell};

pub(crate) const MIGRATION: Migration = Migration {
    number: 5,
    name: "recovery",
    up: include_str!("../../migrations/0005_recovery.up.sql"),
    down: include_str!("../../migrations/0005_recovery.down.sql"),
};

const SNAPSHOT: &str = "umbra_snapshot";
const RESTORE: &str = "umbra_restore";

pub(super) async fn insert_snapshot(tx: &Tx, snapshot_id: &str, guild_id: &str, taken_for: &str) -> Result<()> {
    let row = vec![
        cell("snapshot_id", snapshot_id),
        cell("guild_id", guild_id),
        cell("taken_for", taken_for),
        cell("is_deleted", false),
    ];
    rows::insert(tx, SNAPSHOT, row).await
}

/// The guild of a snapshot that is not deleted.
pub(super) async fn lock_snapshot(tx: &Tx, snapshot_id: &str) -> Result<Option<String>> {
    let Some(row) = rows::lock(tx, SNAPSHOT, ("snapshot_id", snapshot_id)).await? else {
        return Ok(None);
    };
    let is_deleted: bool = row.try_get("", "is_deleted")?;
    let guild_id: String = row.try_get("", "guild_id")?;
    Ok((!is_deleted).then_some(guild_id))
}

pub(super) async fn delete_snapshot(tx: &Tx, snapshot_id: &str) -> Result<()> {
    let this = Expr::col("snapshot_id").eq(snapshot_id);
    rows::change(tx, SNAPSHOT, vec![cell("is_deleted", true)], this).await?;
    Ok(())
}

pub(super) async fn insert_restore(tx: &Tx, restore_job_id: &str, snapshot_id: &str, guild_id: &str) -> Result<()> {
    let row = vec![
        cell("restore_job_id", restore_job_id),
        cell("snapshot_id", snapshot_id),
        cell("guild_id", guild_id),
        cell("status", Status::Running.name()),
    ];
    rows::insert(tx, RESTORE, row).await
}

pub(super) async fn lock_restore(tx: &Tx, restore_job_id: &str) -> Result<Option<Status>> {
    let row = rows::lock(tx, RESTORE, ("restore_job_id", restore_job_id)).await?;
    let status: Option<String> = row.map(|row| row.try_get("", "status")).transpose()?;
    Ok(status.as_deref().map(Status::of))
}

pub(super) async fn save_restore(tx: &Tx, restore_job_id: &str, status: Status) -> Result<()> {
    let this = Expr::col("restore_job_id").eq(restore_job_id);
    rows::change(tx, RESTORE, vec![cell("status", status.name())], this).await?;
    Ok(())
}
