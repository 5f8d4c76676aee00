//! The table of members.

use postroom::{Migration, Result, Tx};

use crate::rows::{self, cell};

pub(crate) const MIGRATION: Migration = Migration {
    number: 6,
    name: "member",
    up: include_str!("../../migrations/0006_member.up.sql"),
    down: include_str!("../../migrations/0006_member.down.sql"),
};

const MEMBER: &str = "umbra_member";

pub(super) async fn insert(tx: &Tx, member_id: &str, guild_id: &str, slug: &str) -> Result<()> {
    let row = vec![
        cell("member_id", member_id),
        cell("guild_id", guild_id),
        cell("slug", slug),
    ];
    rows::insert(tx, MEMBER, row).await
}

/// The guild of a member.
pub(super) async fn lock(tx: &Tx, member_id: &str) -> Result<Option<String>> {
    let row = rows::lock(tx, MEMBER, ("member_id", member_id)).await?;
    Ok(row.map(|row| row.try_get("", "guild_id")).transpose()?)
}
