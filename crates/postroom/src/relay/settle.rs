//! Settling: writes a settlement and the progress of the route into the transaction that may hold effects, and commits it.

use std::collections::HashSet;
use std::time::Duration;

use uuid::Uuid;

use crate::broker::Origin;
use crate::error::Result;
use crate::event::Key;
use crate::policy::ordering::{Lanes, Ordering};
use crate::relay::judge::Settlement;
use crate::state::cursor::{self, Move, Shard};
use crate::state::dead;
use crate::state::feeding;
use crate::state::known_failures;
use crate::state::parked::{self, Parked, ParkedBy};
use crate::store::inbox;
use crate::store::outbox::with_timeout;
use crate::store::tx::Tx;
use crate::subscriber::effects::OpenEffects;

/// A shard worker's place: its cursor is moved under the epoch of its lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) ordering: Ordering,
    pub(crate) step: &'a Move,
    /// A broker may have brought the same events to a consumer, now or earlier.
    pub(crate) has_consumer: bool,
}

/// Facts about the route after its entries were settled.
#[derive(Debug)]
pub(crate) struct Settled {
    /// Keys that no row is parked for any more.
    pub(crate) freed: HashSet<Key>,
    /// New dead letters.
    pub(crate) dead: Vec<Parked>,
    /// A consumer had handled some of the entries that were given up here: the lanes differ from the settlement.
    pub(crate) is_changed: bool,
}

/// Facts about the parked rows after some of them were tried.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The time until the next row is due.
    pub(crate) next_due: Option<Duration>,
    /// The lanes of a strict route.
    pub(crate) lanes: Option<Lanes>,
}

/// Messages of a broker that a consumer settles; they are acknowledged after the commit.
#[derive(Debug)]
pub(crate) struct Messages<'a> {
    pub(crate) shard: &'a Shard,
    /// Names the feed of the route.
    pub(crate) mark: &'a str,
    /// The number of the first entry; the others count on from there.
    pub(crate) first: i64,
    /// The place of each message on its broker, in order.
    pub(crate) origins: Vec<&'a Origin>,
    /// Events that a handler has just handled.
    pub(crate) handled: &'a [Uuid],
}

/// The result of settling messages.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Everything is committed; these are the new dead letters.
    Settled(Vec<Parked>),
    /// Nothing is committed: these events were handled here and given up elsewhere. An operator decides on a dead letter.
    GivenUp(HashSet<Uuid>),
}

/// Settles entries of the log: writes the settlement, moves the cursor, and commits both with the effects.
pub(crate) async fn settle_page(effects: OpenEffects, place: Place<'_>, settlement: Settlement) -> Result<Settled> {
    with_timeout(async {
        let settled = write(effects.tx(), place, settlement).await?;
        effects.commit().await?;
        Ok(settled)
    })
    .await
}

/// Settles parked rows that were tried again. The cursor keeps its position.
pub(crate) async fn settle_retried(
    effects: OpenEffects,
    place: Place<'_>,
    settlement: Settlement,
) -> Result<(Settled, Waiting)> {
    let Place { shard, ordering, .. } = place;
    with_timeout(async {
        let tx = effects.tx();
        let settled = write(tx, place, settlement).await?;
        let waiting = Waiting {
            next_due: parked::due_in(tx, shard).await?,
            lanes: match ordering {
                Ordering::Strict => Some(parked::lanes(tx, shard, ordering).await?),
                Ordering::Key | Ordering::None => None,
            },
        };
        effects.commit().await?;
        Ok((settled, waiting))
    })
    .await
}

/// Settles messages: counts the delivered ones, and keeps the failed ones that the route does not keep already from an earlier time.
pub(crate) async fn settle_messages(
    effects: OpenEffects,
    messages: &Messages<'_>,
    mut settlement: Settlement,
) -> Result<Outcome> {
    let Messages { shard, mark, .. } = *messages;
    with_timeout(async {
        let tx = effects.tx();
        let has_failed = !settlement.park.is_empty() || !settlement.dead.is_empty();
        if has_failed {
            cursor::lock(tx, &shard.route).await?; // operators and the worker change parked rows before this or after it
            drop_known(tx, shard, &mut settlement).await?;
        }
        feeding::count(tx, shard, mark, settlement.delivered).await?;
        if has_failed {
            keep(tx, messages, &settlement).await?;
        }
        let given_up = known_failures::given_up(tx, &shard.route, messages.handled).await?;
        if !given_up.is_empty() {
            return Ok(Outcome::GivenUp(given_up));
        }
        effects.commit().await?;
        Ok(Outcome::Settled(settlement.dead))
    })
    .await
}

/// Writes progress, parked rows and dead letters of a shard worker.
///
/// The cursor goes first: its row lock orders this against take-overs, operators and consumers.
async fn write(tx: &Tx, place: Place<'_>, mut settlement: Settlement) -> Result<Settled> {
    let Place {
        shard,
        ordering,
        step,
        has_consumer,
    } = place;
    cursor::advance(tx, shard, step, settlement.delivered).await?;
    let is_changed = has_consumer && !settlement.dead.is_empty() && drop_handled(tx, shard, &mut settlement).await?;
    parked::insert(tx, shard, ParkedBy::Log, &settlement.park).await?;
    parked::remove(tx, &shard.route, &settlement.unpark).await?;
    parked::update(tx, &shard.route, &settlement.change).await?;
    dead::insert(tx, shard, &settlement.dead).await?;
    inbox::record_delivered(tx, &shard.route, &settlement.record).await?;
    let mut touched = settlement.left;
    let rows = settlement.park.iter().chain(&settlement.change);
    touched.extend(rows.map(|row| row.entry.event.key()));
    Ok(Settled {
        freed: parked::arrange(tx, shard, ordering, touched).await?,
        dead: settlement.dead,
        is_changed,
    })
}

/// Removes from a settlement the entries that were given up here while a consumer of the same group has handled them: they have
/// had their effect. An entry that an operator has replayed was handled before; its letter says that the replay failed. Answers
/// whether there was any.
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

/// Removes from a settlement the events that the route keeps or has handled meanwhile.
async fn drop_known(tx: &Tx, shard: &Shard, settlement: &mut Settlement) -> Result<()> {
    let failed = settlement.park.iter().chain(&settlement.dead);
    let events: Vec<Uuid> = failed.map(|row| row.entry.event.id).collect();
    let mut known = known_failures::among(tx, &shard.route, &events).await?;
    known.extend(inbox::handled_meanwhile(tx, &shard.route, &events).await?);
    for rows in [&mut settlement.park, &mut settlement.dead] {
        let mut seen = known.clone();
        rows.retain(|row| seen.insert(row.entry.event.id));
    }
    Ok(())
}

/// Parks and gives up messages, in the order in which they came, with numbers that no entry of the log has.
async fn keep(tx: &Tx, messages: &Messages<'_>, settlement: &Settlement) -> Result<()> {
    let shard = messages.shard;
    let base = cursor::signal_numbered(tx, &shard.route, messages.origins.len()).await?;
    let numbered = |row: &Parked| {
        let at = row.entry.id - messages.first;
        let origin = usize::try_from(at).ok().and_then(|at| messages.origins.get(at));
        let mut row = row.clone();
        row.entry.id = parked::number_of_message(base + at);
        row.came_from = origin.map(|origin| (*origin).clone());
        row
    };
    let park: Vec<Parked> = settlement.park.iter().map(numbered).collect();
    let dead: Vec<Parked> = settlement.dead.iter().map(numbered).collect();
    parked::insert(tx, shard, ParkedBy::Broker, &park).await?;
    dead::insert(tx, shard, &dead).await
}
