//! When somebody should look: what fails and what is not published shows.

use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Batch, Broker, Destination, Letter, Mode, Receipt, Result, Start, Subscription, Topic, inspect};
use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::{Fresh, fresh};
use serde_json::json;
use umbra::alert::Gauges;
use umbra::notification::dm::Sent;

use crate::site::Site;

on_each_database! {
    metrics: u_08_what_fails_shows_in_the_metrics_sqlite, u_08_what_fails_shows_in_the_metrics_postgres,
        u_08_what_fails_shows_in_the_metrics_mariadb;
}

async fn metrics(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.quiet().await;
    assert_eq!(site.get("/alerts").await["firing"], json!([]));
    site.dm.otherwise(Some(Sent::Failed {
        says: "no route to Discord".to_owned(),
    }));
    site.subscription("g1", &ada).await;
    let alerts = site
        .until("/alerts", |alerts| {
            alerts["metrics"]["retry_count_mean"].as_f64() > Some(1.0)
        })
        .await;
    assert_eq!(alerts["firing"][0]["metric"], "retry_count_mean", "{alerts}");
    assert_eq!(alerts["metrics"]["failed_events"], 1);
    assert!(alerts["metrics"]["event_age_max_s"].as_f64() > Some(0.0), "{alerts}");
    assert_eq!(alerts["rules"].as_array().unwrap().len(), 4);
    site.until("/alerts", |alerts| alerts["firing"] == json!([])).await;
    let status = inspect::status(&*site.fresh).await.unwrap();
    let failed = |module, topic| Gauges::of(&status, module, topic).failed_events;
    assert_eq!(failed("umbra", "umbra-events"), 1, "the dead letter");
    assert_eq!(failed("other", "other-events"), 0);
    site.stage.close().await;
}

/// A broker whose topics take nothing.
#[derive(Debug, Default)]
struct Deaf(MemoryBroker);

#[async_trait]
impl Broker for Deaf {
    fn publisher(&self, _: Topic, _: Mode) -> Arc<dyn Destination> {
        Arc::new(Self::default())
    }

    async fn subscribe(&self, group: &str, topics: &[String], start: Start) -> Result<Box<dyn Subscription>> {
        self.0.subscribe(group, topics, start).await
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        self.0.bury(letter).await
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        self.0.waiting(group, topics).await
    }
}

#[async_trait]
impl Destination for Deaf {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let refuse = async |_at: usize| Receipt::Refused("this topic takes nothing".to_owned());
        batch.in_lanes(1, refuse).await
    }
}

/// Events that a broker does not take have reached nobody: that is seen, although every group has nothing to do.
#[tokio::test]
async fn u_08_what_is_not_published_shows_in_the_metrics() {
    let site = Site::through(fresh::sqlite().await, Arc::new(Deaf::default())).await;
    site.post("/users", json!({ "discord_user_id": "1001" })).await;
    let alerts = site
        .until("/alerts", |alerts| {
            alerts["metrics"]["retry_count_mean"].as_f64() > Some(1.0)
        })
        .await;
    let metrics = &alerts["metrics"];
    assert_eq!(
        (&metrics["unpublished_events"], &metrics["failed_events"]),
        (&json!(1), &json!(1))
    );
    assert!(metrics["event_age_max_s"].as_f64() > Some(0.0), "{alerts}");
    assert_eq!(alerts["firing"][0]["metric"], "retry_count_mean", "{alerts}");
    site.stage.close().await;
}
