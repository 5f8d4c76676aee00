//! What only the database can tell about how the outbox is doing.

use postroom::{OpenTransaction, Position, Result};

use crate::error::driver;
use crate::{Postgres, read};

const BACKLOG: &str = include_str!("../sql/backlog.sql");
const OPEN_TRANSACTIONS: &str = include_str!("../sql/open_transactions.sql");

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
    let rows: Vec<(String, f64, String, bool)> = sqlx::query_as(OPEN_TRANSACTIONS)
        .fetch_all(&mut *connection)
        .await
        .map_err(|source| driver("list open transactions", source))?;
    Ok(rows
        .into_iter()
        .map(|(session, age_s, query, has_written)| OpenTransaction {
            session,
            age_s,
            query,
            has_written,
        })
        .collect())
}
