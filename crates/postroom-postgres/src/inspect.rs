//! Facts about the outbox that only the database knows.

use postroom::{Entry, Hidden, HiddenTransactions, OpenTransaction, Position, Result};

use crate::error::driver;
use crate::{Postgres, read};

const BACKLOG: &str = include_str!("../sql/backlog.sql");
const NOT_YET_READABLE: &str = include_str!("../sql/not_yet_readable.sql");
const HIDDEN: &str = include_str!("../sql/hidden.sql");
const OPEN_TRANSACTIONS: &str = include_str!("../sql/open_transactions.sql");
const VERSION: &str = include_str!("../sql/version.sql");

pub(crate) async fn version(store: &Postgres) -> Result<String> {
    let mut connection = store.reader().await?;
    let version: String = sqlx::query_scalar(VERSION)
        .fetch_one(&mut *connection)
        .await
        .map_err(|source| driver("read the version of the database", source))?;
    Ok(format!("PostgreSQL {version}"))
}

pub(crate) async fn backlog(store: &Postgres, after: Position) -> Result<u64> {
    let mut connection = store.reader().await?;
    let count: Option<i64> = sqlx::query_scalar(BACKLOG)
        .bind(after.from)
        .bind(after.id)
        .fetch_optional(&mut *connection)
        .await
        .map_err(|source| driver("count what is not read yet", source))?;
    let count = count.ok_or_else(|| read::gone(after))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

pub(crate) async fn open_transactions(store: &Postgres) -> Result<Vec<OpenTransaction>> {
    let mut connection = store.reader().await?;
    let rows: Vec<(String, f64, String, bool, i64, bool)> = sqlx::query_as(OPEN_TRANSACTIONS)
        .fetch_all(&mut *connection)
        .await
        .map_err(|source| driver("list open transactions", source))?;
    Ok(rows
        .into_iter()
        .map(
            |(session, age_s, query, has_written, blocks, holds_locks)| OpenTransaction {
                session,
                age_s,
                query,
                has_written,
                blocks: u64::try_from(blocks).unwrap_or(0),
                holds_locks,
            },
        )
        .collect())
}

pub(crate) async fn not_yet_readable(store: &Postgres, limit: usize) -> Result<Vec<Entry>> {
    const DOING: &str = "look for entries that no relay has seen yet";
    let mut connection = store.reader().await?;
    let rows = sqlx::query(NOT_YET_READABLE)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&mut *connection)
        .await
        .map_err(|source| driver(DOING, source))?;
    let entries: sqlx::Result<Vec<Entry>> = rows.iter().map(read::entry).collect();
    entries.map_err(|source| driver(DOING, source))
}

pub(crate) async fn hidden(store: &Postgres) -> Result<Option<Hidden>> {
    let mut connection = store.reader().await?;
    let (me, is_hidden): (String, bool) = sqlx::query_as(HIDDEN)
        .fetch_one(&mut *connection)
        .await
        .map_err(|source| driver("look what this user may see", source))?;
    Ok(is_hidden.then(|| Hidden {
        transactions: HiddenTransactions::OfOthers,
        user: Some(me),
        privilege: "pg_read_all_stats".to_owned(),
    }))
}
