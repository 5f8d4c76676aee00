//! The frames of all streams.

use std::collections::BTreeSet;

use postroom::{Error, ErrorKind, Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use uuid::Uuid;

use super::{Appended, Known, StreamEvent};

/// The table.
const TABLE: &str = "community_member_event";
/// Rows in one statement: SQLite takes 32,766 values.
const ROWS_MAX: usize = 1_000;
/// The data of a silent frame: nobody sees it.
const SILENCE: &str = "{}";

/// The frames of these events that the streams of these members have already.
pub(super) async fn known(tx: &Tx, members: &[i64], events: &[&StreamEvent]) -> Result<Known> {
    let ids: BTreeSet<Uuid> = events.iter().map(|event| event.event_id).collect();
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    let mut known = Known::new();
    for ids in ids.chunks(ROWS_MAX) {
        let mut select = Query::select();
        select
            .columns(["member_id", "event_id"])
            .from(TABLE)
            .and_where(Expr::col("member_id").is_in(members.iter().copied()))
            .and_where(Expr::col("event_id").is_in(ids));
        for row in tx.query_all(&select).await? {
            known.insert((
                row.try_get("", "member_id")?,
                read_id(&row.try_get::<String>("", "event_id")?)?,
            ));
        }
    }
    Ok(known)
}

pub(super) async fn insert(tx: &Tx, frames: &[(&StreamEvent, Appended)], now_ms: i64) -> Result<()> {
    for frames in frames.chunks(ROWS_MAX) {
        let mut insert = Query::insert();
        insert.into_table(TABLE).columns([
            "member_id",
            "seq",
            "event_id",
            "name",
            "data",
            "is_silent",
            "created_ms",
        ]);
        for (event, appended) in frames {
            let data = if appended.is_silent { SILENCE } else { event.data.get() };
            insert.values_panic([
                appended.member_id.into(),
                appended.seq.into(),
                appended.event_id.to_string().into(),
                event.name.into(),
                data.into(),
                appended.is_silent.into(),
                now_ms.into(),
            ]);
        }
        tx.execute(&insert).await?;
    }
    Ok(())
}

fn read_id(text: &str) -> Result<Uuid> {
    Uuid::try_parse(text).map_err(|source| Error::caused(ErrorKind::Failed, "read the id of a frame", source))
}
