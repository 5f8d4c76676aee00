//! The four alert rules: their values on any route, and their alerts.

use std::sync::Arc;
use std::time::Duration;

use postroom::alert::{Channel, Messenger};
use postroom::{Broker, Delays, operate};
use postroom_host::{Messengers, Rule};
use postroom_http::Slack;
use postroom_testkit::fake_messenger::FakeMessenger;
use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::stage::{Scenery, Stage};
use postroom_testkit::wait::{until, until_run};
use postroom_testkit::{Client, Fresh, fresh};
use serde_json::Value;
use umbra::Umbra;
use umbra::alert::RULES;
use umbra::notification::dm::Sent;

use crate::site::{Site, umbra};

fn failed() -> Sent {
    Sent::Failed {
        says: "no route to Discord".to_owned(),
    }
}

/// The value and the state of each rule.
pub(crate) async fn found<const N: usize>(site: &Site, rules: [Rule; N]) -> [(f64, bool); N] {
    let page = Client(site.stage.url.clone()).get("/alerts").await.ok();
    rules.map(|rule| {
        let shown = page.as_array().unwrap().iter().find(|shown| shown["rule"] == rule.name);
        let shown = shown.unwrap();
        (shown["number"].as_f64().unwrap(), shown["is_firing"] == true)
    })
}

on_each_database! {
    metrics: u_08_what_fails_shows_in_the_metrics_sqlite, u_08_what_fails_shows_in_the_metrics_postgres,
        u_08_what_fails_shows_in_the_metrics_mariadb;
    told_once: u_08_a_rule_that_fires_is_told_once_sqlite, u_08_a_rule_that_fires_is_told_once_postgres,
        u_08_a_rule_that_fires_is_told_once_mariadb;
}

async fn metrics(fresh: Fresh) {
    // Slow enough that polling sees the failures.
    let slowly = |umbra: &mut Umbra| umbra.retry.delays = Delays::Fixed(Duration::from_millis(200));
    let site = Site::with(fresh, slowly).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.quiet().await;
    assert_eq!(found(&site, RULES).await, [(0.0, false); 4]);
    site.dm.otherwise(Some(failed()));
    site.subscription("g1", &ada).await;
    until("it failed more than once", || async {
        let [unpublished, age, failed, mean] = found(&site, RULES).await;
        let is_measured = unpublished.0 >= 1.0 && age.0 > 0.0 && failed == (1.0, false);
        mean.1 && mean.0 > 1.0 && is_measured
    })
    .await;
    until("it became a dead letter", || async {
        let [.., failed, mean] = found(&site, RULES).await;
        (failed, mean) == ((1.0, false), (0.0, false))
    })
    .await;
    site.stage.close().await;
}

/// Events that are not published count as undelivered, even if no subscriber has a backlog.
#[tokio::test]
async fn u_08_events_that_are_not_published_count() {
    let broker: Arc<dyn Broker> = Arc::new(MemoryBroker::default());
    let site = Site::through(fresh::sqlite().await, broker).await;
    until("the relay knows its routes", || async {
        operate::status(&*site.fresh).await.unwrap().routes.len() == 6
    })
    .await;
    let publishes = "to-broker-umbra-events";
    operate::set_paused(&*site.fresh, publishes, true, "test")
        .await
        .unwrap();
    site.user("1001", "visa").await;
    let emitted = f64::from(u32::try_from(site.events().await.len()).unwrap());
    until("no subscriber has a backlog", || async {
        let status = operate::status(&*site.fresh).await.unwrap();
        let mut subscribers = status.routes.iter().filter(|route| route.route != publishes);
        subscribers.all(|route| route.backlog == 0)
    })
    .await;
    assert_eq!(found(&site, RULES).await[0].0, emitted);
    operate::set_paused(&*site.fresh, publishes, false, "test")
        .await
        .unwrap();
    until("no event is undelivered", || async {
        found(&site, RULES).await[0].0 == 0.0
    })
    .await;
    site.stage.close().await;
}

/// Discord rejects messages for a while. Slack gets one alert at the start and one at the end.
async fn told_once(fresh: Fresh) {
    let slack = FakeMessenger::slack().await;
    let (mut umbra, cards, dm) = umbra();
    umbra.retry.attempts_max = None;
    let to_slack: Arc<dyn Messenger> = Arc::new(Slack::new(&slack.url).unwrap());
    let scenery = Scenery {
        messengers: Messengers::from([(Channel::Slack, to_slack)]),
        every: Duration::from_millis(100),
        ..Scenery::default()
    };
    let stage = Stage::set(fresh.store(), vec![umbra.module()], scenery).await;
    let site = Site {
        cards,
        dm,
        stage,
        fresh,
    };
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.dm.otherwise(Some(failed()));
    site.subscription("g1", &ada).await;
    until("Slack receives the alert", || async { !slack.taken().is_empty() }).await;
    until_run(&*site.fresh, "alerts-umbra").await;
    site.dm.otherwise(None);
    until("Slack receives the end of the alert", || async {
        slack.taken().len() > 1
    })
    .await;
    until_run(&*site.fresh, "alerts-umbra").await;
    let texts: Vec<Value> = slack.taken().iter().map(|message| message["text"].clone()).collect();
    let begins = |at: usize, words: &str| texts[at].as_str().unwrap().starts_with(words);
    assert!(begins(0, "*umbra_retry_count_mean* began at"), "{texts:?}");
    assert!(begins(1, "*umbra_retry_count_mean* is over"), "{texts:?}");
    assert_eq!(texts.len(), 2, "{texts:?}");
    site.stage.close().await;
}
