//! The state of each event (PENDING, PROCESSED or FAILED), derived from the state that Postroom stores for each route.

use postroom::dead::{self, Selection};
use postroom::operate::{self, Carrier, Step, Timeline};
use postroom::{Entry, Inspect, Result};
use postroom_host::Host;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::events::{Movement, TYPES};

/// The state of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum State {
    /// At least one route has not delivered the event yet or is retrying it.
    Pending,
    /// Every route has delivered the event.
    Processed,
    /// At least one route has made it a dead letter.
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
    /// The highest number of failed attempts on one route, until the event is delivered.
    retry_count: u32,
    /// The last error.
    error: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// The time when the last subscriber with an inbox handled the event.
    #[serde(with = "time::serde::rfc3339::option")]
    processed_at: Option<OffsetDateTime>,
    /// The state on each route that carries the event.
    routes: Vec<Step>,
}

/// Lists at most `limit` events in this state (`None`: in any state). Failed and processed events are sorted newest first,
/// pending events oldest first.
pub(crate) async fn list(host: &Host, state: Option<State>, limit: usize) -> Result<Vec<EventState>> {
    let (store, carriers) = (&*host.store, host.carriers(&TYPES));
    store.pulse().await?; // includes events that were committed while no relay ran
    let entries = match state {
        Some(State::Failed) => failed(store, &carriers, limit).await?,
        Some(State::Pending) => operate::undelivered(store, &TYPES, &carriers, limit).await?,
        Some(State::Processed) | None => operate::newest(store, &TYPES, limit).await?,
    };
    let timelines = operate::timelines(store, entries).await?;
    let states = timelines
        .into_iter()
        .map(|timeline| EventState::of(timeline, &carriers));
    Ok(states
        .filter(|event| state.is_none_or(|state| event.state == state))
        .collect())
}

async fn failed(store: &dyn Inspect, carriers: &[Carrier], limit: usize) -> Result<Vec<Entry>> {
    let which = Selection {
        routes: carriers.iter().map(|carrier| carrier.route.clone()).collect(),
        event_types: TYPES.map(str::to_owned).into(),
        state: Some("dead"),
        ..Selection::default()
    };
    let letters = dead::list(store.db(), &which, None, limit as u64).await?;
    let mut entries: Vec<Entry> = letters.into_iter().map(|letter| letter.entry).collect();
    let mut seen = std::collections::HashSet::new();
    entries.retain(|entry| seen.insert(entry.event.id)); // an event may be a dead letter on several routes
    Ok(entries)
}

impl EventState {
    /// Combines the states of all routes that carry the event's type.
    fn of(timeline: Timeline, carriers: &[Carrier]) -> Self {
        let Timeline { entry, steps, .. } = timeline;
        let carries = |carrier: &Carrier, step: &Step| {
            carrier.route == step.route && carrier.filter.matches(&entry.event.event_type)
        };
        let is_ours = |step: &Step| carriers.iter().any(|carrier| carries(carrier, step));
        let ours: Vec<Step> = steps.into_iter().filter(is_ours).collect();
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

/// One failed route makes the event failed; one waiting route makes it pending.
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
}
