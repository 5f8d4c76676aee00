//! What the database can tell about how the outbox is doing.

use std::time::Duration;

use postroom::{OpenTransaction, Position, Result};
use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, Row};
use tokio::time::Instant;

use crate::Mysql;
use crate::error::{db, is_privilege_missing};

/// InnoDB answers from a copy for as long as it is asked again within 100 ms.
const LIST_PAUSE: Duration = Duration::from_millis(110);

impl Mysql {
    pub(crate) async fn count_behind(&self, after: Position) -> Result<u64> {
        let (numbered, waiting): (i64, i64) = sqlx::query_as(include_str!("../sql/backlog.sql"))
            .bind(after.id)
            .fetch_one(&self.pool)
            .await
            .map_err(|source| db("count the backlog", source))?;
        Ok(numbered.saturating_add(waiting).max(0).unsigned_abs())
    }

    pub(crate) async fn list_open(&self) -> Result<Vec<OpenTransaction>> {
        let mut listed_at = self.listed_at.lock().await;
        if let Some(listed_at) = *listed_at {
            tokio::time::sleep_until(listed_at + LIST_PAUSE).await;
        }
        let listed = self.list_open_now().await;
        *listed_at = Some(Instant::now());
        listed
    }

    async fn list_open_now(&self) -> Result<Vec<OpenTransaction>> {
        let open: Result<Vec<Open>, _> = sqlx::query_as(include_str!("../sql/open_transactions.sql"))
            .fetch_all(&self.pool)
            .await;
        match open {
            Ok(open) => Ok(open.into_iter().map(|Open(transaction)| transaction).collect()),
            Err(error) if is_privilege_missing(&error) => {
                tracing::debug!(%error, "open transactions are hidden: grant PROCESS to see them");
                Ok(Vec::new())
            }
            Err(error) => Err(db("list open transactions", error)),
        }
    }
}

struct Open(OpenTransaction);

impl FromRow<'_, MySqlRow> for Open {
    fn from_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let age_us: i64 = row.try_get("age_us")?;
        Ok(Self(OpenTransaction {
            session: row.try_get::<i64, _>("session")?.to_string(),
            age_s: Duration::from_micros(age_us.max(0).unsigned_abs()).as_secs_f64(),
            query: row.try_get::<Option<String>, _>("query")?.unwrap_or_default(),
            has_written: row.try_get("has_written")?,
        }))
    }
}
