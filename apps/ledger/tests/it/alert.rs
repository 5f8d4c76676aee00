//! Alerts about failed and late events, sent to HTTP servers that stand in for Slack and PagerDuty.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::sync::Arc;
use std::time::Duration;

use postroom::alert::{Channel, Messenger};
use postroom::dead::{self, Selection};
use postroom::{Broker, Delays, Filter, Mode, Route, To, Topic, operate};
use postroom_host::{Messengers, Module};
use postroom_http::{PagerDuty, Slack};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::fake_messenger::{Answer, FakeMessenger, ROUTING_KEY};
use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::{until, until_run};
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait, DbBackend};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::books;
use crate::world::{World, shared_kafka};

/// A ledger with its Slack and PagerDuty servers.
struct Watched {
    world: World,
    scenery: Scenery,
    slack: FakeMessenger,
    pagerduty: FakeMessenger,
}

/// The ledger with few retries, so that events become dead letters soon.
fn module() -> Module {
    let mut module = ledger::module();
    for subscriber in &mut module.subscribers {
        subscriber.retry.delays = Delays::Fixed(Duration::from_millis(50));
    }
    module
}

impl Watched {
    async fn open(fresh: Fresh, broker: Option<Arc<dyn Broker>>) -> Self {
        let scenery = Scenery {
            broker,
            ..Scenery::default()
        };
        Self::set(fresh, scenery).await
    }

    async fn set(fresh: Fresh, scenery: Scenery) -> Self {
        let (slack, pagerduty) = (FakeMessenger::slack().await, FakeMessenger::pagerduty().await);
        let to_slack: Arc<dyn Messenger> = Arc::new(Slack::new(&slack.url).unwrap());
        let to_duty: Arc<dyn Messenger> = Arc::new(PagerDuty::new(&pagerduty.url, ROUTING_KEY, "test").unwrap());
        let scenery = Scenery {
            messengers: Messengers::from([(Channel::Slack, to_slack), (Channel::PagerDuty, to_duty)]),
            every: Duration::from_millis(200),
            ..scenery
        };
        Self {
            world: World::set(fresh, module(), scenery.clone()).await,
            scenery,
            slack,
            pagerduty,
        }
    }

    /// Waits until the rules have been evaluated several times.
    async fn looks(&self) {
        until_run(&*self.world.fresh, "alerts-ledger").await;
    }

    /// The messages that Slack received: whether each names the rule, and whether it reports the end of the alert.
    fn told_slack(&self) -> Vec<(bool, bool)> {
        let says = |message: &Value, words: &str| message["text"].as_str().unwrap().contains(words);
        let told = |message: &Value| (says(message, "*ledger_events_failed*"), says(message, "is over"));
        self.slack.taken().iter().map(told).collect()
    }

    /// Makes an event fail. The deposit itself succeeds.
    async fn fail(&self) {
        let ada = self.world.client.open("ada", "KRW").await;
        self.rename("ledger_portfolio", "ledger_lost").await;
        self.world.client.deposit(&ada, 1).await.created();
    }

    /// Repairs the cause and retries the dead letters.
    async fn mend(&self) {
        self.rename("ledger_lost", "ledger_portfolio").await;
        dead::retry(self.world.fresh.db(), &Selection::default(), "test")
            .await
            .unwrap();
    }

    async fn rename(&self, from: &str, to: &str) {
        let sql = format!("alter table {from} rename to {to}");
        self.world.fresh.db().execute_unprepared(&sql).await.unwrap();
    }

    /// Writes events that are six minutes old: copies of the first one with new ids.
    async fn emit_late(&self, count: usize) {
        let db = self.world.fresh.db();
        let (table, late) = match db.get_database_backend() {
            DbBackend::Sqlite => ("postroom_outbox", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-6 minutes')"),
            _ => ("postroom_incoming", "utc_timestamp(6) - interval 6 minute"),
        };
        let like = "event_type, source, aggregate_type, aggregate_id, payload, headers, occurred_at";
        for _ in 0..count {
            let id = Uuid::now_v7();
            let sql = format!(
                "insert into {table} (event_id, created_at, {like}) select '{id}', {late}, {like} from postroom_outbox \
                 order by id limit 1"
            );
            db.execute_unprepared(&sql).await.unwrap();
        }
    }

    async fn pause(&self, route: &str, is_paused: bool) {
        let pause = || operate::set_paused(&*self.world.fresh, route, is_paused, "test");
        until("the route exists", || async { pause().await.is_ok() }).await;
    }

    /// The state of a rule in the HTTP API.
    async fn rule(&self, name: &str) -> Value {
        let page = self.world.client.look("/alerts").await;
        let found = page.as_array().unwrap().iter().find(|rule| rule["rule"] == name);
        found.unwrap().clone()
    }
}

const BEGAN: (bool, bool) = (true, false);
const OVER: (bool, bool) = (true, true);

async fn a_dead_letter_goes_to_slack_and_so_does_its_end(fresh: Fresh, broker: Option<Arc<dyn Broker>>) {
    let watched = Watched::open(fresh, broker).await;
    watched.fail().await;
    until("Slack receives the alert", || async {
        !watched.slack.taken().is_empty()
    })
    .await;
    watched.looks().await;
    assert_eq!(watched.told_slack(), [BEGAN]);
    let rule = watched.rule("ledger_events_failed").await;
    assert_eq!((&rule["number"], &rule["limit"]), (&json!(1), &json!(0)));
    assert_eq!((&rule["is_firing"], &rule["is_told"]), (&json!(true), &json!(true)));

    watched.mend().await;
    until("Slack receives the end of the alert", || async {
        watched.slack.taken().len() == 2
    })
    .await;
    watched.looks().await;
    assert_eq!(watched.told_slack(), [BEGAN, OVER]);
    assert_eq!(watched.pagerduty.asked(), 0, "PagerDuty is not called");
    watched.world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_goes_to_slack_on_sqlite() {
    a_dead_letter_goes_to_slack_and_so_does_its_end(fresh::sqlite().await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_goes_to_slack_on_mariadb_through_kafka() {
    let broker = Some(shared_kafka().await);
    a_dead_letter_goes_to_slack_and_so_does_its_end(fresh::mysql().await, broker).await;
}

/// `route` is paused, so events wait for it.
async fn a_hundred_late_events_wake_somebody(fresh: Fresh, broker: Option<Arc<dyn Broker>>, route: &str) {
    let watched = Watched::open(fresh, broker).await;
    let ada = watched.world.client.open("ada", "KRW").await;
    watched.world.client.deposit(&ada, 1).await.created();
    books::settle(&watched.world.fresh).await;
    watched.pause(route, true).await;
    watched.emit_late(99).await;
    until("the rule counts all of them", || async {
        watched.rule("ledger_events_pending").await["number"] == 99
    })
    .await;
    watched.looks().await;
    assert_eq!(watched.pagerduty.asked(), 0, "99 are not enough");
    watched.emit_late(1).await;
    until("PagerDuty is called", || async {
        !watched.pagerduty.taken().is_empty()
    })
    .await;
    watched.looks().await;
    assert_eq!(watched.pagerduty.taken().len(), 1);

    watched.pause(route, false).await;
    until("it is resolved", || async { watched.pagerduty.taken().len() == 2 }).await;
    watched.looks().await;
    let events = watched.pagerduty.taken();
    let actions: Vec<(&Value, &Value)> = events
        .iter()
        .map(|one| (&one["event_action"], &one["dedup_key"]))
        .collect();
    let rule = json!("ledger_events_pending");
    assert_eq!(actions, [(&json!("trigger"), &rule), (&json!("resolve"), &rule)]);
    assert_eq!(watched.slack.asked(), 0, "none of them failed");
    watched.world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_late_events_wake_somebody_on_sqlite() {
    a_hundred_late_events_wake_somebody(fresh::sqlite().await, None, "ledger-audit").await;
}

/// Here the publishing route is paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_late_events_wake_somebody_on_mariadb_through_kafka() {
    let broker = Some(shared_kafka().await);
    a_hundred_late_events_wake_somebody(fresh::mysql().await, broker, "to-broker-ledger-events").await;
}

/// A configured route may have any name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_of_any_name_is_watched() {
    let publisher = MemoryBroker::default()
        .broker()
        .publisher(Topic::default(), Mode::default());
    let route = Route {
        filter: Filter::any_of(["ledger.**"]),
        ..Route::new("books for the auditors", To::Destination(publisher))
    };
    let scenery = Scenery {
        routes: vec![route],
        ..Scenery::default()
    };
    let watched = Watched::set(fresh::sqlite().await, scenery).await;
    let ada = watched.world.client.open("ada", "KRW").await;
    watched.world.client.deposit(&ada, 1).await.created();
    books::settle(&watched.world.fresh).await;
    watched.pause("books for the auditors", true).await;
    watched.emit_late(3).await;
    until("the subscribers have handled them", || async {
        let status = operate::status(&*watched.world.fresh).await.unwrap();
        let mut ours = status.routes.iter().filter(|route| route.route.starts_with("ledger-"));
        ours.all(|route| route.delivered == 4)
    })
    .await;
    until(
        "the alert counts the events that the paused route has not delivered",
        || async { watched.rule("ledger_events_pending").await["number"] == 3 },
    )
    .await;
    watched.world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slack_that_is_broken_for_a_while_is_told_once() {
    let watched = Watched::open(fresh::sqlite().await, None).await;
    let busy = Answer {
        retry_after: Some(1),
        ..Answer::new(429, "rate_limited")
    };
    watched.slack.answer([Answer::new(500, "rollup_error"), busy]);
    watched.fail().await;
    until("Slack receives the alert", || async {
        !watched.slack.taken().is_empty()
    })
    .await;
    watched.looks().await;
    assert_eq!((watched.told_slack(), watched.slack.asked()), (vec![BEGAN], 3));
    watched.world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_tell_once() {
    let watched = Watched::open(fresh::postgres().await, None).await;
    let second = Running::open(&watched.world.fresh, vec![module()], watched.scenery.clone()).await;
    watched.fail().await;
    until("Slack receives the alert", || async {
        !watched.slack.taken().is_empty()
    })
    .await;
    watched.looks().await;
    watched.mend().await;
    until("Slack receives the end of the alert", || async {
        watched.slack.taken().len() >= 2
    })
    .await;
    watched.looks().await;
    assert_eq!(watched.told_slack(), [BEGAN, OVER]);
    second.close().await;
    watched.world.close().await;
}
