//! Making rooms, and changing who is in them.

use std::collections::BTreeSet;

use postroom::{Result, Tx};
use postroom_host::Host;
use sea_orm::ConnectionTrait;

use super::domain::{self, ROOM_MEMBERS_MAX, Refusal};
use super::failure::{Failure, attempt};
use super::numbered::{Content, Locked};
use super::tables::member::{self, Membership};
use super::tables::room::{self, Room};
use crate::tables::now_ms;

/// A room and its members.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) room: Room,
    /// Those who have been there longest first.
    pub(crate) members: Vec<Membership>,
}

/// Makes a room with its first members. They see everything that is said in it.
pub(crate) async fn create(host: &Host, owner_id: i64, name: &str, member_ids: &[i64]) -> Result<Shown, Failure> {
    domain::check_room_name(name)?;
    let member_ids = domain::first_members(owner_id, member_ids)?;
    attempt!(try_create(host, owner_id, name, &member_ids))
}

async fn try_create(host: &Host, owner_id: i64, name: &str, member_ids: &BTreeSet<i64>) -> Result<Shown, Failure> {
    let tx = host.begin().await?;
    let joined_ms = now_ms();
    let room_id = room::insert(&tx, name, owner_id, joined_ms).await?;
    let first = |member_id: &i64| Membership {
        member_id: *member_id,
        joined_seq: 0,
        joined_ms,
    };
    member::put(&tx, room_id, member_ids.iter().map(first)).await?;
    let shown = read(&tx, room_id, owner_id).await?;
    tx.commit().await?;
    Ok(shown)
}

/// A room that the member is in.
pub(crate) async fn show(host: &Host, room_id: i64, member_id: i64) -> Result<Shown, Failure> {
    read(host.store.db(), room_id, member_id).await
}

async fn read(db: &impl ConnectionTrait, room_id: i64, member_id: i64) -> Result<Shown, Failure> {
    let members = member::of_room(db, room_id).await?;
    let is_in = members.iter().any(|member| member.member_id == member_id);
    let room = room::find(db, room_id).await?.filter(|_| is_in);
    let room = room.ok_or(Refusal::UnknownRoom)?;
    Ok(Shown { room, members })
}

/// The rooms of a member, by id.
pub(crate) async fn list(host: &Host, member_id: i64, after: i64, limit: u64) -> Result<Vec<Room>> {
    room::of_member(host.store.db(), member_id, after, limit).await
}

/// Adds a member; every member of the room may. The new one sees what is said from now on. Adding one who is there changes nothing.
pub(crate) async fn add(host: &Host, room_id: i64, actor_id: i64, member_id: i64) -> Result<(), Failure> {
    if member_id <= 0 {
        return Err(Refusal::Invalid("the ids of members are positive".to_owned()).into());
    }
    attempt!(try_add(host, room_id, actor_id, member_id))
}

async fn try_add(host: &Host, room_id: i64, actor_id: i64, member_id: i64) -> Result<(), Failure> {
    let tx = host.begin().await?;
    let mut locked = Locked::lock(&tx, room_id, actor_id).await?;
    let members = member::of_room(&tx, room_id).await?;
    if members.iter().any(|member| member.member_id == member_id) {
        return Ok(());
    }
    if members.len() >= ROOM_MEMBERS_MAX {
        return Err(Refusal::RoomFull.into());
    }
    let entered = locked.add(&tx, Content::Enter { member_id }).await?;
    let new = Membership {
        member_id,
        joined_seq: entered.seq - 1, // the new member sees its own entry
        joined_ms: entered.created_ms,
    };
    member::put(&tx, room_id, [new]).await?;
    tx.commit().await?;
    Ok(())
}

/// Removes a member: the owner removes others, everybody itself. Removing one who is not there changes nothing.
pub(crate) async fn remove(host: &Host, room_id: i64, actor_id: i64, member_id: i64) -> Result<(), Failure> {
    attempt!(try_remove(host, room_id, actor_id, member_id))
}

async fn try_remove(host: &Host, room_id: i64, actor_id: i64, member_id: i64) -> Result<(), Failure> {
    let tx = host.begin().await?;
    let mut locked = Locked::lock(&tx, room_id, actor_id).await?;
    if member_id != actor_id && locked.room.owner_id != actor_id {
        return Err(Refusal::NotOwner.into());
    }
    if member::find(&tx, room_id, member_id).await?.is_none() {
        return Ok(());
    }
    let left = locked.add(&tx, Content::Leave { member_id }).await?;
    member::leave(&tx, room_id, member_id, left.created_ms).await?;
    if member_id == locked.room.owner_id {
        hand_over(&tx, room_id).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// The owner has left: the member who has been there longest follows.
async fn hand_over(tx: &Tx, room_id: i64) -> Result<()> {
    match member::of_room(tx, room_id).await?.first() {
        Some(next) => room::set_owner(tx, room_id, next.member_id).await,
        None => Ok(()), // the room is empty, and retention removes what was said
    }
}
