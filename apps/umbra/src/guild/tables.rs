//! The table of guilds.

use postroom::{Migration, Result, Tx};
use sea_orm::QueryResult;
use sea_orm::sea_query::{Expr, ExprTrait};

use super::domain::{Guild, Status};
use crate::refusal::Refusal;
use crate::rows::{self, cell};

pub(crate) const MIGRATION: Migration = Migration {
    number: 1,
    name: "guild",
    up: include_str!("../../migrations/0001_guild.up.sql"),
    down: include_str!("../../migrations/0001_guild.down.sql"),
};

const GUILD: &str = "umbra_guild";

pub(super) async fn find(tx: &Tx, guild_id: &str) -> Result<Option<Guild>> {
    let row = rows::find(tx, GUILD, ("guild_id", guild_id)).await?;
    row.map(read).transpose()
}

pub(super) async fn lock(tx: &Tx, guild_id: &str) -> Result<Option<Guild>> {
    let row = rows::lock(tx, GUILD, ("guild_id", guild_id)).await?;
    row.map(read).transpose()
}

pub(super) async fn insert(tx: &Tx, guild: &Guild) -> Result<()> {
    let row = vec![
        cell("guild_id", guild.guild_id.as_str()),
        cell("owner_id", guild.owner_id.as_str()),
        cell("status", guild.status.name()),
        cell("version", guild.version),
    ];
    rows::insert(tx, GUILD, row).await
}

/// Saves the guild with the next version.
pub(super) async fn save(tx: &Tx, guild: &mut Guild) -> Result<()> {
    guild.version += 1;
    let cells = vec![
        cell("owner_id", guild.owner_id.as_str()),
        cell("status", guild.status.name()),
        cell("version", guild.version),
    ];
    let this = Expr::col("guild_id").eq(guild.guild_id.as_str());
    rows::change(tx, GUILD, cells, this).await?;
    Ok(())
}

/// Checks that a request may name this guild. Only HTTP handlers of other contexts may call it, event handlers may not. The
/// guild stays locked until the transaction ends, so the request is ordered strictly before or after a removal of the bot.
/// Returns the guild's version.
pub(crate) async fn check_installed(tx: &Tx, guild_id: &str) -> Result<i64, postroom_host::Problem> {
    let guild = lock(tx, guild_id).await?.ok_or_else(unknown)?;
    guild.check_installed()?;
    Ok(guild.version)
}

pub(super) fn unknown() -> Refusal {
    Refusal::absent("unknown_guild", "the bot was never installed in this guild")
}

fn read(row: QueryResult) -> Result<Guild> {
    Ok(Guild {
        guild_id: row.try_get("", "guild_id")?,
        owner_id: row.try_get("", "owner_id")?,
        status: Status::of(&row.try_get::<String>("", "status")?),
        version: row.try_get("", "version")?,
    })
}
