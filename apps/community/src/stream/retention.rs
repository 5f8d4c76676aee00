//! Removes old notifications and old frames, in small transactions that lock the rows of their members in order.

use std::collections::BTreeMap;

use postroom::{Result, table};
use sea_orm::DatabaseConnection;

use super::{frames, position};
use crate::tables::notification;

/// Rows in one transaction.
const BATCH: u64 = 200;

/// Removes notifications that were made before this time, read or not; returns how many.
pub(crate) async fn prune_notifications(db: &DatabaseConnection, before_ms: i64) -> Result<u64> {
    let tx = table::begin(db).await?;
    let old = notification::made_before(&tx, before_ms, BATCH).await?;
    if old.is_empty() {
        tx.rollback().await?;
        return Ok(0);
    }
    let (ids, mut members): (Vec<i64>, Vec<i64>) = old.into_iter().unzip();
    members.sort_unstable();
    members.dedup();
    // While these rows are locked, no request can mark a notification of these members as read.
    let mut positions = position::lock(&tx, &members).await?;
    for member in notification::unread_of(&tx, &ids).await? {
        if let Some(position) = positions.get_mut(&member) {
            position.unread -= 1;
        }
    }
    let removed = notification::delete(&tx, &ids).await?;
    position::store(&tx, positions.values()).await?;
    tx.commit().await?;
    Ok(removed)
}

/// Removes frames that were made before these times: those of notifications, and the others; returns how many. Connections that
/// need one of them begin anew.
pub(crate) async fn prune_frames(db: &DatabaseConnection, (notifications_ms, others_ms): (i64, i64)) -> Result<u64> {
    let tx = table::begin(db).await?;
    let old = frames::made_before(&tx, (notifications_ms, others_ms), BATCH).await?;
    if old.is_empty() {
        tx.rollback().await?;
        return Ok(0);
    }
    let last: BTreeMap<i64, i64> = old.iter().fold(BTreeMap::new(), |mut last, (member, seq)| {
        let known = last.entry(*member).or_insert(*seq);
        *known = (*known).max(*seq);
        last
    });
    let members: Vec<i64> = last.keys().copied().collect();
    let mut positions = position::lock(&tx, &members).await?;
    for (member, seq) in last {
        if let Some(position) = positions.get_mut(&member) {
            position.pruned_seq = position.pruned_seq.max(seq);
        }
    }
    let removed = frames::delete(&tx, &old).await?;
    position::store(&tx, positions.values()).await?;
    tx.commit().await?;
    Ok(removed)
}
