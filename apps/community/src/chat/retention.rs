//! Removes messages after thirty days, in small batches.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postroom::{Job, Result, table};
use sea_orm::DatabaseConnection;

use super::tables::{entry, history, room, unstored};
use crate::tables::now_ms;

/// Rows per transaction.
const BATCH: u64 = 500;
/// How long messages are kept.
const KEPT_MS: i64 = 30 * 86_400_000;
/// How often old messages are looked for.
const EVERY: Duration = Duration::from_secs(30);
/// So long one run begins new transactions; the next one goes on.
const RUN: Duration = Duration::from_secs(20);

/// Removes entries and history that are older than thirty days.
pub(crate) fn job() -> Job {
    Job::every("community-chat-retention", EVERY, |outbox| async move {
        let (begun, cutoff_ms, mut removed) = (Instant::now(), now_ms() - KEPT_MS, 0);
        while begun.elapsed() < RUN {
            let batch = remove_entries(outbox.db(), cutoff_ms).await? + remove_history(outbox.db(), cutoff_ms).await?;
            removed += batch;
            if batch == 0 {
                break;
            }
        }
        Ok(removed)
    })
}

/// The horizon of a room rises in the transaction that removes its entries: a reader that does not find an entry finds the reason.
async fn remove_entries(db: &DatabaseConnection, cutoff_ms: i64) -> Result<u64> {
    let tx = table::begin(db).await?;
    let old = entry::before_time(&tx, cutoff_ms, BATCH).await?;
    // The times of a room follow its numbers, so what is removed is always the beginning of the room.
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    for (room_id, seq) in old {
        let last = last.entry(room_id).or_default();
        *last = seq.max(*last);
    }
    let mut removed = 0;
    for (room_id, seq) in last {
        room::raise_horizon(&tx, room_id, seq).await?;
        unstored::remove_up_to(&tx, room_id, seq).await?;
        removed += entry::remove_up_to(&tx, room_id, seq).await?;
    }
    tx.commit().await?;
    Ok(removed)
}

async fn remove_history(db: &DatabaseConnection, cutoff_ms: i64) -> Result<u64> {
    let tx = table::begin(db).await?;
    let removed = history::prune(&tx, cutoff_ms, BATCH).await?;
    tx.commit().await?;
    Ok(removed)
}
