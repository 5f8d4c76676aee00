//! The state of each event (PENDING, PROCESSED or FAILED), derived from the state that Postroom stores for each route.

use postroom::dead::{self, LetterState, Selection};
use postroom::operate::{self, Carrier, Delivery, DeliveryState, Timeline};
use postroom::{Entry, Inspect, Result};
use postroom_host::Host;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::GROUPS;
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
    /// When the event became processed: when the last of the routes that publish it had delivered it, or without such a route when the
    /// last subscriber had handled it. An event that is pending or failed has no such time.
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
        let state = judge(ours.iter().map(|delivery| delivery.state));
        Self {
            event_id: entry.event.id,
            state,
            retry_count: ours.iter().filter_map(|delivery| delivery.attempts).max().unwrap_or(0),
            error: ours.iter().find_map(|delivery| delivery.error.clone()),
            created_at: entry.created_at,
            processed_at: processed_at(state, &ours),
            account_id: entry.event.aggregate_id,
            transaction_id: movement.map(|movement| movement.transaction_id),
            event_type: entry.event.event_type,
            routes: ours,
        }
    }
}

/// When the event became processed, if it is. Through a broker the subscribers handle it after that.
fn processed_at(state: State, deliveries: &[Delivery]) -> Option<OffsetDateTime> {
    let last = |is_counted: fn(&str) -> bool| {
        let counted = deliveries.iter().filter(|delivery| is_counted(&delivery.route));
        counted.filter_map(|delivery| delivery.handled_at).max()
    };
    match state {
        State::Processed => last(|route| !GROUPS.contains(&route)).or_else(|| last(|route| GROUPS.contains(&route))),
        State::Pending | State::Failed => None,
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
    fn only_a_processed_event_has_a_time_of_processing() {
        let at = |second: i64| OffsetDateTime::from_unix_timestamp(second).unwrap();
        let delivery = |route: &str, handled_at: Option<i64>| Delivery {
            route: route.to_owned(),
            state: DeliveryState::Passed,
            attempts: None,
            error: None,
            retry_at: None,
            handled_at: handled_at.map(at),
        };
        let straight = [delivery(GROUPS[0], Some(3)), delivery(GROUPS[1], Some(5))];
        assert_eq!(processed_at(State::Processed, &straight), Some(at(5)));
        for state in [State::Pending, State::Failed] {
            assert_eq!(processed_at(state, &straight), None, "{state:?}");
        }
        let published = [delivery("ledger", Some(2)), delivery(GROUPS[0], Some(9))];
        assert_eq!(processed_at(State::Processed, &published), Some(at(2)));
        assert_eq!(processed_at(State::Processed, &[delivery("ledger", None)]), None);
    }

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
