//! Clauses about routes that keep when they delivered each event.

use std::sync::Arc;

use postroom::{Idempotency, NullDestination, Route, To, operate};
use uuid::Uuid;

use super::fixture::{Office, Scripted};
use crate::Fresh;

/// When a route had an event, as an operator sees it.
async fn had_at(office: &Office, event_id: Uuid, route: &str) -> Option<time::OffsetDateTime> {
    let timeline = operate::timeline(&*office.store(), event_id).await.expect("timeline");
    let of_route = timeline.deliveries.iter().find(|one| one.route == route);
    of_route?.handled_at // it may not be registered yet
}

/// A route that records keeps when its destination got an event, and when its subscriber handled it, whatever its idempotency is.
/// Others keep nothing.
pub async fn a_route_that_records_shows_when_it_had_each_event(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("upsert").fails_on("two");
    let route = |name: &str, records| Route {
        records,
        ..Route::new(name, To::Destination(Arc::new(NullDestination)))
    };
    let upsert = script.subscriber(1_000_000).idempotency(Idempotency::Upsert);
    let relay = office.relay().route(route("told", true)).route(route("silent", false));
    office.start(relay.route(upsert.recorded().into_route()));
    let ids = office.emit(&[("a", "one"), ("b", "two"), ("c", "three")]).await;
    office
        .until("the last one is recorded", async || {
            had_at(&office, ids[2], "told").await.is_some() && had_at(&office, ids[2], "upsert").await.is_some()
        })
        .await;
    for id in &ids {
        assert!(had_at(&office, *id, "told").await.is_some());
        assert_eq!(had_at(&office, *id, "silent").await, None);
    }
    assert_eq!(had_at(&office, ids[1], "upsert").await, None, "it has failed");
    script.heal();
    let handled = async || had_at(&office, ids[1], "upsert").await.is_some();
    office.until("it is handled after its retry", handled).await;
    office.stop().await;
    let rows = "select count(*) from postroom.event_handled";
    assert_eq!(office.number(rows).await, 6, "one row for each event of the two routes");
}
