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

/// How the progress of a delivery is kept.
#[derive(Debug)]
pub(crate) enum Progress<'a> {
    /// Entries of the log: the cursor moves, fenced by the epoch of the lease.
    Cursor { step: &'a Move, is_fed: bool },
    /// Parked rows: the cursor stays, fenced likewise.
    Parked { step: &'a Move, is_fed: bool },
    /// Messages of a broker, which are acknowledged after the commit.
    Ack(Messages<'a>),
}

/// Messages that a consumer settles.
#[derive(Debug)]
pub(crate) struct Messages<'a> {
    /// Names the feed of the route.
    pub(crate) mark: &'a str,
    /// The number of the first entry; the others count on from there.
    pub(crate) first: i64,
    /// Where each message came from, in order.
    pub(crate) origins: Vec<Origin>,
    /// Events that a handler has just handled.
    pub(crate) handled: &'a [Uuid],
}

/// The result of settling.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Everything is committed.
    Settled(Settled),
    /// Nothing is committed: these events were handled here and given up elsewhere. An operator decides on a dead letter.
    GivenUp(HashSet<Uuid>),
}

/// Facts about the route after a commit.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Keys that no row is parked for any more.
    pub(crate) freed: HashSet<Key>,
    /// New dead letters.
    pub(crate) dead: Vec<Parked>,
    /// A consumer had handled some of the entries that were given up here: the lanes differ from the settlement.
    pub(crate) is_changed: bool,
    /// After parked rows were tried: the time until the next one is due.
    pub(crate) next_due: Option<Duration>,
    /// After parked rows of a strict route were tried: its lanes.
    pub(crate) lanes: Option<Lanes>,
}

impl OpenEffects {
    /// Writes a settlement and the progress, and commits them together with the effects. An error rolls everything back.
    pub(crate) async fn settle(
        self,
        (shard, ordering): (&Shard, Ordering),
        progress: Progress<'_>,
        settlement: Settlement,
    ) -> Result<Outcome> {
        with_timeout(async {
            let tx = self.tx();
            let outcome = match progress {
                Progress::Cursor { step, is_fed } => {
                    let settled = settle_entries(tx, (shard, ordering), (step, is_fed), settlement).await?;
                    Outcome::Settled(settled)
                }
                Progress::Parked { step, is_fed } => {
                    let settled = settle_entries(tx, (shard, ordering), (step, is_fed), settlement).await?;
                    Outcome::Settled(Settled {
                        next_due: parked::due_in(tx, shard).await?,
                        lanes: match ordering {
                            Ordering::Strict => Some(parked::lanes(tx, shard, ordering).await?),
                            Ordering::Key | Ordering::None => None,
                        },
                        ..settled
                    })
                }
                Progress::Ack(messages) => settle_messages(tx, shard, &messages, settlement).await?,
            };
            if let Outcome::Settled(_) = &outcome {
                self.commit().await?;
            }
            Ok(outcome)
        })
        .await
    }
}

/// Writes progress, parked rows and dead letters of a shard worker. With `is_fed`, a broker may have brought the same events to a
/// consumer.
///
/// The cursor goes first: its row lock orders this against take-overs, operators and consumers.
async fn settle_entries(
    tx: &Tx,
    (shard, ordering): (&Shard, Ordering),
    (step, is_fed): (&Move, bool),
    mut settlement: Settlement,
) -> Result<Settled> {
    cursor::advance(tx, shard, step, settlement.delivered).await?;
    let is_changed = is_fed && !settlement.dead.is_empty() && drop_handled(tx, shard, &mut settlement).await?;
    parked::insert(tx, shard, ParkedBy::Log, &settlement.park).await?;
    parked::remove(tx, &shard.route, &settlement.unpark).await?;
    parked::update(tx, &shard.route, &settlement.change).await?;
    dead::insert(tx, shard, &settlement.dead).await?;
    let mut touched = settlement.left;
    let rows = settlement.park.iter().chain(&settlement.change);
    touched.extend(rows.map(|row| row.entry.event.key()));
    Ok(Settled {
        freed: parked::arrange(tx, shard, ordering, touched).await?,
        dead: settlement.dead,
        is_changed,
        ..Settled::default()
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

/// Counts delivered messages, and keeps the failed ones that the route does not keep already from an earlier time.
async fn settle_messages(
    tx: &Tx,
    shard: &Shard,
    messages: &Messages<'_>,
    mut settlement: Settlement,
) -> Result<Outcome> {
    let has_failed = !settlement.park.is_empty() || !settlement.dead.is_empty();
    if has_failed {
        cursor::lock(tx, &shard.route).await?; // operators and the worker change parked rows before this or after it
        drop_known(tx, shard, &mut settlement).await?;
    }
    feeding::count(tx, shard, messages.mark, settlement.delivered).await?;
    if has_failed {
        keep(tx, shard, messages, &settlement).await?;
    }
    let given_up = known_failures::given_up(tx, &shard.route, messages.handled).await?;
    if !given_up.is_empty() {
        return Ok(Outcome::GivenUp(given_up));
    }
    Ok(Outcome::Settled(Settled {
        dead: settlement.dead,
        ..Settled::default()
    }))
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
async fn keep(tx: &Tx, shard: &Shard, messages: &Messages<'_>, settlement: &Settlement) -> Result<()> {
    let base = cursor::signal_numbered(tx, &shard.route, messages.origins.len()).await?;
    let numbered = |row: &Parked| {
        let at = row.entry.id - messages.first;
        let origin = usize::try_from(at).ok().and_then(|at| messages.origins.get(at));
        let mut row = row.clone();
        row.entry.id = parked::number_of_message(base + at);
        row.came_from = origin.cloned();
        row
    };
    let park: Vec<Parked> = settlement.park.iter().map(numbered).collect();
    let dead: Vec<Parked> = settlement.dead.iter().map(numbered).collect();
    parked::insert(tx, shard, ParkedBy::Broker, &park).await?;
    dead::insert(tx, shard, &dead).await
}
