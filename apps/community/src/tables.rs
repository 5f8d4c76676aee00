//! The tables of the module, one file for each thing that they keep. Only the definitions differ between databases: ids that the
//! database allots, and indexes of a part of a table.

pub(crate) mod comment;
pub(crate) mod follow;
pub(crate) mod member;
pub(crate) mod notification;
pub(crate) mod post;
pub(crate) mod vote;

use std::collections::{BTreeSet, HashMap};

use postroom::{Error, ErrorKind, Migration, Result, Tx, clock};
use sea_orm::sea_query::{Expr, ExprTrait, InsertStatement, Query};
use sea_orm::{ConnectionTrait, DbBackend};

/// The first migration.
pub(crate) fn migration(database: DbBackend) -> Migration {
    let (up, down) = match database {
        DbBackend::Postgres => (
            include_str!("../migrations/postgres/0001_community.up.sql"),
            include_str!("../migrations/postgres/0001_community.down.sql"),
        ),
        DbBackend::MySql => (
            include_str!("../migrations/mysql/0001_community.up.sql"),
            include_str!("../migrations/mysql/0001_community.down.sql"),
        ),
        _ => (
            include_str!("../migrations/sqlite/0001_community.up.sql"),
            include_str!("../migrations/sqlite/0001_community.down.sql"),
        ),
    };
    Migration {
        number: 1,
        name: "community",
        up,
        down,
    }
}

/// The current time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(clock::now().unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Inserts one row; returns the id that the database allotted. Ids grow, and may have holes.
pub(crate) async fn insert_row(tx: &Tx, insert: &mut InsertStatement, id: &'static str) -> Result<i64> {
    let no_id = || Error::new(ErrorKind::Failed, "the database allotted no id");
    if tx.get_database_backend() == DbBackend::MySql {
        let inserted = tx.execute(insert).await?;
        return i64::try_from(inserted.last_insert_id()).map_err(|_too_large| no_id());
    }
    insert.returning(Query::returning().column(id));
    let row = tx.query_one(insert).await?.ok_or_else(no_id)?;
    Ok(row.try_get("", id)?)
}

/// A text of rows with these ids, by id.
struct Texts {
    table: &'static str,
    id: &'static str,
    text: &'static str,
}

impl Texts {
    async fn of(self, db: &impl ConnectionTrait, ids: impl IntoIterator<Item = i64>) -> Result<HashMap<i64, String>> {
        self.some(db, ids, Expr::val(1).eq(1)).await
    }

    async fn some(
        self,
        db: &impl ConnectionTrait,
        ids: impl IntoIterator<Item = i64>,
        which: Expr,
    ) -> Result<HashMap<i64, String>> {
        let ids: BTreeSet<i64> = ids.into_iter().collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let mut select = Query::select();
        select
            .columns([self.id, self.text])
            .from(self.table)
            .and_where(Expr::col(self.id).is_in(ids))
            .and_where(which);
        let rows = db.query_all(&select).await?;
        rows.iter()
            .map(|row| Ok((row.try_get("", self.id)?, row.try_get("", self.text)?)))
            .collect()
    }
}
