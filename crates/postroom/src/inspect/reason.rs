//! What holds things up, and the next safe step.

use std::time::Duration;

use serde::Serialize;

use super::{RouteStatus, counted, status};
use crate::dead::{self, DeadLetter, Selection};
use crate::error::Result;
use crate::outbox::{Inspect, OpenTransaction};

/// A reason why something does not move, and what to do.
#[derive(Clone, Debug, Serialize)]
pub struct Reason {
    /// `paused`, `lease`, `down`, `held`, `key`, `transaction` or `dead`.
    pub what: String,
    /// Where: a route, a session.
    pub who: String,
    /// What is the matter.
    pub says: String,
    /// The next safe step.
    pub next: String,
}

/// What holds things up, most pressing first; empty when all is well.
pub async fn why(store: &dyn Inspect) -> Result<Vec<Reason>> {
    let status = status(store).await?;
    let mut reasons: Vec<Reason> = status.routes.iter().flat_map(reasons_of).collect();
    for transaction in store.open_transactions().await? {
        reasons.extend(reason_of_transaction(&transaction));
    }
    let letters = Selection {
        state: Some("dead"),
        ..Selection::default()
    };
    for letter in dead::list(store.db(), &letters, None, 5).await? {
        reasons.push(reason_of_letter(&letter));
    }
    Ok(reasons)
}

fn reasons_of(route: &RouteStatus) -> Vec<Reason> {
    let reason = |what: &str, says: String, next: String| Reason {
        what: what.to_owned(),
        who: route.route.clone(),
        says,
        next,
    };
    let mut reasons = Vec::new();
    if route.is_paused {
        reasons.push(reason(
            "paused",
            "an operator paused the route".into(),
            format!("postroom resume {}", route.route),
        ));
    }
    if !route.is_leased && route.backlog > 0 {
        reasons.push(reason(
            "lease",
            format!("nobody works the route, {}", waiting(route.backlog)),
            "start a relay that has this route: `postroom serve --roles relay`".into(),
        ));
    }
    if let Some(down) = &route.down {
        let says = format!(
            "cannot go on, for {:.0} s now: {down}",
            route.down_s.unwrap_or_default()
        );
        reasons.push(reason("down", says, reach(route).into()));
    }
    if route.held > 0 {
        reasons.push(reason(
            "held",
            format!(
                "{} by a dead letter, {}",
                counted(route.held, "key is held", "keys are held"),
                waiting(route.waiting)
            ),
            format!("postroom dead list --route {}, then retry or discard", route.route),
        ));
    } else if route.retrying > 0 {
        reasons.push(reason(
            "key",
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
    const LONG: Duration = Duration::from_secs(5);
    (transaction.has_written && transaction.age_s > LONG.as_secs_f64()).then(|| Reason {
        what: "transaction".into(),
        who: transaction.session.clone(),
        says: format!(
            "has been open for {:.0} s; its own events wait for its commit: {}",
            transaction.age_s, transaction.query
        ),
        next: "let it commit, or end that session".into(),
    })
}

fn reason_of_letter(letter: &DeadLetter) -> Reason {
    Reason {
        what: "dead".into(),
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
