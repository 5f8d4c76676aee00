//! The `chat` frames in the streams of members, after the text in them is gone.

use postroom::{Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Query};

use super::by_room;
use super::entry::{self, Entry};
use crate::chat::frame;

/// Members in one statement.
const MEMBERS_MAX: usize = 500;

/// Removes the text of a message from the frames that members have in their streams already, also of those who have left the room.
pub(crate) async fn erase(tx: &Tx, deleted: &Entry) -> Result<()> {
    let Some(message_id) = deleted.message_id else {
        return Ok(());
    };
    let mut select = Query::select();
    select
        .column("member_id")
        .from("community_room_member")
        .and_where(Expr::col("room_id").eq(deleted.room_id));
    let rows = tx.query_all(&select).await?;
    let members: Vec<i64> = rows
        .iter()
        .map(|row| row.try_get("", "member_id"))
        .collect::<Result<_, _>>()?;
    for mut entry in entry::of_messages(tx, &by_room([(deleted.room_id, message_id)])).await? {
        entry.body = None;
        let Some(data) = frame::of_member(&entry)? else {
            continue;
        };
        for members in members.chunks(MEMBERS_MAX) {
            let mut update = Query::update();
            update
                .table("community_member_event")
                .value("data", data.get())
                .and_where(Expr::col("member_id").is_in(members.iter().copied()))
                .and_where(Expr::col("event_id").eq(entry.event_id.to_string()));
            tx.execute(&update).await?;
        }
    }
    Ok(())
}
