//! The state of each event (PENDING, PROCESSED or FAILED), derived from the state that Postroom stores for each route.

use postroom::dead::{self, LetterState, Selection};
use postroom::operate::{self, Carrier, Delivery, DeliveryState, Timeline};
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
    routes: Vec<Delivery>,
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
        state: Some(LetterState::Dead),
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
        let Timeline { entry, deliveries, .. } = timeline;
        let carries = |carrier: &Carrier, delivery: &Delivery| {
            carrier.route == delivery.route && carrier.filter.matches(&entry.event.event_type)
        };
        let is_ours = |delivery: &Delivery| carriers.iter().any(|carrier| carries(carrier, delivery));
        let ours: Vec<Delivery> = deliveries.into_iter().filter(is_ours).collect();
        let movement: Option<Movement> = entry.event.decode().ok();
        Self {
            event_id: entry.event.id,
            state: judge(ours.iter().map(|delivery| delivery.state)),
            retry_count: ours.iter().filter_map(|delivery| delivery.attempts).max().unwrap_or(0),
            error: ours.iter().find_map(|delivery| delivery.error.clone()),
            created_at: entry.created_at,
            processed_at: ours.iter().filter_map(|delivery| delivery.handled_at).max(),
            account_id: entry.event.aggregate_id,
            transaction_id: movement.map(|movement| movement.transaction_id),
            event_type: entry.event.event_type,
            routes: ours,
        }
    }
}

/// One failed route makes the event failed; one waiting route makes it pending.
fn judge(states: impl Iterator<Item = DeliveryState>) -> State {
    use DeliveryState::{Dead, Discarded, Held, Parked, Passed, Pending, Retried, Unwanted, Waiting};
    let mut judged = State::Processed;
    for state in states {
        match state {
            Dead | Held => return State::Failed,
            Pending | Parked | Waiting => judged = State::Pending,
            Passed | Retried | Discarded | Unwanted => {}
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_route_decides() {
        use DeliveryState::{Dead, Discarded, Held, Parked, Passed, Pending, Waiting};
        let check = |states: &[DeliveryState], expected| {
            assert_eq!(judge(states.iter().copied()), expected, "{states:?}");
        };
        check(&[], State::Processed);
        check(&[Passed, Discarded], State::Processed);
        check(&[Passed, Pending], State::Pending);
        check(&[Parked, Passed], State::Pending);
        check(&[Dead, Pending], State::Failed);
        check(&[Waiting, Held], State::Failed);
    }
}
