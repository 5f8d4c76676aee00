//! The job that adds changes to the posts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom::{Job, Outbox, Result, Tx, table};
use postroom_shared::tally::{self, KEPT};
use postroom_shared::{SharedState, Slot};
use sea_orm::DatabaseConnection;
use tokio::time::timeout;

use super::batch::{self, Sums, Unsettled};
use super::changes::{self, Change};
use super::{posts, tallied};
use crate::settings::Settings;
use crate::tables::now_ms;

/// Changes in one transaction. Larger lists of ids make MariaDB scan the table.
const BATCH: u64 = 500;
/// A run begins new batches for this long; the next run continues.
const RUN: Duration = Duration::from_secs(2);
/// How long a run may take. A process that is killed in it keeps others from flushing for this long.
const RUN_MAX: Duration = Duration::from_secs(5);
/// Batches of earlier runs that are settled in one run.
const UNSETTLED_MAX: u64 = 20;
/// How long the tally may take to answer.
const TALLY_MAX: Duration = Duration::from_secs(1);

/// Adds changes to the posts every few seconds. One process at a time does it; if two ever do, each change is in one batch.
pub(crate) fn job(settings: &Settings, shared: Slot) -> Job {
    let every = Duration::from_millis(settings.flush_interval_ms.get());
    let mut job = Job::every("community-comment-count", every, move |outbox| {
        let shared = shared.clone();
        async move { run(outbox, &shared).await }
    });
    job.timeout = RUN_MAX;
    job
}

async fn run(outbox: Arc<dyn Outbox>, shared: &Slot) -> Result<u64> {
    let (db, shared) = (outbox.db(), shared.get()?);
    if !batch::is_anything_to_do(db).await? {
        return Ok(0);
    }
    let mut is_away = !settle_earlier(db, shared).await?;
    let begun = Instant::now();
    let mut added = 0;
    while begun.elapsed() < RUN {
        let Some((batch_id, changes)) = add_batch(db).await? else {
            break;
        };
        added += changes.len() as u64;
        // A later run settles the batches that this run cannot settle.
        is_away = is_away || !settle(db, shared, batch_id, &changes).await?;
        if (changes.len() as u64) < BATCH {
            break;
        }
    }
    Ok(added)
}

/// Adds a batch of changes to their posts, in one transaction.
async fn add_batch(db: &DatabaseConnection) -> Result<Option<(i64, Vec<Change>)>> {
    let tx = table::begin(db).await?;
    let ids = changes::unclaimed(&tx, BATCH).await?;
    if ids.is_empty() {
        tx.rollback().await?;
        return Ok(None);
    }
    let batch_id = batch::begin(&tx).await?;
    changes::claim(&tx, &ids, batch_id).await?;
    let changes = changes::of_batch(&tx, batch_id).await?;
    if changes.is_empty() {
        tx.rollback().await?; // another process has taken them meanwhile
        return Ok(None);
    }
    add_to_posts(&tx, batch_id, &changes).await?;
    tx.commit().await?;
    Ok(Some((batch_id, changes)))
}

async fn add_to_posts(tx: &Tx, batch_id: i64, changes: &[Change]) -> Result<()> {
    let by_post = sum(changes);
    posts::add(tx, "comment_count", &by_post, Some(batch_id)).await?;
    let sums = Sums {
        changes: i64::try_from(changes.len()).unwrap_or(i64::MAX),
        posts: i64::try_from(by_post.len()).unwrap_or(i64::MAX),
        delta: by_post.values().sum(),
    };
    batch::finish(tx, batch_id, sums).await
}

/// The sums by post, in the order of the posts.
pub(super) fn sum(changes: &[Change]) -> BTreeMap<i64, i64> {
    changes.iter().fold(BTreeMap::new(), |mut sums, change| {
        *sums.entry(change.post_id).or_insert(0) += i64::from(change.delta);
        sums
    })
}

/// Settles batches that earlier runs have not settled. Returns `false` if the tally is away.
async fn settle_earlier(db: &DatabaseConnection, shared: &SharedState) -> Result<bool> {
    let kept = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
    for Unsettled { batch_id, created_ms } in batch::unsettled(db, UNSETTLED_MAX).await? {
        // The tally has already forgotten the changes of an old batch.
        let changes = match now_ms() - created_ms > 2 * kept {
            true => Vec::new(),
            false => changes::of_batch(db, batch_id).await?,
        };
        if !settle(db, shared, batch_id, &changes).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the changes of a batch out of the tally. Returns `false` if the tally is away.
async fn settle(db: &DatabaseConnection, shared: &SharedState, batch_id: i64, changes: &[Change]) -> Result<bool> {
    let changes: Vec<tally::Change> = changes
        .iter()
        .map(|change| tallied(change.post_id, &change.event_id, change.delta))
        .collect();
    match timeout(TALLY_MAX, shared.tally.settle(&changes)).await {
        Ok(Ok(())) => {
            batch::settled(db, batch_id).await?;
            Ok(true)
        }
        Ok(Err(error)) => {
            tracing::warn!(
                batch_id,
                error = error.report(),
                "a batch of comment counts was not settled"
            );
            Ok(false)
        }
        Err(_elapsed) => {
            tracing::warn!(
                batch_id,
                "the tally did not answer; a batch of comment counts was not settled"
            );
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_summed_by_post_in_the_order_of_posts() {
        let change = |post_id, delta| Change {
            event_id: String::new(),
            post_id,
            delta,
        };
        let sums = sum(&[change(9, 1), change(2, 1), change(9, -1), change(2, 1)]);
        assert_eq!(sums.into_iter().collect::<Vec<_>>(), [(2, 2), (9, 0)]);
    }
}
