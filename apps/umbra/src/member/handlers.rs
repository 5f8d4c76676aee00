//! Members join and are restored.

use postroom::{Result, Tx, emit};
use postroom_host::Problem;

use super::events::{MemberJoinedViaWebJoin, MemberRestored};
use super::tables;
use crate::door::new_id;
use crate::refusal::Refusal;

pub(super) async fn join(tx: &Tx, guild_id: &str, slug: &str) -> Result<String> {
    let member_id = new_id();
    tables::insert(tx, &member_id, guild_id, slug).await?;
    let joined = MemberJoinedViaWebJoin {
        member_id: member_id.clone(),
        guild_id: guild_id.to_owned(),
        slug: slug.to_owned(),
    };
    emit(tx, &joined).await?;
    Ok(member_id)
}

pub(super) async fn restore(tx: &Tx, member_id: &str, roles: Vec<String>) -> Result<(), Problem> {
    let guild_id = tables::lock(tx, member_id).await?;
    let guild_id = guild_id.ok_or_else(|| Refusal::absent("unknown_member", "there is no such member"))?;
    let restored = MemberRestored {
        member_id: member_id.to_owned(),
        guild_id,
        restored_roles: roles,
    };
    emit(tx, &restored).await?;
    Ok(())
}
