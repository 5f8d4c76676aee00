//! Retention: removing (and archiving) the oldest entries that nobody needs any more.

use std::time::Duration;

use postroom::{Prune, Result};
use sqlx::mysql::MySql;
use sqlx::{Connection, Transaction};

use crate::Mysql;
use crate::error::db;

/// Longer than the removal of one batch may take; a database that never answers is given up then.
const PRUNE_MAX: Duration = Duration::from_secs(120);

impl Mysql {
    pub(crate) async fn remove(&self, prune: &Prune) -> Result<u64> {
        tokio::time::timeout(PRUNE_MAX, self.try_remove(prune))
            .await
            .unwrap_or_else(|_late| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
            .map_err(|source| db("remove delivered entries", source))
    }

    async fn try_remove(&self, prune: &Prune) -> Result<u64, sqlx::Error> {
        let mut conn = self.retention.acquire().await?;
        sqlx::query(include_str!("../sql/prune_isolation.sql"))
            .execute(&mut *conn)
            .await?;
        let mut tx = conn.begin().await?;
        let oldest = look(&mut tx, prune, self.durable()).await?;
        let Some(last) = last_old(&oldest) else {
            tx.rollback().await?;
            return Ok(0);
        };
        if prune.archive {
            sqlx::query(include_str!("../sql/prune_archive.sql"))
                .bind(last)
                .execute(&mut *tx)
                .await?;
        }
        let done = sqlx::query(include_str!("../sql/prune_delete.sql"))
            .bind(last)
            .bind(prune.batch)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(done.rows_affected())
    }
}

/// The number of an entry at the beginning of the log, and whether it is old enough.
type Oldest = (i64, bool);

async fn look(tx: &mut Transaction<'_, MySql>, prune: &Prune, durable: i64) -> Result<Vec<Oldest>, sqlx::Error> {
    let floor: i64 = sqlx::query_scalar(include_str!("../sql/prune_floor.sql"))
        .bind(durable)
        .fetch_one(&mut **tx)
        .await?;
    sqlx::query_as(include_str!("../sql/prune_look.sql"))
        .bind(i64::try_from(prune.keep.as_micros()).map_or(i64::MIN, |micros| -micros))
        .bind(floor)
        .bind(prune.batch)
        .fetch_all(&mut **tx)
        .await
}

/// The last of those that are old, up to the first that is not: the log is cut, never perforated.
fn last_old(oldest: &[Oldest]) -> Option<i64> {
    oldest
        .iter()
        .take_while(|(_, is_old)| *is_old)
        .last()
        .map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_cut_at_the_first_young_entry() {
        let check = |old: &[bool], expected| {
            let oldest: Vec<Oldest> = (1..).zip(old.iter().copied()).collect();
            assert_eq!(last_old(&oldest), expected);
        };
        check(&[], None);
        check(&[false, true], None);
        check(&[true, true, false, true], Some(2));
        check(&[true, true], Some(2));
    }
}
