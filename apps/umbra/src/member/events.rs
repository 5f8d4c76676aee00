//! What happens to members.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::catalog;

/// Somebody joined a guild through its page on the web.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemberJoinedViaWebJoin {
    /// The member.
    pub member_id: String,
    /// The guild.
    pub guild_id: String,
    /// The page.
    pub slug: String,
}

/// A moderator gave a member their roles back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemberRestored {
    /// The member.
    pub member_id: String,
    /// The guild.
    pub guild_id: String,
    /// Which roles.
    pub restored_roles: Vec<String>,
}

catalog! {
    MemberJoinedViaWebJoin of "member" by member_id,
    MemberRestored of "member" by member_id,
}
