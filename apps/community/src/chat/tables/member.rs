//! Members of rooms.

use std::collections::BTreeMap;

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};

/// A member of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) member_id: i64,
    /// The member sees entries above this number.
    pub(crate) joined_seq: i64,
    pub(crate) joined_ms: i64,
}

fn select() -> SelectStatement {
    let mut select = Query::select();
    select
        .columns(["room_id", "member_id", "joined_seq", "joined_ms"])
        .from("community_room_member")
        .and_where(Expr::col("left_ms").is_null());
    select
}

/// The membership of somebody who is in the room.
pub(crate) async fn find(db: &impl ConnectionTrait, room_id: i64, member_id: i64) -> Result<Option<Membership>> {
    let mut select = select();
    select
        .and_where(Expr::col("room_id").eq(room_id))
        .and_where(Expr::col("member_id").eq(member_id));
    let row = db.query_one(&select).await?;
    row.as_ref().map(read).transpose()
}

/// The members of a room, those who have been there longest first.
pub(crate) async fn of_room(db: &impl ConnectionTrait, room_id: i64) -> Result<Vec<Membership>> {
    let mut select = select();
    select
        .and_where(Expr::col("room_id").eq(room_id))
        .order_by("joined_ms", Order::Asc)
        .order_by("joined_seq", Order::Asc)
        .order_by("member_id", Order::Asc);
    db.query_all(&select).await?.iter().map(read).collect()
}

/// The members of several rooms.
pub(crate) async fn of_rooms(
    db: &impl ConnectionTrait,
    room_ids: impl Iterator<Item = i64>,
) -> Result<BTreeMap<i64, Vec<Membership>>> {
    let mut select = select();
    select.and_where(Expr::col("room_id").is_in(room_ids));
    let mut rooms: BTreeMap<i64, Vec<Membership>> = BTreeMap::new();
    for row in db.query_all(&select).await? {
        rooms.entry(row.try_get("", "room_id")?).or_default().push(read(&row)?);
    }
    Ok(rooms)
}

/// Puts members into a room. One who was there before comes back as a new member.
pub(crate) async fn put(tx: &Tx, room_id: i64, members: impl IntoIterator<Item = Membership>) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("community_room_member")
        .columns(["room_id", "member_id", "joined_seq", "joined_ms", "left_ms"])
        .on_conflict(
            OnConflict::columns(["room_id", "member_id"])
                .update_columns(["joined_seq", "joined_ms", "left_ms"])
                .to_owned(),
        );
    for member in members {
        insert.values_panic([
            room_id.into(),
            member.member_id.into(),
            member.joined_seq.into(),
            member.joined_ms.into(),
            Option::<i64>::None.into(),
        ]);
    }
    tx.execute(&insert).await?;
    Ok(())
}

/// Takes a member out of a room.
pub(crate) async fn leave(tx: &Tx, room_id: i64, member_id: i64, now_ms: i64) -> Result<()> {
    let mut update = Query::update();
    update
        .table("community_room_member")
        .value("left_ms", now_ms)
        .and_where(Expr::col("room_id").eq(room_id))
        .and_where(Expr::col("member_id").eq(member_id));
    tx.execute(&update).await?;
    Ok(())
}

fn read(row: &QueryResult) -> Result<Membership> {
    Ok(Membership {
        member_id: row.try_get("", "member_id")?,
        joined_seq: row.try_get("", "joined_seq")?,
        joined_ms: row.try_get("", "joined_ms")?,
    })
}
