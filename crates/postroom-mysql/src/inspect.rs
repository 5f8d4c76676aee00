//! Facts about the outbox that only the database knows.

use std::time::Duration;

use postroom::{Entry, Hidden, HiddenTransactions, OpenTransaction, Position, Result};
use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, Row};
use tokio::time::Instant;

use crate::Mysql;
use crate::error::{db, is_privilege_missing};
use crate::read::read_entry;

/// InnoDB answers from a copy for as long as it is asked again within 100 ms.
const LIST_PAUSE: Duration = Duration::from_millis(110);

impl Mysql {
    pub(crate) async fn read_version(&self) -> Result<String> {
        let version: String = sqlx::query_scalar(include_str!("../sql/version.sql"))
            .fetch_one(&self.reader)
            .await
            .map_err(|source| db("read the version of the database", source))?;
        match version.contains("MariaDB") {
            true => Ok(version), // it names itself
            false => Ok(format!("MySQL {version}")),
        }
    }

    pub(crate) async fn count_behind(&self, after: Position) -> Result<u64> {
        let (numbered, waiting): (i64, i64) = sqlx::query_as(include_str!("../sql/backlog.sql"))
            .bind(after.id)
            .fetch_one(&self.reader)
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
        match self.ask_open().await {
            Ok(open) => Ok(open.into_iter().map(|Open(transaction)| transaction).collect()),
            Err(error) if is_privilege_missing(&error) => Ok(Vec::new()), // `hidden` says so
            Err(error) => Err(db("list open transactions", error)),
        }
    }

    async fn ask_open(&self) -> sqlx::Result<Vec<Open>> {
        sqlx::query_as(include_str!("../sql/open_transactions.sql"))
            .fetch_all(&self.reader)
            .await
    }

    pub(crate) async fn list_hidden(&self) -> Result<Option<Hidden>> {
        match self.ask_open().await {
            Err(error) if is_privilege_missing(&error) => Ok(Some(Hidden {
                transactions: HiddenTransactions::All,
                user: None,
                privilege: "process on *.*".to_owned(),
            })),
            Err(error) => Err(db("look what this user may see", error)),
            Ok(_) => Ok(None),
        }
    }

    pub(crate) async fn list_unnumbered(&self, limit: usize) -> Result<Vec<Entry>> {
        let rows = sqlx::query(include_str!("../sql/not_yet_readable.sql"))
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(&self.reader)
            .await
            .map_err(|source| db("look for entries without a number", source))?;
        rows.iter().map(read_entry).collect()
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
            blocks: row.try_get::<i64, _>("blocks")?.max(0).unsigned_abs(),
            holds_locks: row.try_get("holds_locks")?,
        }))
    }
}
