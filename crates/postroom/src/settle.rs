//! Settling: writing a settlement down, fenced by the lease's epoch, in the transaction that may hold effects too.

use sea_orm::DatabaseTransaction;

use crate::cursor::{self, Move, Shard};
use crate::dead;
use crate::error::Result;
use crate::event::Key;
use crate::judge::Settlement;
use crate::parked;
use crate::route::Ordering;
use std::collections::HashSet;

/// Writes progress, parked rows and dead letters; answers the keys that nothing is parked for any more.
///
/// The cursor goes first: its row lock orders this against take-overs and operators.
pub(crate) async fn settle(
    tx: &DatabaseTransaction,
    shard: &Shard,
    step: Move,
    ordering: Ordering,
    settlement: Settlement,
) -> Result<HashSet<Key>> {
    cursor::advance(tx, shard, step, settlement.delivered).await?;
    parked::insert(tx, shard, "log", &settlement.park).await?;
    parked::remove(tx, &shard.route, &settlement.unpark).await?;
    for row in &settlement.change {
        parked::update(tx, &shard.route, row).await?;
    }
    dead::insert(tx, shard, &settlement.dead).await?;
    let mut touched = settlement.left;
    touched.extend(
        settlement
            .park
            .iter()
            .chain(&settlement.change)
            .map(|row| row.entry.event.key()),
    );
    parked::arrange(tx, shard, ordering, touched).await
}
