//! What happens to guilds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::catalog;

/// The bot was installed in a guild.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BotInstalled {
    /// The guild.
    pub guild_id: String,
    /// Who installed it.
    pub installer_user_id: String,
}

/// The bot was thrown out of a guild.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BotKicked {
    /// The guild.
    pub guild_id: String,
}

/// A guild has another owner.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GuildOwnerChanged {
    /// The guild.
    pub guild_id: String,
    /// Who owned it.
    pub old_owner_id: String,
    /// Who owns it.
    pub new_owner_id: String,
}

/// A guild itself was deleted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GuildDeleted {
    /// The guild.
    pub guild_id: String,
}

catalog! {
    BotInstalled of "guild" by guild_id,
    BotKicked of "guild" by guild_id,
    GuildOwnerChanged of "guild" by guild_id,
    GuildDeleted of "guild" by guild_id,
}
