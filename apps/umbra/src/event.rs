//! The events of the module with what became of them, as an operator of the service wants to see them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use postroom::operate::{self, Carrier, Delivery, DeliveryState, Timeline};
use postroom::{Event, Result};
use postroom_host::{Access, Host, Problem, Routes};
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::audit::handlers::masked;
use crate::door::Limit;

/// An event and its progress.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    /// Its number in the outbox.
    id: i64,
    event_id: String,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    /// Without its sensitive fields.
    payload: Box<RawValue>,
    #[serde(with = "time::serde::rfc3339")]
    occurred_at: OffsetDateTime,
    /// When the last subscriber had handled it; none, as long as one of them has not.
    #[serde(with = "time::serde::rfc3339::option")]
    published_at: Option<OffsetDateTime>,
    /// The highest number of failed attempts of one subscriber, until it has handled the event.
    retry_count: u32,
    last_error: Option<String>,
    /// When it is tried again.
    #[serde(with = "time::serde::rfc3339::option")]
    next_retry_at: Option<OffsetDateTime>,
}

/// `types` are the events of the module.
pub(crate) fn routes(types: Arc<[&'static str]>) -> Routes {
    let list = async move |State(host): State<Host>, limit: Limit| list(&host, &types, limit).await;
    Routes::new(Access::Service).get("/umbra/events", list)
}

/// The newest events, newest first.
async fn list(host: &Host, types: &[&str], limit: Limit) -> Result<Json<Vec<Shown>>, Problem> {
    let (store, carriers) = (&*host.store, host.carriers(types));
    store.pulse().await?; // includes events that were committed while no relay ran
    let limit = usize::try_from(limit.get()).unwrap_or_default();
    let newest = operate::newest(store, types, limit).await?;
    let timelines = operate::timelines(store, newest).await?;
    let shown = timelines.into_iter().map(|timeline| Shown::of(timeline, &carriers));
    Ok(Json(shown.collect::<Result<_>>()?))
}

impl Shown {
    fn of(timeline: Timeline, carriers: &[Carrier]) -> Result<Self> {
        let Timeline { entry, deliveries, .. } = timeline;
        let event: &Event = &entry.event;
        let is_ours = |delivery: &&Delivery| {
            let mut carriers = carriers.iter();
            carriers.any(|one| one.route == delivery.route && one.filter.matches(&event.event_type))
        };
        let ours: Vec<&Delivery> = deliveries.iter().filter(is_ours).collect();
        let payload = masked(event).unwrap_or_else(|_no_object| "null".to_owned());
        Ok(Self {
            id: entry.id,
            event_id: event.id.to_string(),
            aggregate_type: event.aggregate_type.clone(),
            aggregate_id: event.aggregate_id.clone(),
            event_type: event.event_type.clone(),
            payload: RawValue::from_string(payload)?,
            occurred_at: event.occurred_at,
            published_at: published_at(&ours),
            retry_count: ours.iter().filter_map(|one| one.attempts).max().unwrap_or(0),
            last_error: ours.iter().find_map(|one| one.error.clone()),
            next_retry_at: ours.iter().filter_map(|one| one.retry_at).min(),
        })
    }
}

/// When the last of these had the event, if all of them have it.
fn published_at(deliveries: &[&Delivery]) -> Option<OffsetDateTime> {
    use DeliveryState::{Discarded, Passed, Retried, Unwanted};
    let is_done = |one: &&Delivery| matches!(one.state, Passed | Retried | Discarded | Unwanted);
    let times = deliveries.iter().filter_map(|one| one.handled_at);
    deliveries.iter().all(is_done).then(|| times.max()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_published_when_the_last_subscriber_has_handled_it() {
        let at = |second: i64| OffsetDateTime::from_unix_timestamp(second).unwrap();
        let delivery = |state, handled_at: Option<i64>| Delivery {
            route: "umbra-audit".to_owned(),
            state,
            attempts: None,
            error: None,
            retry_at: None,
            handled_at: handled_at.map(at),
        };
        let check = |deliveries: &[Delivery], expected: Option<i64>| {
            let deliveries: Vec<&Delivery> = deliveries.iter().collect();
            assert_eq!(published_at(&deliveries), expected.map(at), "{deliveries:?}");
        };
        use DeliveryState::{Dead, Parked, Passed, Pending};
        check(&[delivery(Passed, Some(2)), delivery(Passed, Some(5))], Some(5));
        for open in [Pending, Parked, Dead] {
            check(&[delivery(Passed, Some(2)), delivery(open, None)], None);
        }
        check(&[], None);
    }
}
