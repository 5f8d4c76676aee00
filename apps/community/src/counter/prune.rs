//! Removes old changes and batches. Their sums stay: posts keep the sums of their changes, and one batch keeps the totals of the
//! others.

use postroom::{Result, table};
use sea_orm::DatabaseConnection;

use super::batch::{self, Sums};
use super::changes::{self, Change};
use super::flush::sum;
use super::posts;

/// Rows in one transaction.
const BATCH: u64 = 500;

/// Removes a batch of rows that are older than this; returns how many.
pub(crate) async fn prune(db: &DatabaseConnection, before_ms: i64) -> Result<u64> {
    Ok(prune_changes(db, before_ms).await? + prune_batches(db, before_ms).await?)
}

/// A post keeps the sum of its removed changes, so that its count can still be checked.
async fn prune_changes(db: &DatabaseConnection, before_ms: i64) -> Result<u64> {
    let tx = table::begin(db).await?;
    let old: Vec<Change> = changes::claimed_before(&tx, before_ms, BATCH).await?;
    if old.is_empty() {
        tx.rollback().await?;
        return Ok(0);
    }
    let ids: Vec<String> = old.iter().map(|change| change.event_id.clone()).collect();
    posts::add(&tx, "comment_base", &sum(&old), None).await?;
    let removed = changes::delete(&tx, &ids).await?;
    if removed == ids.len() as u64 {
        tx.commit().await?;
    } else {
        tx.rollback().await?; // another process has removed some of them
    }
    Ok(removed)
}

/// The newest of these old batches takes over the totals of the others.
async fn prune_batches(db: &DatabaseConnection, before_ms: i64) -> Result<u64> {
    let tx = table::begin(db).await?;
    let mut old = batch::settled_before(&tx, before_ms, BATCH).await?;
    let Some((kept, own)) = old.pop().filter(|_| !old.is_empty()) else {
        tx.rollback().await?;
        return Ok(0);
    };
    let total = old.iter().fold(own, |total, (_, sums)| Sums {
        changes: total.changes + sums.changes,
        posts: total.posts + sums.posts,
        delta: total.delta + sums.delta,
    });
    let ids: Vec<i64> = old.iter().map(|(batch_id, _)| *batch_id).collect();
    let removed = batch::delete(&tx, &ids).await?;
    if removed == ids.len() as u64 {
        batch::finish(&tx, kept, total).await?;
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    Ok(removed)
}
