//! Looking writes nothing: every look of the operators' API works on a store that may only be read.

use std::time::Duration;

use postroom::dead::{self, LetterState, Selection};
use postroom::operate::{self, Carrier, DeliveryState};
use postroom::replay::{self, Range, Replay, ReplayState};
use postroom::{
    Error, ErrorKind, Event, Filter, Inspect, Relay, Subscriber, Tx, append, clock, parse_payload, reject, schedule,
    table,
};
use postroom_mysql::Mysql;
use postroom_sqlite::Sqlite;
use postroom_testkit::{Fresh, fresh};
use sea_orm::ConnectionTrait as _;
use uuid::Uuid;

const TYPE: &str = "a.b.v1";

/// Handles every event but those of the aggregate `bad`.
async fn picky(_tx: &mut Tx, event: &Event) -> Result<(), Error> {
    match event.aggregate_id.as_str() {
        "bad" => Err(reject("it is bad")),
        _ => Ok(()),
    }
}

fn event(key: &str) -> Event {
    Event::new(TYPE, "thing", key, parse_payload("{}").unwrap()).unwrap()
}

async fn emit(fresh: &Fresh, events: &[Event]) {
    let tx = table::begin(fresh.db()).await.unwrap();
    append(&tx, events).await.unwrap();
    tx.commit().await.unwrap();
}

fn whole() -> Replay {
    Replay {
        route: "s".to_owned(),
        range: Range::default(),
        per_second: 1,
        again: false,
    }
}

/// One event of each fate.
struct Furnished {
    handled: Uuid,
    dead: Uuid,
    pending: Uuid,
    scheduled: Uuid,
}

async fn furnish(fresh: &Fresh) -> Furnished {
    let [handled, dead, pending, scheduled] = ["good", "bad", "late", "later"].map(event);
    emit(fresh, &[handled.clone(), dead.clone()]).await;
    let subscriber = Subscriber::matching("s", ["**"], picky);
    Relay::new(fresh.store() as _)
        .subscriber(subscriber)
        .drain()
        .await
        .unwrap();
    replay::start(&**fresh, &whole(), "test").await.unwrap();
    emit(fresh, std::slice::from_ref(&pending)).await;
    let tx = table::begin(fresh.db()).await.unwrap();
    let due_at = clock::now() + Duration::from_secs(3_600);
    schedule(&tx, &scheduled, due_at).await.unwrap();
    tx.commit().await.unwrap();
    Furnished {
        handled: handled.id,
        dead: dead.id,
        pending: pending.id,
        scheduled: scheduled.id,
    }
}

async fn every_look_only_reads(store: &dyn Inspect, there: Furnished) {
    let status = operate::status(store).await.unwrap();
    assert_eq!((status.routes[0].backlog, status.scheduled), (1, 1));
    assert!(!operate::why(store).await.unwrap().is_empty());
    assert!(!store.version().await.unwrap().is_empty());
    let settings = operate::settings(store).await;
    assert!(settings.iter().all(|setting| setting.value.is_ok()), "{settings:?}");
    operate::clock_skew(store).await.unwrap();
    for (event_id, state) in [
        (there.handled, DeliveryState::Passed),
        (there.dead, DeliveryState::Dead),
        (there.pending, DeliveryState::Pending),
    ] {
        let timeline = operate::timeline(store, event_id).await.unwrap();
        assert_eq!(timeline.deliveries[0].state, state);
    }
    assert!(operate::scheduled(store, there.scheduled).await.unwrap().is_some());
    let carriers = [Carrier::new("s", Filter::all())];
    let newest = operate::newest(store, &[TYPE], 10).await.unwrap();
    operate::undelivered(store, &[TYPE], &carriers, 10).await.unwrap();
    assert_eq!(
        operate::timelines(store, newest.clone()).await.unwrap().len(),
        newest.len()
    );
    assert_eq!(operate::failures(store, &[TYPE], &carriers).await.unwrap().dead, 1);
    let letters = dead::list(store.db(), &Selection::default(), None, 10).await.unwrap();
    assert_eq!(letters[0].state, LetterState::Dead);
    let replays = replay::list(store.db(), 10).await.unwrap();
    assert_eq!(replays[0].state, ReplayState::Running);
    let preview = replay::preview(store, &whole()).await.unwrap();
    assert!(
        preview.entries >= 2,
        "no pulse may count what the route has passed: {preview:?}"
    );
    let refused = operate::set_paused(store, "s", true, "test").await.unwrap_err();
    assert_ne!(
        refused.kind(),
        ErrorKind::NotFound,
        "this store may not be written: {refused}"
    );
}

#[tokio::test]
async fn sqlite_every_look_only_reads() {
    let fresh = fresh::sqlite().await;
    let there = Box::pin(furnish(&fresh)).await;
    let store = Sqlite::open_to_read(&fresh.url()).await.unwrap();
    every_look_only_reads(&store, there).await;
}

#[tokio::test]
async fn postgres_every_look_only_reads() {
    let fresh = fresh::postgres().await;
    let there = Box::pin(furnish(&fresh)).await;
    let url = fresh.url();
    let name = url.rsplit('/').next().unwrap();
    let read_only = format!("alter database {name} set default_transaction_read_only = on");
    fresh.db().execute_unprepared(&read_only).await.unwrap();
    every_look_only_reads(&*fresh.second().await, there).await;
}

#[tokio::test]
async fn mariadb_every_look_only_reads() {
    let fresh = fresh::mysql().await;
    let there = Box::pin(furnish(&fresh)).await;
    let url = fresh.url();
    let (server, name) = url.rsplit_once('/').unwrap();
    let user = format!("watcher_{}", &Uuid::now_v7().simple().to_string()[16..]);
    for statement in [
        format!("create user {user}"),
        format!("grant select on {name}.* to {user}"),
    ] {
        fresh.db().execute_unprepared(&statement).await.unwrap();
    }
    let host = server.rsplit_once('@').unwrap().1;
    let store = Mysql::connect(&format!("mysql://{user}@{host}/{name}")).await.unwrap();
    every_look_only_reads(&store, there).await;
    let drop = format!("drop user {user}");
    fresh.db().execute_unprepared(&drop).await.unwrap();
}
