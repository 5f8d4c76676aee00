//! Best-effort recording: one event that no database takes costs no other.

use postroom_activity::query::{self, EventFilter};
use postroom_activity::{ActivityEvent, Recorder};
use postroom_testkit::Fresh;
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::until;

postroom_testkit::on_each_database! {
    an_event_that_no_database_takes_costs_no_other: an_event_that_no_database_takes_costs_no_other_sqlite,
        an_event_that_no_database_takes_costs_no_other_postgres, an_event_that_no_database_takes_costs_no_other_mariadb;
}

async fn an_event_that_no_database_takes_costs_no_other(fresh: Fresh) {
    let recorder = Recorder::default();
    let viewed = || ActivityEvent::new("page.viewed", "v1");
    let too_deep = (0..200).fold(serde_json::json!(1), |value, _| serde_json::json!([value]));
    recorder.record(viewed());
    recorder.record(viewed().property("text", "a\0b"));
    recorder.record(viewed().property("text", "x".repeat(3 << 20)));
    recorder.record(viewed().property("nested", too_deep));
    recorder.record(viewed());
    let module = crate::activity().recorder(recorder.clone()).module();
    let running = Running::open(&fresh, vec![module], Scenery::default()).await;
    let stored = async || {
        let page = query::find(fresh.db(), &EventFilter::default(), None, 100).await;
        page.unwrap().events.len() as u64
    };
    until("all are stored or dropped", || async {
        stored().await + recorder.dropped() >= 5
    })
    .await;
    recorder.record(viewed());
    until("the next one is stored", || async {
        stored().await + recorder.dropped() >= 6
    })
    .await;
    // Databases differ in which of the other events they store: PostgreSQL refuses NUL in JSON, MariaDB refuses such depth.
    assert!(stored().await >= 3, "the good ones are stored");
    drop(running);
}
