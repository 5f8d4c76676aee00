//! The events of snapshots, restores and the raid guard.

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
    /// The reason for the snapshot.
    pub trigger: String,
}

/// A snapshot was deleted to make room for newer ones.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotDeleted {
    /// The snapshot.
    pub snapshot_id: String,
    /// The guild.
    pub guild_id: String,
}

/// The restore of a guild started.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RestoreStarted {
    /// The restore.
    pub restore_job_id: String,
    /// The source snapshot.
    pub snapshot_id: String,
    /// The guild.
    pub guild_id: String,
}

/// The restore of a guild succeeded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RestoreCompleted {
    /// The restore.
    pub restore_job_id: String,
    /// A summary of the result, for people.
    pub result_summary: String,
}

/// The restore of a guild failed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RestoreFailed {
    /// The restore.
    pub restore_job_id: String,
    /// A summary of the error, for people.
    pub error_summary: String,
}

/// The guard detected a possible raid in a guild.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AntiNukeTriggered {
    /// The guild.
    pub guild_id: String,
    /// The detected pattern.
    pub detected_pattern: String,
    /// The suspected users.
    pub suspects: Vec<String>,
}

/// The guard took action against a raid.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AntiNukeActioned {
    /// The guild.
    pub guild_id: String,
    /// The actions.
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
