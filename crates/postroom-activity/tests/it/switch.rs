//! Switching PostHog, or collection as a whole, off with a backlog and on again: nothing is kept for ever, nothing is passed over
//! without a word, and what is switched on begins where the operator says.

use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Event, append, operate, parse_payload, table};
use postroom_activity::query::{self, EventFilter};
use postroom_activity::{
    Activity, ActivityEvent, ActivityMapper, ActivitySink, Orchestrator, Recorder, SinkAnswer, redispatch,
};
use postroom_host::Module;
use postroom_testkit::fake_posthog::{FakePosthog, Outcome, PROJECT_API_KEY};
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait as _, Statement};
use serde_json::{Value, json};

use crate::posthog::{events, ids};
use crate::sink::is_outbox_empty;

postroom_testkit::on_each_database! {
    posthog_off_frees_the_outbox_and_on_begins_with_what_comes: posthog_off_frees_the_outbox_sqlite, posthog_off_frees_the_outbox_postgres,
        posthog_off_frees_the_outbox_mariadb;
    collection_off_frees_the_outbox: collection_off_frees_the_outbox_sqlite, collection_off_frees_the_outbox_postgres,
        collection_off_frees_the_outbox_mariadb;
    a_process_without_posthog_stores_for_one_that_has_it: without_posthog_stores_for_one_that_has_it_sqlite,
        without_posthog_stores_for_one_that_has_it_postgres, without_posthog_stores_for_one_that_has_it_mariadb;
}

fn configured(activity: Activity, section: &Value) -> Module {
    activity
        .module()
        .configure(section.as_object().unwrap().clone())
        .unwrap()
}

fn with_posthog(fake: &FakePosthog, start: Option<&str>) -> Module {
    let mut posthog = json!({
        "enabled": true,
        "host": fake.url,
        "project_api_key": PROJECT_API_KEY,
        "timeout_ms": 60_000, // longer than a busy machine takes
        "circuit_open_seconds": 1,
    });
    if let Some(start) = start {
        posthog["start"] = start.into();
    }
    configured(
        crate::activity(),
        &json!({ "mode": "INTERNAL_PLUS_POSTHOG", "posthog": posthog }),
    )
}

fn without_posthog() -> Module {
    configured(crate::activity(), &json!({ "mode": "INTERNAL_ONLY" }))
}

async fn open(fresh: &Fresh, module: Module) -> Running {
    Running::open(fresh, vec![module], Scenery::default()).await
}

async fn routes(fresh: &Fresh) -> Vec<String> {
    let status = operate::status(&*fresh.store()).await.unwrap();
    status.routes.into_iter().map(|route| route.route).collect()
}

async fn until_known(fresh: &Fresh, route: &str, is_known: bool) {
    let what = format!("the route {route} is {}", if is_known { "known" } else { "forgotten" });
    until(&what, || async {
        routes(fresh).await.iter().any(|known| known == route) == is_known
    })
    .await;
}

async fn store(fresh: &Fresh, events: &[ActivityEvent]) {
    let tx = table::begin(fresh.db()).await.unwrap();
    let orchestrator = Orchestrator::with_sinks(crate::privacy());
    orchestrator.handle_client_events(&tx, events.to_vec()).await.unwrap();
    tx.commit().await.unwrap();
}

/// The details of an act on a route in the operators' log.
async fn acts(fresh: &Fresh, action: &str, route: &str) -> Vec<Value> {
    let backend = fresh.db().get_database_backend();
    let (table, detail) = match backend {
        sea_orm::DbBackend::Postgres => ("postroom.admin_audit", "detail::text"),
        _ => ("postroom_admin_audit", "detail"),
    };
    let sql = format!("select {detail} as detail from {table} where action = '{action}' and target = '{route}'");
    let rows = fresh
        .db()
        .query_all_raw(Statement::from_string(backend, sql))
        .await
        .unwrap();
    let detail = |row: &sea_orm::QueryResult| row.try_get::<String>("", "detail").unwrap();
    rows.iter()
        .map(|row| serde_json::from_str(&detail(row)).unwrap())
        .collect()
}

async fn posthog_off_frees_the_outbox_and_on_begins_with_what_comes(fresh: Fresh) {
    let fake = FakePosthog::open().await;
    fake.always(Some(Outcome::status(503)));
    let on = open(&fresh, with_posthog(&fake, None)).await;
    until_known(&fresh, "activity-posthog", true).await;
    let before = events(20);
    store(&fresh, &before).await;
    until("PostHog was asked", || async { fake.asked() > 0 }).await;
    // As long as a process works the route, another one with other settings does not forget it.
    let off = open(&fresh, without_posthog()).await;
    until("the job has looked", || async {
        let status = operate::status(&*fresh.store()).await.unwrap();
        status
            .jobs
            .iter()
            .any(|job| job.name == "retire-activity" && job.runs > 0)
    })
    .await;
    let asked = fake.asked(); // once in a second: for longer than a route that nobody works is kept
    until("it goes on", || async { fake.asked() >= asked + 6 }).await;
    assert!(routes(&fresh).await.contains(&"activity-posthog".to_owned()));
    assert!(!is_outbox_empty(&fresh).await, "the route has not read it");
    off.close().await;
    on.close().await;
    let off = open(&fresh, without_posthog()).await;
    until_known(&fresh, "activity-posthog", false).await;
    let acts = acts(&fresh, "route.retire", "activity-posthog").await;
    let count = |what: &str| acts[0][what].as_u64().unwrap();
    // One of them may have been parked when its process ended.
    assert_eq!((count("unread") + count("parked"), count("dead")), (20, 0), "{acts:?}");
    assert_eq!((acts.len(), &acts[0]["is_exact"]), (1, &json!(true)));
    until("the outbox drains", || async { is_outbox_empty(&fresh).await }).await;
    assert_eq!(routes(&fresh).await, ["activity-store"]);
    store(&fresh, &events(3)).await; // for another sink
    off.close().await;
    fake.always(None);
    let _on = open(&fresh, with_posthog(&fake, None)).await;
    until_known(&fresh, "activity-posthog", true).await;
    let after = events(5);
    store(&fresh, &after).await;
    until("what is new arrives", || async { fake.uuids().len() >= 5 }).await;
    assert_eq!(fake.uuids(), ids(&after), "nothing that was stored while it was off");
    redispatch::begin(fresh.db(), ("posthog", &EventFilter::default()), 1_000, "kim")
        .await
        .unwrap();
    until("the rest arrives", || async { fake.uuids().len() == 28 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posthog_on_again_begins_with_what_is_kept_if_told_so() {
    let (fake, fresh) = (FakePosthog::open().await, fresh::sqlite().await);
    fake.always(Some(Outcome::status(503)));
    let on = open(&fresh, with_posthog(&fake, None)).await;
    until_known(&fresh, "activity-posthog", true).await;
    let before = events(20);
    store(&fresh, &before).await;
    until("PostHog was asked", || async { fake.asked() > 0 }).await;
    on.close().await;
    let off = open(&fresh, without_posthog()).await;
    until_known(&fresh, "activity-posthog", false).await;
    off.close().await;
    fake.always(None);
    let _on = open(&fresh, with_posthog(&fake, Some("beginning"))).await;
    until("what the outbox holds arrives", || async {
        fake.uuids() == ids(&before)
    })
    .await;
}

/// A process without the settings of PostHog does not switch it off for others, so what it stores goes there too.
async fn a_process_without_posthog_stores_for_one_that_has_it(fresh: Fresh) {
    let fake = FakePosthog::open().await;
    let _with = open(&fresh, with_posthog(&fake, None)).await;
    until_known(&fresh, "activity-posthog", true).await;
    let recorder = Recorder::default();
    let module = crate::activity().recorder(recorder.clone());
    let _without = open(&fresh, configured(module, &json!({}))).await;
    let recorded = events(3);
    recorded.iter().for_each(|event| recorder.record(event.clone()));
    until("they arrive", || async { fake.uuids() == ids(&recorded) }).await;
}

/// A sink that takes nothing now.
#[derive(Debug)]
struct Away;

#[async_trait]
impl ActivitySink for Away {
    fn sink_type(&self) -> &'static str {
        "away"
    }

    async fn sink_batch(&self, events: &[ActivityEvent]) -> Vec<SinkAnswer> {
        let away = SinkAnswer::Unavailable {
            says: "away".to_owned(),
            after: None,
        };
        vec![away; events.len()]
    }
}

#[derive(Debug)]
struct Paid;

impl ActivityMapper for Paid {
    fn event_type(&self) -> &'static str {
        "shop.order.paid.v1"
    }

    fn map(&self, event: &Event) -> postroom::Result<Option<ActivityEvent>> {
        Ok(Some(ActivityEvent::from_domain(event, "order.paid", "v1")))
    }
}

fn collecting() -> Activity {
    crate::activity().mapper(Paid).sink(Arc::new(Away))
}

/// The domain goes on, whether its events are collected or not.
async fn pay(fresh: &Fresh, count: usize) -> Vec<String> {
    let event = || Event::new("shop.order.paid.v1", "order", "7", parse_payload("{}").unwrap()).unwrap();
    let paid: Vec<Event> = (0..count).map(|_| event()).collect();
    let tx = table::begin(fresh.db()).await.unwrap();
    append(&tx, &paid).await.unwrap();
    tx.commit().await.unwrap();
    paid.iter().map(|event| event.id.to_string()).collect()
}

async fn stored(fresh: &Fresh) -> Vec<String> {
    let page = query::find(fresh.db(), &EventFilter::default(), None, 1_000)
        .await
        .unwrap();
    page.events.into_iter().map(|stored| stored.event.event_id).collect()
}

async fn collection_off_frees_the_outbox(fresh: Fresh) {
    let on = open(&fresh, configured(collecting(), &json!({}))).await;
    let mut expected = pay(&fresh, 10).await;
    until("ten are stored", || async { stored(&fresh).await.len() == 10 }).await;
    on.close().await;
    let backlog = pay(&fresh, 5).await; // nobody collects these before it is switched off
    let off = open(&fresh, collecting().module().switched_off([]).unwrap()).await;
    until("its routes are forgotten", || async {
        routes(&fresh).await == ["activity-off"]
    })
    .await;
    let given_up = acts(&fresh, "route.retire", "activity-map").await;
    assert_eq!(given_up[0]["unread"], backlog.len());
    assert_eq!(acts(&fresh, "route.retire", "activity-away").await[0]["unread"], 10);
    until("the outbox drains", || async { is_outbox_empty(&fresh).await }).await;
    let missed = pay(&fresh, 3).await;
    off.close().await;
    let section = json!({ "start": "head" });
    let _on = open(&fresh, configured(collecting(), &section)).await;
    until_known(&fresh, "activity-off", false).await;
    until_known(&fresh, "activity-map", true).await;
    expected.extend(pay(&fresh, 2).await);
    until("the new ones are stored", || async { stored(&fresh).await.len() >= 12 }).await;
    let mut stored = stored(&fresh).await;
    stored.sort();
    expected.sort();
    assert_eq!(stored, expected, "and not {missed:?}");
}
