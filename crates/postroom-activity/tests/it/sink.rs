//! A sink of the tests: what reaches it, what it refuses, and what is sent to it again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Prune, table};
use postroom_activity::forget;
use postroom_activity::query::{self, EventFilter};
use postroom_activity::redispatch::{self, State};
use postroom_activity::{ActivityEvent, ActivitySink, Orchestrator, SinkAnswer};
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait as _, Statement};
use serde_json::json;

postroom_testkit::on_each_database! {
    stored_events_reach_the_sink: stored_events_reach_the_sink_sqlite, stored_events_reach_the_sink_postgres,
        stored_events_reach_the_sink_mariadb;
    a_member_is_forgotten: a_member_is_forgotten_sqlite, a_member_is_forgotten_postgres, a_member_is_forgotten_mariadb;
    events_are_sent_again: events_are_sent_again_sqlite, events_are_sent_again_postgres, events_are_sent_again_mariadb;
    an_event_that_cannot_be_sent_again_costs_no_other: an_event_that_cannot_be_sent_again_costs_no_other_sqlite,
        an_event_that_cannot_be_sent_again_costs_no_other_postgres, an_event_that_cannot_be_sent_again_costs_no_other_mariadb;
}

/// Takes every event but those named `bad`.
#[derive(Debug, Default)]
struct Sink {
    taken: Mutex<Vec<ActivityEvent>>,
}

impl Sink {
    fn taken(&self) -> Vec<ActivityEvent> {
        self.taken.lock().unwrap().clone()
    }
}

#[async_trait]
impl ActivitySink for Sink {
    fn sink_type(&self) -> &'static str {
        "test"
    }

    async fn sink_batch(&self, events: &[ActivityEvent]) -> Vec<SinkAnswer> {
        let mut taken = self.taken.lock().unwrap();
        let answer = |event: &ActivityEvent| match event.event_name.as_str() {
            "bad" => SinkAnswer::Rejected("bad events are not taken".to_owned()),
            "slow" => SinkAnswer::Refused("not now".to_owned()),
            _ => {
                taken.push(event.clone());
                SinkAnswer::Taken
            }
        };
        events.iter().map(answer).collect()
    }
}

async fn open(fresh: &Fresh, sink: &Arc<Sink>) -> Running {
    let module = crate::activity()
        .sink(Arc::clone(sink) as Arc<dyn ActivitySink>)
        .module();
    Running::open(fresh, vec![module], Scenery::default()).await
}

async fn store(fresh: &Fresh, events: &[ActivityEvent]) {
    let tx = table::begin(fresh.db()).await.unwrap();
    let orchestrator = Orchestrator::with_sinks(crate::privacy());
    orchestrator.handle_client_events(&tx, events.to_vec()).await.unwrap();
    tx.commit().await.unwrap();
}

/// The rows of `user_activity_dispatch_outbox`: event, sink, status, count.
async fn waiting(fresh: &Fresh) -> Vec<(String, String, String, i64)> {
    let sql = "select event_id, sink_type, status, retry_count, last_error, next_retry_at, updated_at \
               from user_activity_dispatch_outbox order by event_id";
    let statement = Statement::from_string(fresh.db().get_database_backend(), sql);
    let rows = fresh.db().query_all_raw(statement).await.unwrap();
    let read = |row: &sea_orm::QueryResult| {
        let text = |column: &str| row.try_get::<String>("", column).unwrap();
        assert!(!text("last_error").is_empty());
        let count = row
            .try_get::<i64>("", "retry_count")
            .or_else(|_| row.try_get::<i32>("", "retry_count").map(i64::from));
        (text("event_id"), text("sink_type"), text("status"), count.unwrap())
    };
    rows.iter().map(read).collect()
}

/// Removes what every route has passed; whether nothing is left.
pub(crate) async fn is_outbox_empty(fresh: &Fresh) -> bool {
    let everything = Prune {
        keep: Duration::ZERO,
        batch: 1_000,
        archive: true,
    };
    fresh.store().prune(&everything).await.unwrap();
    let backend = fresh.db().get_database_backend();
    let table = match backend {
        sea_orm::DbBackend::Postgres => "postroom.outbox",
        _ => "postroom_outbox",
    };
    let count = Statement::from_string(backend, format!("select count(*) from {table}"));
    let row = fresh.db().query_one_raw(count).await.unwrap().unwrap();
    row.try_get_by_index::<i64>(0).unwrap() == 0
}

fn named(id: &str, name: &str) -> ActivityEvent {
    ActivityEvent {
        event_id: id.to_owned(),
        ..ActivityEvent::new(name, "v1")
    }
}

async fn stored_events_reach_the_sink(fresh: Fresh) {
    let sink = Arc::new(Sink::default());
    let running = open(&fresh, &sink).await;
    let events = [
        named("a", "good"),
        named("b", "bad"),
        named("c", "good"),
        named("d", "slow"),
    ];
    store(&fresh, &events).await;
    store(&fresh, &events).await; // known ones are not sent again
    store(&fresh, &[named("e", "good")]).await;
    until("three events arrive", || async { sink.taken().len() >= 3 }).await;
    let mut ids: Vec<String> = sink.taken().into_iter().map(|event| event.event_id).collect();
    ids.sort();
    assert_eq!(ids, ["a", "c", "e"]);
    until("two wait", || async { waiting(&fresh).await.len() == 2 }).await;
    let waiting = waiting(&fresh).await;
    assert_eq!(
        (waiting[0].0.as_str(), waiting[0].1.as_str(), waiting[0].2.as_str()),
        ("b", "test", "FAILED")
    );
    assert_eq!((waiting[1].0.as_str(), waiting[1].2.as_str()), ("d", "RETRY"));
    assert!(waiting[1].3 >= 1, "{waiting:?}");
    let metrics = running.client.get("/metrics").await.body;
    let delays = r#"activity_sink_delay_seconds_count{sink="test"} 3"#;
    assert!(metrics.as_str().unwrap().contains(delays), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_waits_for_ten_minutes_raises_the_alert() {
    let (fresh, sink) = (fresh::sqlite().await, Arc::new(Sink::default()));
    let running = open(&fresh, &sink).await;
    store(&fresh, &[named("a", "slow")]).await;
    until("it waits", || async { waiting(&fresh).await.len() == 1 }).await;
    let rule = running.client.get("/alerts").await.ok()[0].clone();
    assert_eq!(
        (&rule["rule"], &rule["is_firing"]),
        (&json!("activity_sink_late"), &json!(false))
    );
    running.close().await;
    let minutes_ago =
        "update postroom_outbox_parked set created_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-11 minutes')";
    fresh.db().execute_unprepared(minutes_ago).await.unwrap();
    let running = open(&fresh, &sink).await;
    let rule = running.client.get("/alerts").await.ok()[0].clone();
    assert_eq!(
        (&rule["limit"], &rule["is_firing"]),
        (&json!(600), &json!(true)),
        "{rule}"
    );
}

async fn events_are_sent_again(fresh: Fresh) {
    let sink = Arc::new(Sink::default());
    let running = open(&fresh, &sink).await;
    let mut events: Vec<ActivityEvent> = (0..30).map(|n| named(&format!("e{n:02}"), "good")).collect();
    for event in &mut events[..10] {
        event.member_id = Some(42);
    }
    store(&fresh, &events).await;
    until("all arrive", || async { sink.taken().len() == 30 }).await;
    let first = sink.taken();
    let filter = EventFilter {
        member_id: Some(42),
        ..EventFilter::default()
    };
    for no_sink in ["nowhere", "store", "off"] {
        let unknown = redispatch::begin(fresh.db(), (no_sink, &filter), 5, "kim").await;
        assert!(unknown.unwrap_err().report().contains(&format!("no sink {no_sink:?}")));
    }
    let id = redispatch::begin(fresh.db(), ("test", &filter), 4, "kim")
        .await
        .unwrap();
    until("ten arrive again", || async { sink.taken().len() == 40 }).await;
    until("it is done", || async {
        redispatch::list(fresh.db()).await.unwrap()[0].state == State::Done
    })
    .await;
    let done = redispatch::list(fresh.db()).await.unwrap().remove(0);
    assert_eq!(
        (done.redispatch_id.as_str(), done.sent, done.created_by.as_str()),
        (id.as_str(), 10, "kim")
    );
    assert!((done.progress - 1.0).abs() < f64::EPSILON);
    for again in &sink.taken()[30..] {
        let before = first.iter().find(|event| event.event_id == again.event_id).unwrap();
        assert_eq!(
            (before.occurred_at, before.member_id),
            (again.occurred_at, Some(42)),
            "the same event"
        );
    }
    redispatch::cancel(fresh.db(), &id, "kim").await.unwrap_err();
    drop(running);
    // Without a process nothing moves, so it can be canceled.
    let id = redispatch::begin(fresh.db(), ("test", &filter), 4, "kim")
        .await
        .unwrap();
    redispatch::cancel(fresh.db(), &id, "lee").await.unwrap();
    assert_eq!(redispatch::list(fresh.db()).await.unwrap()[0].state, State::Canceled);
}

/// Its id has 64 characters and more bytes than a key of the outbox may have. It was stored while there was no sink.
async fn an_event_that_cannot_be_sent_again_costs_no_other(fresh: Fresh) {
    let module = crate::activity().module();
    module.migrate(&*fresh.store()).await.unwrap();
    let events = ["a", &"😀".repeat(64), "b", "c"].map(|id| named(id, "good"));
    let tx = table::begin(fresh.db()).await.unwrap();
    let orchestrator = Orchestrator::without_sinks(crate::privacy());
    orchestrator.handle_client_events(&tx, events.to_vec()).await.unwrap();
    tx.commit().await.unwrap();
    let sink = Arc::new(Sink::default());
    let _running = open(&fresh, &sink).await;
    let everything = EventFilter::default();
    until("the sink is known", || async {
        let begun = redispatch::begin(fresh.db(), ("test", &everything), 100, "kim").await;
        begun.is_ok()
    })
    .await;
    until("it is done", || async {
        redispatch::list(fresh.db()).await.unwrap()[0].state == State::Done
    })
    .await;
    assert_eq!(redispatch::list(fresh.db()).await.unwrap()[0].sent, 3);
    until("the others arrive", || async { sink.taken().len() == 3 }).await;
}

async fn a_member_is_forgotten(fresh: Fresh) {
    let sink = Arc::new(Sink::default());
    let running = open(&fresh, &sink).await;
    let of = |id: &str, name: &str, member: i64| ActivityEvent {
        member_id: Some(member),
        ..named(id, name).property("trace", format!("secret-of-{member}"))
    };
    let events = [
        of("a", "good", 42),
        of("b", "bad", 42),
        of("c", "slow", 42),
        of("d", "good", 7),
        of("e", "bad", 7),
    ];
    store(&fresh, &events).await;
    until("three wait", || async { waiting(&fresh).await.len() == 3 }).await;
    drop(running);
    let forgotten = forget::member(fresh.db(), 42, "kim").await.unwrap();
    assert_eq!((forgotten.events, forgotten.waiting, forgotten.dead_letters), (3, 1, 1));
    let left = query::find(fresh.db(), &EventFilter::default(), None, 10)
        .await
        .unwrap();
    let left: Vec<Option<i64>> = left.events.iter().map(|stored| stored.event.member_id).collect();
    assert_eq!(left, [Some(7), Some(7)]);
    let prefix = match fresh.db().get_database_backend() {
        sea_orm::DbBackend::Postgres => "postroom.",
        _ => "postroom_",
    };
    // When retention has removed what every route has passed, no table of the platform knows the member, not even the archive.
    let running = open(&fresh, &sink).await;
    until("the outbox is empty", || async { is_outbox_empty(&fresh).await }).await;
    drop(running);
    for table in ["outbox", "audit_events", "outbox_parked", "outbox_failed"] {
        let sql =
            format!("select count(*) from {prefix}{table} where cast(payload as char(4000)) like '%secret-of-42%'");
        let statement = Statement::from_string(fresh.db().get_database_backend(), sql);
        let row = fresh.db().query_one_raw(statement).await.unwrap().unwrap();
        assert_eq!(row.try_get_by_index::<i64>(0).unwrap(), 0, "{table}");
    }
    assert_eq!(forget::member(fresh.db(), 42, "kim").await.unwrap().events, 0);
}
