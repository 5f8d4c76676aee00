//! The reports of the recovery workers and the raid guard.

use postroom::{Result, Tx, emit};
use postroom_host::Problem;

use super::domain::Status;
use super::events::{RestoreCompleted, RestoreFailed, RestoreStarted, SnapshotCreated, SnapshotDeleted};
use super::tables;
use crate::door::new_id;
use crate::refusal::Refusal;

pub(super) async fn create_snapshot(tx: &Tx, guild_id: &str, trigger: &str) -> Result<String> {
    let snapshot_id = new_id();
    tables::insert_snapshot(tx, &snapshot_id, guild_id, trigger).await?;
    let created = SnapshotCreated {
        snapshot_id: snapshot_id.clone(),
        guild_id: guild_id.to_owned(),
        trigger: trigger.to_owned(),
    };
    emit(tx, &created).await?;
    Ok(snapshot_id)
}

pub(super) async fn delete_snapshot(tx: &Tx, snapshot_id: &str) -> Result<(), Problem> {
    let guild_id = guild_of(tx, snapshot_id).await?;
    tables::delete_snapshot(tx, snapshot_id).await?;
    let snapshot_id = snapshot_id.to_owned();
    emit(tx, &SnapshotDeleted { snapshot_id, guild_id }).await?;
    Ok(())
}

pub(super) async fn start_restore(tx: &Tx, snapshot_id: &str) -> Result<String, Problem> {
    let guild_id = guild_of(tx, snapshot_id).await?;
    let restore_job_id = new_id();
    tables::insert_restore(tx, &restore_job_id, snapshot_id, &guild_id).await?;
    let started = RestoreStarted {
        restore_job_id: restore_job_id.clone(),
        snapshot_id: snapshot_id.to_owned(),
        guild_id,
    };
    emit(tx, &started).await?;
    Ok(restore_job_id)
}

pub(super) async fn complete_restore(tx: &Tx, id: &str, result_summary: String) -> Result<(), Problem> {
    end_restore(tx, id, Status::Completed).await?;
    let restore_job_id = id.to_owned();
    let completed = RestoreCompleted {
        restore_job_id,
        result_summary,
    };
    emit(tx, &completed).await?;
    Ok(())
}

pub(super) async fn fail_restore(tx: &Tx, id: &str, error_summary: String) -> Result<(), Problem> {
    end_restore(tx, id, Status::Failed).await?;
    let restore_job_id = id.to_owned();
    let failed = RestoreFailed {
        restore_job_id,
        error_summary,
    };
    emit(tx, &failed).await?;
    Ok(())
}

async fn end_restore(tx: &Tx, id: &str, to: Status) -> Result<(), Problem> {
    let status = tables::lock_restore(tx, id).await?;
    let status = status.ok_or_else(|| Refusal::absent("unknown_restore", "there is no such restore"))?;
    Ok(tables::save_restore(tx, id, status.end(to)?).await?)
}

async fn guild_of(tx: &Tx, snapshot_id: &str) -> Result<String, Problem> {
    let guild_id = tables::lock_snapshot(tx, snapshot_id).await?;
    Ok(guild_id.ok_or_else(|| Refusal::absent("unknown_snapshot", "there is no such snapshot"))?)
}
