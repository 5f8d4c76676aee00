//! The tables of chat, one file per group. The same SQL runs on PostgreSQL, MySQL and SQLite.

pub(crate) mod entry;
pub(crate) mod history;
pub(crate) mod member;
pub(crate) mod preview;
pub(crate) mod room;
pub(crate) mod unstored;

use std::collections::BTreeMap;

use postroom::{Error, ErrorKind, Migration};
use sea_orm::sea_query::{Condition, Expr, ExprTrait};

/// The migration of chat.
pub(crate) const CHAT: Migration = Migration {
    number: 2,
    name: "chat",
    up: include_str!("../../migrations/0002_chat.up.sql"),
    down: include_str!("../../migrations/0002_chat.down.sql"),
};

/// Rows by room and a second column.
fn in_rooms(numbers: &BTreeMap<i64, Vec<i64>>, column: &'static str) -> Condition {
    let of_room = |(room_id, numbers): (&i64, &Vec<i64>)| {
        Condition::all()
            .add(Expr::col("room_id").eq(*room_id))
            .add(Expr::col(column).is_in(numbers.iter().copied()))
    };
    numbers.iter().map(of_room).fold(Condition::any(), Condition::add)
}

/// Numbers by their room.
pub(crate) fn by_room(pairs: impl IntoIterator<Item = (i64, i64)>) -> BTreeMap<i64, Vec<i64>> {
    let mut rooms: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (room_id, number) in pairs {
        let numbers = rooms.entry(room_id).or_default();
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    rooms
}

/// The error for a value that chat never writes; another program must have written it.
fn unreadable(what: &str) -> Error {
    Error::new(
        ErrorKind::Failed,
        format!("{what} in the tables of chat cannot be read"),
    )
}
