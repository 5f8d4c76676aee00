//! Forgets a member: everything that this module has stored about it.
//!
//! The rows of the member are deleted. Copies that wait in the relay, and dead letters, keep their place and lose their content. The
//! outbox is append-only: its copies leave it with retention, and none of them goes to the archive. Copies that an older version has
//! archived, or that came without the header that forbids it, are deleted there.

use postroom::operate::record_act;
use postroom::table::{self, Table};
use postroom::{Error, Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use sea_orm::{ConnectionTrait as _, DatabaseConnection, DbBackend};
use serde::Serialize;

use crate::event::AGGREGATE_TYPE;
use crate::tables::TABLE;

/// Rows that one transaction deletes.
const BATCH: u64 = 1_000;
/// The content of a forgotten copy.
const FORGOTTEN: &str = r#"{"forgotten":true}"#;

/// Counts of deleted rows and emptied copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forgotten {
    /// Rows of `user_activity_event`.
    pub events: u64,
    /// Copies that waited in the relay.
    pub waiting: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Copies in the archive.
    pub archived: u64,
}

/// Forgets a member.
pub async fn member(db: &DatabaseConnection, member_id: i64, actor: &str) -> Result<Forgotten> {
    let mut forgotten = Forgotten::default();
    loop {
        let tx = table::begin(db).await?;
        let deleted = delete(&tx, member_id).await?;
        tx.commit().await?;
        forgotten.events += deleted;
        if deleted < BATCH {
            break;
        }
    }
    let tx = table::begin(db).await?;
    forgotten.waiting = blank(&tx, Table::Parked, member_id).await?;
    forgotten.dead_letters = blank(&tx, Table::Failed, member_id).await?;
    forgotten.archived = delete_archived(&tx, member_id).await?;
    // The log says that somebody was forgotten and by whom; the number of the member would undo it.
    record_act(
        &tx,
        actor,
        "activity.forget",
        "member",
        &serde_json::to_value(forgotten)?,
    )
    .await?;
    tx.commit().await?;
    Ok(forgotten)
}

/// Deletes some rows of the member; returns how many.
async fn delete(tx: &Tx, member_id: i64) -> Result<u64> {
    let mut select = Query::select();
    select
        .column("id")
        .from(TABLE)
        .and_where(Expr::col("member_id").eq(member_id))
        .limit(BATCH);
    let rows = tx.query_all(&select).await;
    let rows = rows.map_err(|source| Error::db("look for activity of a member", source))?;
    let ids = rows.iter().map(|row| row.try_get::<i64>("", "id"));
    let ids: Vec<i64> = ids.collect::<std::result::Result<_, _>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    let mut delete = Query::delete();
    delete.from_table(TABLE).and_where(Expr::col("id").is_in(ids));
    let done = tx.execute(&delete).await;
    let done = done.map_err(|source| Error::db("delete activity of a member", source))?;
    Ok(done.rows_affected())
}

/// Removes the content of the copies of a member that routes keep in this table, also the route to a broker; returns how many.
async fn blank(tx: &Tx, table: Table, member_id: i64) -> Result<u64> {
    let backend = tx.get_database_backend();
    let content = match backend {
        DbBackend::Postgres => Expr::val(FORGOTTEN).cast_as("jsonb"),
        _ => Expr::val(FORGOTTEN),
    };
    let mut update = Query::update();
    update
        .table(table::named(tx, table))
        .value("payload", content)
        .and_where(Expr::col("aggregate_type").eq(AGGREGATE_TYPE))
        .and_where(is_of_member(backend, member_id));
    let done = tx.execute(&update).await;
    let done = done.map_err(|source| Error::db("forget the copies of a member", source))?;
    Ok(done.rows_affected())
}

async fn delete_archived(tx: &Tx, member_id: i64) -> Result<u64> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, Table::Audit))
        .and_where(Expr::col("aggregate_type").eq(AGGREGATE_TYPE))
        .and_where(is_of_member(tx.get_database_backend(), member_id));
    let done = tx.execute(&delete).await;
    let done = done.map_err(|source| Error::db("forget the archived copies of a member", source))?;
    Ok(done.rows_affected())
}

/// Whether a payload is about the member: an event as it is stored, or one that is sent again.
fn is_of_member(backend: DbBackend, member_id: i64) -> Expr {
    let of_member = ["memberId", "event.memberId"].map(|path| json_text(backend, path).eq(member_id.to_string()));
    let [stored, again] = of_member;
    stored.or(again)
}

/// The text of a value in the payload.
fn json_text(backend: DbBackend, path: &str) -> Expr {
    let sql = match backend {
        DbBackend::Postgres => format!("payload #>> '{{{}}}'", path.replace('.', ",")),
        DbBackend::MySql => format!("json_unquote(json_extract(payload, '$.{path}'))"),
        _ => format!("cast(json_extract(payload, '$.{path}') as text)"),
    };
    Expr::cust(sql)
}
