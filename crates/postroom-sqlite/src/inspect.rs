//! Facts that only the database knows.

use postroom::{Position, Result};
use sqlx::SqlitePool;

use crate::error;

pub(crate) async fn version(readers: &SqlitePool) -> Result<String> {
    let version: String = sqlx::query_scalar(include_str!("../sql/version.sql"))
        .fetch_one(readers)
        .await
        .map_err(error::while_doing("read the version of the database"))?;
    Ok(format!("SQLite {version}"))
}

pub(crate) async fn backlog(readers: &SqlitePool, after: Position) -> Result<u64> {
    let entries: i64 = sqlx::query_scalar(include_str!("../sql/backlog.sql"))
        .bind(after.id)
        .fetch_one(readers)
        .await
        .map_err(error::while_doing("count the backlog"))?;
    Ok(u64::try_from(entries).unwrap_or(0))
}
