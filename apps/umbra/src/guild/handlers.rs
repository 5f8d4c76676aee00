//! Discord's reports about guilds. The row and the event commit together.

use postroom::Tx;
use postroom_host::Problem;

use super::domain::Guild;
use super::events::{BotInstalled, BotKicked, GuildDeleted, GuildOwnerChanged};
use super::tables::{self, unknown};
use crate::order::emit;

pub(crate) async fn install(tx: &Tx, guild_id: &str, installer: &str) -> Result<Guild, Problem> {
    let known = tables::lock(tx, guild_id).await?;
    let is_new = known.is_none();
    let mut guild = Guild::install(known, guild_id, installer)?;
    match is_new {
        true => tables::insert(tx, &guild).await?,
        false => tables::save(tx, &mut guild).await?,
    }
    let installed = BotInstalled {
        guild_id: guild_id.to_owned(),
        installer_user_id: installer.to_owned(),
    };
    emit(tx, &installed, guild.version).await?;
    Ok(guild)
}

pub(crate) async fn kick(tx: &Tx, guild_id: &str) -> Result<Guild, Problem> {
    let mut guild = tables::lock(tx, guild_id).await?.ok_or_else(unknown)?;
    guild.kick()?;
    tables::save(tx, &mut guild).await?;
    let guild_id = guild_id.to_owned();
    emit(tx, &BotKicked { guild_id }, guild.version).await?;
    Ok(guild)
}

pub(super) async fn change_owner(tx: &Tx, guild_id: &str, owner_id: &str) -> Result<Guild, Problem> {
    let mut guild = tables::lock(tx, guild_id).await?.ok_or_else(unknown)?;
    let old_owner_id = guild.change_owner(owner_id)?;
    tables::save(tx, &mut guild).await?;
    let changed = GuildOwnerChanged {
        guild_id: guild_id.to_owned(),
        old_owner_id,
        new_owner_id: owner_id.to_owned(),
    };
    emit(tx, &changed, guild.version).await?;
    Ok(guild)
}

pub(super) async fn delete(tx: &Tx, guild_id: &str) -> Result<Guild, Problem> {
    let mut guild = tables::lock(tx, guild_id).await?.ok_or_else(unknown)?;
    guild.delete()?;
    tables::save(tx, &mut guild).await?;
    let guild_id = guild_id.to_owned();
    emit(tx, &GuildDeleted { guild_id }, guild.version).await?;
    Ok(guild)
}
