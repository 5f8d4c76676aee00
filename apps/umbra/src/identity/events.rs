//! The events of users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::catalog;

/// A user registered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UserRegistered {
    /// The user.
    pub user_id: String,
    /// The user's number on Discord.
    pub discord_user_id: String,
}

/// A user signed in. The session id is sensitive, so the audit masks it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UserSessionCreated {
    /// The user.
    pub user_id: String,
    /// The session.
    pub session_id: String,
}

catalog! {
    UserRegistered of "user" by user_id,
    UserSessionCreated of "user" by user_id,
}
