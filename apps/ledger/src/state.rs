//! The state of each event, as a view over what the platform keeps: PENDING, PROCESSED or FAILED.

use postroom::dead::{self, Selection};
use postroom::operate::{self, Carrier, Step, Timeline};
use postroom::{Entry, Inspect, Result};
use postroom_host::Host;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::events::{Movement, TYPES};

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
pub(crate) async fn list(host: &Host, state: Option<State>, limit: usize) -> Result<Vec<EventState>> {
    let (store, carriers) = (&*host.store, host.carriers(&TYPES));
    store.pulse().await?; // what was committed while no relay ran is pending too
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
    entries.retain(|entry| seen.insert(entry.event.id)); // several routes may have given it up
    Ok(entries)
}

impl EventState {
    /// What the routes that carry its type have done with an event.
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
}
