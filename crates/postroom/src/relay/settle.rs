//! Settling: writing a settlement down, fenced by the lease's epoch, in the transaction that may hold effects too.

use std::collections::HashSet;

use uuid::Uuid;

use crate::error::Result;
use crate::event::Key;
use crate::policy::ordering::Ordering;
use crate::relay::judge::Settlement;
use crate::state::cursor::{self, Move, Shard};
use crate::state::dead;
use crate::state::parked::{self, Parked};
use crate::store::inbox;
use crate::store::tx::Tx;

/// What settling has brought.
#[derive(Debug)]
pub(crate) struct Settled {
    /// Keys that nothing is parked for any more.
    pub(crate) freed: HashSet<Key>,
    /// New dead letters.
    pub(crate) dead: Vec<Parked>,
    /// Some of what was given up had been handled by a consumer: lanes stand otherwise than the settlement says.
    pub(crate) is_changed: bool,
}

/// Writes progress, parked rows and dead letters. With `has_consumer`, a broker may have brought the same events to a consumer.
///
/// The cursor goes first: its row lock orders this against take-overs, operators and consumers.
pub(crate) async fn settle(
    tx: &Tx,
    shard: &Shard,
    (step, ordering): (&Move, Ordering),
    has_consumer: bool,
    mut settlement: Settlement,
) -> Result<Settled> {
    cursor::advance(tx, shard, step, settlement.delivered).await?;
    let is_changed = has_consumer && !settlement.dead.is_empty() && drop_handled(tx, shard, &mut settlement).await?;
    parked::insert(tx, shard, "log", &settlement.park).await?;
    parked::remove(tx, &shard.route, &settlement.unpark).await?;
    parked::update(tx, &shard.route, &settlement.change).await?;
    dead::insert(tx, shard, &settlement.dead).await?;
    let mut touched = settlement.left;
    touched.extend(
        settlement
            .park
            .iter()
            .chain(&settlement.change)
            .map(|row| row.entry.event.key()),
    );
    Ok(Settled {
        freed: parked::arrange(tx, shard, ordering, touched).await?,
        dead: settlement.dead,
        is_changed,
    })
}

/// Takes out what was given up here while a consumer of the same group has handled it: it has had its effect. What an operator has
/// replayed was handled before, and its letter says that the replay failed. Answers whether there was any.
async fn drop_handled(tx: &Tx, shard: &Shard, settlement: &mut Settlement) -> Result<bool> {
    let ids: Vec<i64> = settlement.dead.iter().map(|row| row.entry.id).collect();
    let replayed = parked::replayed(tx, &shard.route, &ids).await?;
    let events = settlement.dead.iter().filter(|row| !replayed.contains(&row.entry.id));
    let events: Vec<Uuid> = events.map(|row| row.entry.event.id).collect();
    let handled = inbox::handled_meanwhile(tx, &shard.route, &events).await?;
    if handled.is_empty() {
        return Ok(false);
    }
    tracing::info!(route = %shard.route, events = ?handled, "given up here and handled by a consumer: no dead letters");
    let is_handled = |row: &Parked| handled.contains(&row.entry.event.id) && !replayed.contains(&row.entry.id);
    settlement.dead.retain(|row| !is_handled(row));
    settlement.park.retain(|row| !is_handled(row));
    for row in settlement.change.extract_if(.., |row| is_handled(row)) {
        settlement.unpark.push(row.identity());
        settlement.left.insert(row.entry.event.key());
    }
    Ok(true)
}
