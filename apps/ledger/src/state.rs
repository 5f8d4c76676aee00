//! The state of each event, as a view over what the platform keeps: PENDING, PROCESSED or FAILED.

use postroom::dead::{self, Selection};
use postroom::inspect::{self, Step, Timeline};
use postroom::{Entry, Inspect, Result, clock};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::alert::{Observed, PENDING_LONG_S};
use crate::events::{Movement, TYPES};
use crate::{GROUPS, TOPIC};

/// More late events than this are not counted: the alert has fired long before.
const LATE_MAX: usize = 1_000;

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum State {
    /// Some route has not delivered it yet, or tries again.
    Pending,
    /// Every route has delivered it.
    Processed,
    /// Some route has given it up.
    Failed,
}

/// An event and its state.
#[derive(Debug, Serialize)]
pub(crate) struct EventState {
    event_id: Uuid,
    #[serde(rename = "type")]
    event_type: String,
    account_id: String,
    transaction_id: Option<Uuid>,
    state: State,
    /// How often it was tried in vain, by the route that tried most; counted until it is delivered.
    retry_count: u32,
    /// What went wrong last.
    error: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// When the last subscriber that keeps an inbox handled it.
    #[serde(with = "time::serde::rfc3339::option")]
    processed_at: Option<OffsetDateTime>,
    /// The routes that have something to say.
    routes: Vec<Step>,
}

/// Events in this state (any, unless told), at most `limit`: failed and processed ones newest first, pending ones oldest first.
pub(crate) async fn list(store: &dyn Inspect, state: Option<State>, limit: usize) -> Result<Vec<EventState>> {
    store.pulse().await?; // what was committed while no relay ran is pending too
    let entries = match state {
        Some(State::Failed) => failed(store, limit).await?,
        Some(State::Pending) => inspect::undelivered(store, &TYPES, is_ours, limit).await?,
        Some(State::Processed) | None => inspect::newest(store, &TYPES, limit).await?,
    };
    let timelines = inspect::timelines(store, entries).await?;
    let states = timelines.into_iter().map(EventState::of);
    Ok(states
        .filter(|event| state.is_none_or(|state| event.state == state))
        .collect())
}

/// What the alert rules look at.
pub(crate) async fn observe(store: &dyn Inspect) -> Result<Observed> {
    store.pulse().await?;
    let late = clock::now() - std::time::Duration::from_secs(PENDING_LONG_S);
    let pending = inspect::undelivered(store, &TYPES, is_ours, LATE_MAX).await?;
    let status = inspect::status(store).await?;
    let ours = status.routes.iter().filter(|route| is_ours(&route.route));
    Ok(Observed {
        failed: ours.map(|route| route.dead).sum(),
        pending_long: pending.iter().filter(|entry| entry.created_at < late).count() as u64,
    })
}

async fn failed(store: &dyn Inspect, limit: usize) -> Result<Vec<Entry>> {
    let which = Selection {
        state: Some("dead"),
        ..Selection::default()
    };
    let letters = dead::list(store.db(), &which, None, limit as u64).await?;
    let ours = letters.into_iter().filter(|letter| is_ours(&letter.route));
    let mut entries: Vec<Entry> = ours.map(|letter| letter.entry).collect();
    let mut seen = std::collections::HashSet::new();
    entries.retain(|entry| seen.insert(entry.event.id)); // several routes may have given it up
    Ok(entries)
}

/// Our subscribers, and the routes that publish to our topic.
fn is_ours(route: &str) -> bool {
    GROUPS.contains(&route) || (route.starts_with("to-") && route.ends_with(TOPIC))
}

impl EventState {
    fn of(timeline: Timeline) -> Self {
        let Timeline { entry, steps, .. } = timeline;
        let ours: Vec<Step> = steps.into_iter().filter(|step| is_ours(&step.route)).collect();
        let movement: Option<Movement> = entry.event.decode().ok();
        Self {
            event_id: entry.event.id,
            state: judge(ours.iter().map(|step| step.state.as_str())),
            retry_count: ours.iter().filter_map(|step| step.attempts).max().unwrap_or(0),
            error: ours.iter().find_map(|step| step.error.clone()),
            created_at: entry.created_at,
            processed_at: ours.iter().filter_map(|step| step.handled_at).max(),
            account_id: entry.event.aggregate_id,
            transaction_id: movement.map(|movement| movement.transaction_id),
            event_type: entry.event.event_type,
            routes: ours,
        }
    }
}

/// One that gave it up is enough to have failed, one that waits is enough to be pending.
fn judge<'a>(states: impl Iterator<Item = &'a str>) -> State {
    let mut judged = State::Processed;
    for state in states {
        match state {
            "dead" | "held" => return State::Failed,
            "pending" | "parked" | "waiting" => judged = State::Pending,
            _ => {}
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_route_decides() {
        let check = |states: &[&str], expected| assert_eq!(judge(states.iter().copied()), expected, "{states:?}");
        check(&[], State::Processed);
        check(&["passed", "discarded"], State::Processed);
        check(&["passed", "pending"], State::Pending);
        check(&["parked", "passed"], State::Pending);
        check(&["dead", "pending"], State::Failed);
        check(&["waiting", "held"], State::Failed);
    }

    #[test]
    fn routes_of_others_do_not_count() {
        assert!(GROUPS.iter().all(|group| is_ours(group)));
        assert!(is_ours("to-kafka-ledger-events"));
        assert!(!is_ours("to-kafka") && !is_ours("hello-flaky"));
    }
}
