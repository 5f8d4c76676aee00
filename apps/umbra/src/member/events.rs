//! The events of members.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::catalog;

/// A user joined a guild through its web page.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemberJoinedViaWebJoin {
    /// The member.
    pub member_id: String,
    /// The guild.
    pub guild_id: String,
    /// The slug of the web page.
    pub slug: String,
}

/// A moderator restored the roles of a member.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemberRestored {
    /// The member.
    pub member_id: String,
    /// The guild.
    pub guild_id: String,
    /// The restored roles.
    pub restored_roles: Vec<String>,
}

catalog! {
    MemberJoinedViaWebJoin of "member" by member_id,
    MemberRestored of "member" by member_id,
}
