//! Retention: what every cursor has passed and is old enough goes, archived first if asked.

use std::time::{Duration, Instant};

use postroom::{Position, Prune, Result};
use sqlx::{Connection, SqliteConnection, SqlitePool};

use crate::error;

/// Rows removed in one transaction: writers wait for it, so it takes milliseconds.
const ROWS_PER_TX: u32 = 500;
/// Longest pause between two of them.
const PAUSE_MAX: Duration = Duration::from_millis(50);

pub(crate) async fn prune(writer: &SqlitePool, prune: &Prune) -> Result<u64> {
    let mut removed = 0;
    let mut left = prune.batch;
    while left > 0 {
        let rows = left.min(ROWS_PER_TX);
        let begun = Instant::now();
        let gone = prune_some(writer, prune, rows).await?;
        removed += gone;
        left -= rows;
        if gone < u64::from(rows) {
            break;
        }
        // In this process the queue is fair, but a writer in another one only tries again now and then: the lock is
        // left free for as long as it was held.
        tokio::time::sleep(begun.elapsed().min(PAUSE_MAX)).await;
    }
    Ok(removed)
}

async fn prune_some(writer: &SqlitePool, prune: &Prune, rows: u32) -> Result<u64> {
    let mut connection = writer.acquire().await.map_err(error::while_doing("prune the outbox"))?;
    let mut tx = connection
        .begin_with("begin immediate")
        .await
        .map_err(error::while_doing("prune the outbox"))?;
    let passed = passed_by_all(&mut tx).await?;
    let last: Option<i64> = sqlx::query_scalar(include_str!("../sql/prune_to.sql"))
        .bind(passed)
        .bind(format!("-{:.3} seconds", prune.keep.as_secs_f64()))
        .bind(rows)
        .fetch_one(&mut *tx)
        .await
        .map_err(error::while_doing("find entries to prune"))?;
    let Some(last) = last else { return Ok(0) };
    if prune.archive {
        sqlx::query(include_str!("../sql/archive.sql"))
            .bind(last)
            .execute(&mut *tx)
            .await
            .map_err(error::while_doing("archive entries"))?;
    }
    let done = sqlx::query(include_str!("../sql/prune.sql"))
        .bind(last)
        .execute(&mut *tx)
        .await
        .map_err(error::while_doing("prune the outbox"))?;
    tx.commit().await.map_err(error::while_doing("prune the outbox"))?;
    Ok(done.rows_affected())
}

/// The highest id that no cursor and no running replay still has to read; 0 while there is no cursor at all, because
/// then nobody has read anything.
async fn passed_by_all(tx: &mut SqliteConnection) -> Result<i64> {
    let positions: Vec<String> = sqlx::query_scalar(include_str!("../sql/cursors.sql"))
        .fetch_all(&mut *tx)
        .await
        .map_err(error::while_doing("read the cursors"))?;
    let replayed_next: Option<i64> = sqlx::query_scalar(include_str!("../sql/replays.sql"))
        .fetch_one(&mut *tx)
        .await
        .map_err(error::while_doing("read the replays"))?;
    let mut passed = replayed_next.map_or(i64::MAX, |next| next - 1);
    for position in &positions {
        passed = passed.min(position.parse::<Position>()?.id);
    }
    Ok(if positions.is_empty() { 0 } else { passed })
}
