//! What holds things up, and the next safe step.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::{RouteStatus, counted, status};
use crate::error::Result;
use crate::operate::dead::{self, DeadLetter, Selection};
use crate::state::feeding;
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

/// What kind of reason it is. The order is that of causes: what comes later is often a consequence of what comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A transaction that other sessions wait for.
    Blocking,
    /// The store does not answer.
    Store,
    /// A relay lost its leases and has not come back.
    Lapsed,
    /// No relay works the route.
    Lease,
    /// An operator paused the route.
    Paused,
    /// The route's destination, or the broker that feeds it, cannot be reached.
    Down,
    /// A broker has not brought an event for long.
    NotBrought,
    /// So many entries are parked that a shard reads no new ones.
    Full,
    /// A dead letter holds its key.
    Held,
    /// Entries wait for their retry.
    Key,
    /// A transaction that has been open for long.
    Transaction,
    /// A dead letter waits for a decision.
    Dead,
    /// This database user may not see everything.
    Hidden,
}

/// A reason why something does not move, and what to do.
#[derive(Clone, Debug, Serialize)]
pub struct Reason {
    /// Which kind.
    pub what: What,
    /// Where: a route, a session.
    pub who: String,
    /// What is the matter.
    pub says: String,
    /// The next safe step.
    pub next: String,
}

/// What holds things up, causes before their consequences; empty when all is well.
pub async fn why(store: &dyn Inspect) -> Result<Vec<Reason>> {
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
            reasons.extend(routes.iter().flat_map(reasons_of));
            reasons.extend(reasons_of_not_brought(store, &routes).await?);
            reasons.extend(reasons_of_letters(store).await?);
        }
        Err(late) => reasons.push(reason_of_silence(&late.to_string())),
    }
    if reasons.iter().any(|reason| reason.what <= What::Lease) {
        reasons.extend(store.hidden().await?.map(reason_of_hidden));
    }
    reasons.sort_by_key(|reason| reason.what);
    Ok(reasons)
}

fn reason_of_silence(says: &str) -> Reason {
    Reason {
        what: What::Store,
        who: "postroom".into(),
        says: format!("the tables cannot be read: {says}"),
        next: "end the session that blocks them, or see that the database is well".into(),
    }
}

fn reason_of_hidden(hidden: Hidden) -> Reason {
    Reason {
        what: What::Hidden,
        who: "sessions".into(),
        says: format!("{}, and one of them may be the cause", hidden.what),
        next: hidden.next,
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
        let since_s = lapsed.iter().filter_map(|route| route.lapsed_s).fold(0.0, f64::max);
        let backlog = lapsed.iter().map(|route| route.backlog).max().unwrap_or(0);
        let mut names: Vec<&str> = lapsed.iter().map(|route| route.route.as_str()).collect();
        names.dedup();
        Reason {
            what: What::Lapsed,
            who: owner.to_owned(),
            says: format!(
                "has not renewed its leases for {since_s:.0} s, and no other relay has taken over {}; {}",
                names.join(", "),
                waiting(backlog)
            ),
            next: "if that process runs, its /health/ready and its log name the cause (a full disk, no free connection, a \
                   lock); otherwise start a relay"
                .into(),
        }
    };
    by_owner.into_iter().map(reason).collect()
}

/// A broker that feeds a route and does not bring an event: it waits in the topic, or the broker has lost it.
async fn reasons_of_not_brought(store: &dyn Inspect, routes: &[RouteStatus]) -> Result<Vec<Reason>> {
    let tx = table::look(store.db()).await?;
    let places = feeding::open_places(&tx).await?;
    let now = db_clock::read_now(&tx).await?;
    tx.commit().await?;
    // One that is paused, down or worked by nobody has its reason.
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
        let Some(entry) = open.filter(|entry| now - entry.created_at > NOT_BROUGHT_MAX) else {
            continue;
        };
        let (route, event) = (place.route, &entry.event);
        reasons.push(Reason {
            what: What::NotBrought,
            says: format!(
                "its broker has not brought the event {} ({}), recorded {:.0} min ago; retention keeps every event since then",
                event.id,
                event.event_type,
                (now - entry.created_at).as_seconds_f64() / 60.0
            ),
            next: format!(
                "look whether the route that publishes it is behind, and whether it waits in the topic. If the broker has lost it, \
                 deliver it: postroom replay --route {route} --from-id {id} --to-id {id}",
                id = entry.id
            ),
            who: route,
        });
    }
    Ok(reasons)
}

fn reasons_of(route: &RouteStatus) -> Vec<Reason> {
    let reason = |what: What, says: String, next: String| Reason {
        what,
        who: route.route.clone(),
        says,
        next,
    };
    let mut reasons = Vec::new();
    if route.is_paused {
        reasons.push(reason(
            What::Paused,
            "an operator paused the route".into(),
            format!("postroom resume {}", route.route),
        ));
    }
    if !route.is_leased && route.lapsed_s.is_none() && route.backlog > 0 {
        reasons.push(reason(
            What::Lease,
            format!("nobody works the route, {}", waiting(route.backlog)),
            "start a relay that has this route: `postroom serve --roles relay`".into(),
        ));
    }
    if let Some(down) = &route.down {
        let says = format!(
            "cannot go on, for {:.0} s now: {down}",
            route.down_s.unwrap_or_default()
        );
        reasons.push(reason(What::Down, says, reach(route).into()));
    }
    let parked = route.retrying + route.waiting + route.held;
    if parked >= PARKED_MAX && route.backlog > 0 {
        let says = format!(
            "{parked} entries are parked. A route with {PARKED_MAX} parked entries in a shard reads no new ones until some are \
             delivered or given up; what operators retry or replay does not count"
        );
        let next = format!(
            "mend what refuses them (postroom status --route {0}), or postroom dead list --route {0}",
            route.route
        );
        reasons.push(reason(What::Full, says, next));
    }
    if route.held > 0 {
        reasons.push(reason(
            What::Held,
            format!(
                "{} by a dead letter, {}",
                counted(route.held, "key is held", "keys are held"),
                waiting(route.waiting)
            ),
            format!("postroom dead list --route {}, then retry or discard", route.route),
        ));
    } else if route.retrying > 0 {
        reasons.push(reason(
            What::Key,
            format!(
                "{}, {} behind",
                counted(
                    route.retrying,
                    "entry waits for its retry",
                    "entries wait for their retry"
                ),
                route.waiting
            ),
            format!("postroom status --route {}: it goes on by itself", route.route),
        ));
    }
    reasons
}

fn waiting(entries: u64) -> String {
    counted(entries, "entry waits", "entries wait")
}

/// What to do about a route that cannot go on.
pub fn reach(route: &RouteStatus) -> &'static str {
    match route.is_leased {
        true => "see that it can be reached: it is tried again by itself, and nothing is lost meanwhile",
        false => "see that it can be reached, and start a relay that has the route: nobody tries now",
    }
}

fn reason_of_transaction(transaction: &OpenTransaction) -> Option<Reason> {
    let OpenTransaction {
        session, age_s, query, ..
    } = transaction;
    let reason = |what, says| Reason {
        what,
        who: session.clone(),
        says,
        next: "let it commit, or end that session".into(),
    };
    if transaction.blocks > 0 {
        let others = counted(transaction.blocks, "other session waits", "other sessions wait");
        let says = format!("{others} for it; it has been open for {age_s:.0} s: {query}");
        return Some(reason(What::Blocking, says));
    }
    let says = || format!("has been open for {age_s:.0} s; its own events wait for its commit: {query}");
    (transaction.has_written && *age_s > OPEN_LONG_S).then(|| reason(What::Transaction, says()))
}

/// A transaction that holds locks while leases are not renewed. Nobody waits for it: a relay passes over locked rows.
fn reason_of_locks(transaction: &OpenTransaction) -> Option<Reason> {
    let OpenTransaction {
        session, age_s, query, ..
    } = transaction;
    (transaction.blocks == 0 && transaction.is_suspect()).then(|| Reason {
        what: What::Blocking,
        who: session.clone(),
        says: format!("has been open for {age_s:.0} s and holds locks, for which the leases may wait: {query}"),
        next: "let it commit, or end that session".into(),
    })
}

async fn reasons_of_letters(store: &dyn Inspect) -> Result<Vec<Reason>> {
    let letters = Selection {
        state: Some("dead"),
        ..Selection::default()
    };
    let letters = dead::list(store.db(), &letters, None, 5).await?;
    Ok(letters.iter().map(reason_of_letter).collect())
}

fn reason_of_letter(letter: &DeadLetter) -> Reason {
    Reason {
        what: What::Dead,
        who: letter.route.clone(),
        says: format!(
            "{} of {} was given up after {}: {}",
            letter.entry.event.event_type,
            letter.entry.event.key(),
            counted(letter.attempts.into(), "attempt", "attempts"),
            letter.error
        ),
        next: format!(
            "postroom dead show {0}; postroom dead retry {0} or discard {0} --reason …",
            letter.dead_id
        ),
    }
}

impl What {
    /// As `why` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Store => "store",
            Self::Lapsed => "lapsed",
            Self::Lease => "lease",
            Self::Paused => "paused",
            Self::Down => "down",
            Self::NotBrought => "not brought",
            Self::Full => "full",
            Self::Held => "held",
            Self::Key => "key",
            Self::Transaction => "transaction",
            Self::Dead => "dead",
            Self::Hidden => "hidden",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq<&str> for What {
    fn eq(&self, name: &&str) -> bool {
        self.name() == *name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::entry::Position;

    #[test]
    fn a_route_that_reads_no_further_for_what_it_has_parked_is_named() {
        let check = |retrying: u64, waiting: u64, backlog: u64, expected: bool| {
            let route = RouteStatus {
                route: "r".to_owned(),
                shard: 0,
                is_paused: false,
                owner: None,
                is_leased: true,
                lapsed_s: None,
                epoch: 1,
                delivered: 0,
                backlog,
                oldest_s: None,
                retrying,
                attempts: 0,
                waiting,
                parked_s: None,
                held: 0,
                dead: 0,
                down: None,
                down_s: None,
                settled_at: None,
                position: Position::START,
            };
            let is_named = reasons_of(&route).iter().any(|reason| reason.what == What::Full);
            assert_eq!(is_named, expected, "{retrying} + {waiting}, {backlog} behind");
        };
        check(1, 9_999, 1, true);
        check(1, 9_998, 1, false);
        check(1, 9_999, 0, false);
    }
}
