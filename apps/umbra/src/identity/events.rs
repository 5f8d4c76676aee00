//! What happens to users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::catalog;

/// Somebody became a user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UserRegistered {
    /// The user.
    pub user_id: String,
    /// Discord's number of them.
    pub discord_user_id: String,
}

/// A user signed in. The session's id is sensitive: the audit keeps it masked.
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
