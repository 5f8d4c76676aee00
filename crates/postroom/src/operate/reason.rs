//! Reasons why something does not move, and the next safe steps.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use super::{Carrier, RouteStatus, status};
use crate::error::{Letters, NextStep, Result};
use crate::event::entry::Entry;
use crate::operate::dead::{self, DeadLetter, LetterState, Selection};
use crate::policy::ordering::Ordering;
use crate::state::feeding;
use crate::state::outage::Side;
use crate::state::parked::PARKED_MAX;
use crate::store::db_clock;
use crate::store::outbox::{Hidden, Inspect, OpenTransaction, with_timeout_of};
use crate::store::table;

/// A status that takes longer is held up itself.
const STATUS_MAX: Duration = Duration::from_secs(10);
/// An event that a broker has not brought for so long is named.
const NOT_BROUGHT_MAX: Duration = Duration::from_secs(600);
/// A transaction that is open for longer is named.
const OPEN_LONG_S: f64 = 5.0;
/// So many entries of the log are read to count what waits behind one that fails.
const BEHIND_MAX: usize = 20_000;
/// So many at once.
const PAGE: usize = 1_000;
/// At most so many dead letters are named one by one.
const LETTERS_MAX: u64 = 5;

/// A reason why something does not move. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// A transaction holds locks that others need.
    Blocking {
        /// Its session in the database.
        session: String,
        /// How long it has been open.
        age_s: f64,
        /// The statement that it runs or ran last, as far as the database tells.
        query: String,
        /// How many other sessions wait for it. Zero, if relays skip the locked rows; then leases are not renewed.
        blocks: u64,
    },
    /// The store does not answer.
    #[serde(rename = "store")]
    Silent {
        /// In the words of the error.
        says: String,
    },
    /// A relay lost its leases, and no relay has taken over.
    Lapsed {
        /// The relay.
        owner: String,
        /// How long ago its first lease ran out.
        since_s: f64,
        /// The routes that it worked.
        routes: Vec<String>,
        /// How many entries wait on the one that is farthest behind.
        backlog: u64,
    },
    /// No relay works the route, and entries wait.
    #[serde(rename = "lease")]
    Unworked {
        /// The route.
        route: String,
        /// How many entries wait.
        backlog: u64,
    },
    /// An operator paused the route.
    Paused {
        /// The route.
        route: String,
    },
    /// One end of the route is out of reach.
    Down {
        /// The route.
        route: String,
        /// Which end.
        side: Side,
        /// In the words of that end.
        says: String,
        /// For how long.
        since_s: f64,
        /// How long until it is asked again; zero when that is due. None, if it is asked every few seconds.
        probe_s: Option<f64>,
        /// Whether a relay tries again by itself.
        is_leased: bool,
    },
    /// A broker has not brought an event for long: it waits in the topic, or the broker has lost it.
    NotBrought {
        /// The route that the broker feeds.
        route: String,
        /// The event.
        event_id: Uuid,
        /// Its type.
        event_type: String,
        /// Its entry in the log.
        entry_id: i64,
        /// How long ago it was recorded.
        age_s: f64,
    },
    /// So many entries are parked that a shard reads no new ones.
    Full {
        /// The route.
        route: String,
        /// How many are parked.
        parked: u64,
        /// From how many on a shard reads no new ones.
        parked_max: u64,
    },
    /// Dead letters hold their keys.
    Held {
        /// The route.
        route: String,
        /// How many keys.
        keys: u64,
        /// How many entries wait behind them, as far as [`why_among`] knows the order of the route.
        waiting: u64,
        /// Whether there are more: they were not counted to the end.
        has_more: bool,
    },
    /// Entries wait for their retry.
    #[serde(rename = "key")]
    Retrying {
        /// The route.
        route: String,
        /// How many.
        retrying: u64,
        /// How many entries wait behind them, as far as [`why_among`] knows the order of the route.
        waiting: u64,
        /// Whether there are more: they were not counted to the end.
        has_more: bool,
        /// The first of those that wait for their retry.
        event_id: Option<Uuid>,
        /// How long until it is tried again; zero when that is due.
        retry_s: Option<f64>,
    },
    /// A transaction has been open for long, and its own events wait for its commit.
    Transaction {
        /// Its session in the database.
        session: String,
        /// For how long.
        age_s: f64,
        /// The statement that it runs or ran last, as far as the database tells.
        query: String,
    },
    /// A dead letter waits for a decision.
    Dead {
        /// Its number.
        dead_id: i64,
        /// The route that gave it up.
        route: String,
        /// The type of its event.
        event_type: String,
        /// The key of its event.
        key: String,
        /// How often it was tried.
        attempts: u32,
        /// In the words of the last attempt.
        error: String,
    },
    /// The database does not show everything to this user, and the cause may be there.
    Hidden(Hidden),
}

/// The kind of a [`Reason`]. The order is that of causes: a later one is often the consequence of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonKind {
    /// [`Reason::Blocking`].
    Blocking,
    /// [`Reason::Silent`].
    #[serde(rename = "store")]
    Silent,
    /// [`Reason::Lapsed`].
    Lapsed,
    /// [`Reason::Unworked`].
    #[serde(rename = "lease")]
    Unworked,
    /// [`Reason::Paused`].
    Paused,
    /// [`Reason::Down`].
    Down,
    /// [`Reason::NotBrought`].
    NotBrought,
    /// [`Reason::Full`].
    Full,
    /// [`Reason::Held`].
    Held,
    /// [`Reason::Retrying`].
    #[serde(rename = "key")]
    Retrying,
    /// [`Reason::Transaction`].
    Transaction,
    /// [`Reason::Dead`].
    Dead,
    /// [`Reason::Hidden`].
    Hidden,
}

impl Reason {
    /// Its kind.
    pub fn kind(&self) -> ReasonKind {
        match self {
            Self::Blocking { .. } => ReasonKind::Blocking,
            Self::Silent { .. } => ReasonKind::Silent,
            Self::Lapsed { .. } => ReasonKind::Lapsed,
            Self::Unworked { .. } => ReasonKind::Unworked,
            Self::Paused { .. } => ReasonKind::Paused,
            Self::Down { .. } => ReasonKind::Down,
            Self::NotBrought { .. } => ReasonKind::NotBrought,
            Self::Full { .. } => ReasonKind::Full,
            Self::Held { .. } => ReasonKind::Held,
            Self::Retrying { .. } => ReasonKind::Retrying,
            Self::Transaction { .. } => ReasonKind::Transaction,
            Self::Dead { .. } => ReasonKind::Dead,
            Self::Hidden(_) => ReasonKind::Hidden,
        }
    }

    /// The steps that an operator can take: in order, or alternatives, the safest first.
    pub fn next_steps(&self) -> Vec<NextStep> {
        match self {
            Self::Blocking { session, .. } | Self::Transaction { session, .. } => end_of(session),
            Self::Silent { .. } => vec![NextStep::EndSession { session: None }, NextStep::CheckDatabase],
            Self::Lapsed { owner, routes, .. } => {
                let (owner, routes) = (owner.clone(), routes.clone());
                vec![NextStep::CheckRelay { owner }, NextStep::StartRelay { routes }]
            }
            Self::Unworked { route, .. } => vec![start_relay(route)],
            Self::Paused { route } => vec![NextStep::Resume { route: route.clone() }],
            Self::Down {
                route,
                is_leased,
                probe_s,
                ..
            } => {
                let then = match (is_leased, probe_s) {
                    (false, _) => start_relay(route),
                    (true, None) => NextStep::Wait,
                    (true, Some(_)) => NextStep::Resume { route: route.clone() },
                };
                vec![NextStep::Reconnect { route: route.clone() }, then]
            }
            Self::NotBrought {
                route,
                event_id,
                entry_id,
                ..
            } => vec![
                NextStep::FindEvent { event_id: *event_id },
                NextStep::Replay {
                    route: route.clone(),
                    from_id: *entry_id,
                    to_id: *entry_id,
                },
            ],
            Self::Full { route, .. } => vec![
                NextStep::FixDeliveries { route: route.clone() },
                NextStep::ShowLetters {
                    letters: Letters::Route(route.clone()),
                },
            ],
            Self::Held { route, .. } => decide(&Letters::Route(route.clone())),
            Self::Retrying { route, event_id, .. } => {
                let route = Some(route.clone());
                let retry = event_id.map(|event_id| NextStep::RetryNow { event_id });
                let steps = [NextStep::ShowRoutes { route }, NextStep::Wait];
                steps.into_iter().chain(retry).collect()
            }
            Self::Dead { dead_id, .. } => decide(&Letters::Id(*dead_id)),
            Self::Hidden(hidden) => vec![hidden.next_step()],
        }
    }
}

fn start_relay(route: &str) -> NextStep {
    NextStep::StartRelay {
        routes: vec![route.to_owned()],
    }
}

fn end_of(session: &str) -> Vec<NextStep> {
    vec![
        NextStep::AwaitCommit {
            session: session.to_owned(),
        },
        NextStep::EndSession {
            session: Some(session.to_owned()),
        },
    ]
}

/// Look at letters, then retry or discard them.
fn decide(letters: &Letters) -> Vec<NextStep> {
    let letters = || letters.clone();
    vec![
        NextStep::ShowLetters { letters: letters() },
        NextStep::Retry { letters: letters() },
        NextStep::Discard { letters: letters() },
    ]
}

/// Tells what holds things up, causes before their consequences; empty when all is well. This writes nothing. A store does not know
/// the order of a route, so what is still in the log counts as waiting behind nothing; [`why_among`] knows it.
pub async fn why(store: &dyn Inspect) -> Result<Vec<Reason>> {
    why_among(store, &[]).await
}

/// The same, where the asker knows routes: behind an entry that fails on a strict one of them waits all that it takes from the log.
pub async fn why_among(store: &dyn Inspect, carriers: &[Carrier]) -> Result<Vec<Reason>> {
    // First: it reads none of the platform's tables, which may be what is locked.
    let open = store.open_transactions().await?;
    let mut reasons: Vec<Reason> = open.iter().filter_map(reason_of_transaction).collect();
    match with_timeout_of(STATUS_MAX, status(store)).await {
        Ok(status) => {
            let routes = status?.routes;
            let lapsed = reasons_of_lapsed(&routes);
            if !lapsed.is_empty() {
                reasons.extend(open.iter().filter_map(reason_of_locks));
            }
            reasons.extend(lapsed);
            reasons.extend(reasons_of_routes(store, &routes, carriers).await?);
            reasons.extend(reasons_of_not_brought(store, &routes).await?);
            reasons.extend(reasons_of_letters(store).await?);
        }
        Err(late) => reasons.push(Reason::Silent { says: late.to_string() }),
    }
    if reasons.iter().any(|reason| reason.kind() <= ReasonKind::Unworked) {
        reasons.extend(store.hidden().await?.map(Reason::Hidden));
    }
    reasons.sort_by_key(Reason::kind);
    Ok(reasons)
}

async fn reasons_of_routes(store: &dyn Inspect, routes: &[RouteStatus], carriers: &[Carrier]) -> Result<Vec<Reason>> {
    let mut reasons = Vec::new();
    for route in routes {
        let shards = routes.iter().filter(|other| other.route == route.route).count();
        let is_this = |carrier: &&Carrier| carrier.route == route.route && carrier.ordering == Ordering::Strict;
        let stopped = carriers
            .iter()
            .find(is_this)
            .filter(|_| route.retrying + route.held > 0);
        let behind = match stopped {
            Some(carrier) => behind(store, route, carrier, shards).await?,
            None => Behind::default(),
        };
        reasons.extend(route.reasons().into_iter().map(|reason| behind.added_to(reason)));
    }
    Ok(reasons)
}

/// The entries of the log that wait behind one that fails.
#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    entries: u64,
    has_more: bool,
}

impl Behind {
    fn added_to(self, reason: Reason) -> Reason {
        let mut reason = reason;
        if let Reason::Retrying { waiting, has_more, .. } | Reason::Held { waiting, has_more, .. } = &mut reason {
            *waiting += self.entries;
            *has_more = self.has_more;
        }
        reason
    }
}

/// Counts what a route takes of the entries ahead of it. It reads them, so after [`BEHIND_MAX`] of the log it stops.
async fn behind(store: &dyn Inspect, route: &RouteStatus, carrier: &Carrier, shards: usize) -> Result<Behind> {
    let shards = u32::try_from(shards).unwrap_or(1);
    let is_taken = |entry: &&Entry| {
        carrier.filter.matches(&entry.event.event_type) && entry.event.key().shard(shards) == route.shard
    };
    let (mut position, mut read, mut behind) = (route.position, 0, Behind::default());
    loop {
        let page = store.read(position, PAGE).await?;
        behind.entries += page.entries.iter().filter(is_taken).count() as u64;
        read += page.entries.len();
        if page.next == position || read >= BEHIND_MAX {
            behind.has_more = page.next != position;
            return Ok(behind);
        }
        position = page.next;
    }
}

/// One reason for each relay that has lost its leases: it is one cause, however many routes it had.
fn reasons_of_lapsed(routes: &[RouteStatus]) -> Vec<Reason> {
    let mut by_owner: BTreeMap<&str, Vec<&RouteStatus>> = BTreeMap::new();
    for route in routes.iter().filter(|route| route.lapsed_s.is_some()) {
        by_owner
            .entry(route.owner.as_deref().unwrap_or_default())
            .or_default()
            .push(route);
    }
    let reason = |(owner, lapsed): (&str, Vec<&RouteStatus>)| {
        let mut routes: Vec<String> = lapsed.iter().map(|route| route.route.clone()).collect();
        routes.dedup();
        Reason::Lapsed {
            owner: owner.to_owned(),
            since_s: lapsed.iter().filter_map(|route| route.lapsed_s).fold(0.0, f64::max),
            routes,
            backlog: lapsed.iter().map(|route| route.backlog).max().unwrap_or(0),
        }
    };
    by_owner.into_iter().map(reason).collect()
}

/// Events that the broker of a route should have brought by now.
async fn reasons_of_not_brought(store: &dyn Inspect, routes: &[RouteStatus]) -> Result<Vec<Reason>> {
    let tx = table::look(store.db()).await?;
    let places = feeding::open_places(&tx).await?;
    let now = db_clock::read_now(&tx).await?;
    tx.commit().await?;
    // A route that is paused, down or worked by no relay has its reason.
    let is_explained = |route: &str| {
        let is_well = |known: &RouteStatus| known.is_leased && !known.is_paused && known.down.is_none();
        !routes.iter().any(|known| known.route == route && is_well(known))
    };
    let mut reasons = Vec::new();
    for place in places {
        if !place.is_fed || is_explained(&place.route) {
            continue;
        }
        let open = feeding::first_after(store, place.position).await.unwrap_or(None); // retention may just have removed it
        let is_late = |entry: &Entry| now - entry.created_at > NOT_BROUGHT_MAX;
        let reason = |entry: Entry| Reason::NotBrought {
            route: place.route,
            event_id: entry.event.id,
            event_type: entry.event.event_type,
            entry_id: entry.id,
            age_s: (now - entry.created_at).as_seconds_f64(),
        };
        reasons.extend(open.filter(is_late).map(reason));
    }
    Ok(reasons)
}

impl RouteStatus {
    /// Why this shard of the route does not move, as far as its own state tells; see [`why`] for causes elsewhere.
    pub fn reasons(&self) -> Vec<Reason> {
        let route = || self.route.clone();
        let (backlog, waiting) = (self.backlog, self.waiting);
        let mut reasons = Vec::new();
        if self.is_paused {
            reasons.push(Reason::Paused { route: route() });
        }
        if !self.is_leased && self.lapsed_s.is_none() && backlog > 0 {
            reasons.push(Reason::Unworked {
                route: route(),
                backlog,
            });
        }
        reasons.extend(self.reason_of_outage());
        let parked = self.retrying + waiting + self.held;
        if parked >= PARKED_MAX && backlog > 0 {
            reasons.push(Reason::Full {
                route: route(),
                parked,
                parked_max: PARKED_MAX,
            });
        }
        match (self.held, self.retrying) {
            (0, 0) => {}
            (0, retrying) => reasons.push(Reason::Retrying {
                route: route(),
                retrying,
                waiting,
                has_more: false,
                event_id: self.retry_event,
                retry_s: self.retry_s,
            }),
            (keys, _) => reasons.push(Reason::Held {
                route: route(),
                keys,
                waiting,
                has_more: false,
            }),
        }
        reasons
    }

    /// The reason of a route one of whose ends is out of reach.
    pub fn reason_of_outage(&self) -> Option<Reason> {
        Some(Reason::Down {
            says: self.down.clone()?,
            route: self.route.clone(),
            side: self.down_side.unwrap_or(Side::Delivery),
            since_s: self.down_s.unwrap_or_default(),
            probe_s: self.probe_s,
            is_leased: self.is_leased,
        })
    }
}

fn reason_of_transaction(transaction: &OpenTransaction) -> Option<Reason> {
    if transaction.blocks > 0 {
        return Some(blocking(transaction));
    }
    (transaction.has_written && transaction.age_s > OPEN_LONG_S).then(|| Reason::Transaction {
        session: transaction.session.clone(),
        age_s: transaction.age_s,
        query: transaction.query.clone(),
    })
}

/// A transaction that holds locks while leases are not renewed. No session waits for it: a relay passes over locked rows.
fn reason_of_locks(transaction: &OpenTransaction) -> Option<Reason> {
    (transaction.blocks == 0 && transaction.is_suspect()).then(|| blocking(transaction))
}

fn blocking(transaction: &OpenTransaction) -> Reason {
    Reason::Blocking {
        session: transaction.session.clone(),
        age_s: transaction.age_s,
        query: transaction.query.clone(),
        blocks: transaction.blocks,
    }
}

async fn reasons_of_letters(store: &dyn Inspect) -> Result<Vec<Reason>> {
    let undecided = Selection {
        state: Some(LetterState::Dead),
        ..Selection::default()
    };
    let letters = dead::list(store.db(), &undecided, None, LETTERS_MAX).await?;
    Ok(letters.into_iter().map(reason_of_letter).collect())
}

fn reason_of_letter(letter: DeadLetter) -> Reason {
    Reason::Dead {
        dead_id: letter.dead_id,
        route: letter.route,
        key: letter.entry.event.key().to_string(),
        event_type: letter.entry.event.event_type,
        attempts: letter.attempts,
        error: letter.error,
    }
}
