//! What happens to snapshots and restores, and what the guard saw and did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::catalog;

/// A snapshot of a guild was taken.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotCreated {
    /// The snapshot.
    pub snapshot_id: String,
    /// The guild.
    pub guild_id: String,
    /// What it was taken for.
    pub trigger: String,
}

/// A snapshot made room for newer ones.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotDeleted {
    /// The snapshot.
    pub snapshot_id: String,
    /// The guild.
    pub guild_id: String,
}

/// A guild is being restored.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RestoreStarted {
    /// The restore.
    pub restore_job_id: String,
    /// From this snapshot.
    pub snapshot_id: String,
    /// The guild.
    pub guild_id: String,
}

/// A guild was restored.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RestoreCompleted {
    /// The restore.
    pub restore_job_id: String,
    /// What was done, for people.
    pub result_summary: String,
}

/// A guild could not be restored.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RestoreFailed {
    /// The restore.
    pub restore_job_id: String,
    /// What went wrong, for people.
    pub error_summary: String,
}

/// Something in a guild looks like a raid.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AntiNukeTriggered {
    /// The guild.
    pub guild_id: String,
    /// What it looks like.
    pub detected_pattern: String,
    /// Who may be behind it.
    pub suspects: Vec<String>,
}

/// The guard did something against a raid.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AntiNukeActioned {
    /// The guild.
    pub guild_id: String,
    /// What it did.
    pub actions_taken: Vec<String>,
}

catalog! {
    SnapshotCreated of "snapshot" by snapshot_id,
    SnapshotDeleted of "snapshot" by snapshot_id,
    RestoreStarted of "restore_job" by restore_job_id,
    RestoreCompleted of "restore_job" by restore_job_id,
    RestoreFailed of "restore_job" by restore_job_id,
    AntiNukeTriggered of "guild" by guild_id,
    AntiNukeActioned of "guild" by guild_id,
}
