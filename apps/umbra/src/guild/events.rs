//! The events of guilds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::catalog;

/// The bot was installed in a guild.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BotInstalled {
    /// The guild.
    pub guild_id: String,
    /// The user who installed the bot.
    pub installer_user_id: String,
}

/// The bot was removed from a guild.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BotKicked {
    /// The guild.
    pub guild_id: String,
}

/// The owner of a guild changed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GuildOwnerChanged {
    /// The guild.
    pub guild_id: String,
    /// The old owner.
    pub old_owner_id: String,
    /// The new owner.
    pub new_owner_id: String,
}

/// A guild was deleted on Discord.
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
