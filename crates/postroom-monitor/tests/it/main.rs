//! Metrics and readiness of a relay in a service of one's own: a store, a relay, any server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, CancellationToken, Destination, Event, Probe, Receipt, Relay, Route, Subscriber, To, Tx};
use postroom_monitor::prometheus_client::metrics::counter::Counter;
use postroom_monitor::{Metrics, Readiness};
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use serde_json::json;

async fn ignore(_tx: &mut Tx, _event: &Event) -> postroom::Result<()> {
    Ok(())
}

#[tokio::test]
async fn a_relay_and_a_store_are_enough() {
    let fresh = fresh::sqlite().await;
    let relay = Relay::new(fresh.store() as _).subscriber(Subscriber::matching("sales", ["**"], ignore));
    let metrics = Metrics::new(fresh.store(), &relay);
    let readiness = Readiness::new(fresh.store(), &relay);
    let health = readiness.check().await;
    assert!(!health.is_ready());
    assert_eq!(health.troubles, ["the store has not answered yet"]);
    assert!(
        !metrics.text().unwrap().contains("postroom_delivered"),
        "nothing works yet"
    );

    let stop = CancellationToken::new();
    let test = async {
        let payload = serde_json::value::to_raw_value(&json!({})).unwrap();
        let event = Event::new("shop.order.paid.v1", "order", "1", payload).unwrap();
        let tx = postroom::table::begin(fresh.db()).await.unwrap();
        postroom::append(&tx, &[event]).await.unwrap();
        tx.commit().await.unwrap();
        let delivered = r#"postroom_delivered_total{route="sales",shard="0",part="line"} 1"#;
        until("it counts", || async { metrics.text().unwrap().contains(delivered) }).await;
        until("it looks at the store", || async {
            metrics.text().unwrap().contains("postroom_route_backlog_entries{")
        })
        .await;
        until("it is ready", || async { readiness.check().await.is_ready() }).await;
        let shown = serde_json::to_value(readiness.check().await).unwrap();
        assert_eq!(shown.get("status"), Some(&json!("ready")));
        assert_eq!(shown.pointer("/lines/0/name"), Some(&json!("sales")));
        stop.cancel();
    };
    let (relay, looking, ()) = tokio::join!(relay.run(stop.clone()), metrics.clone().run(stop.clone()), test);
    relay.and(looking).unwrap();
}

/// A destination that is always unavailable.
#[derive(Debug)]
struct Away;

#[async_trait]
impl Destination for Away {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        vec![Receipt::unavailable("503 away"); batch.entries.len()]
    }
}

/// The value of a metric of the route `partner`.
fn of_partner(page: &str, metric: &str) -> Option<f64> {
    let series = format!("postroom_route_{metric}{{route=\"partner\",shard=\"0\"}} ");
    let value = page.lines().find_map(|line| line.strip_prefix(&series))?;
    value.parse().ok()
}

#[tokio::test]
async fn a_destination_that_is_down_and_its_next_probe_are_shown() {
    let fresh = fresh::sqlite().await;
    let relay = Relay::new(fresh.store() as _).route(Route {
        probe: Probe::every(Duration::from_secs(3600)),
        ..Route::new("partner", To::Destination(Arc::new(Away)))
    });
    let metrics = Metrics::new(fresh.store(), &relay);
    let readiness = Readiness::new(fresh.store(), &relay);
    let stop = CancellationToken::new();
    let test = async {
        let payload = serde_json::value::to_raw_value(&json!({})).unwrap();
        let event = Event::new("shop.order.paid.v1", "order", "1", payload).unwrap();
        let tx = postroom::table::begin(fresh.db()).await.unwrap();
        postroom::append(&tx, &[event]).await.unwrap();
        tx.commit().await.unwrap();
        until("it is down", || async {
            of_partner(&metrics.text().unwrap(), "down") == Some(1.0)
        })
        .await;
        let wait = of_partner(&metrics.text().unwrap(), "probe_seconds").unwrap();
        assert!((3500.0..4000.0).contains(&wait), "{wait}");
        let health = readiness.check().await;
        assert!(health.is_ready(), "an outage elsewhere is no reason: {health:?}");
        stop.cancel();
    };
    let (relay, looking, ()) = tokio::join!(relay.run(stop.clone()), metrics.clone().run(stop.clone()), test);
    relay.and(looking).unwrap();
}

#[tokio::test]
async fn metrics_of_ones_own_are_on_the_same_page() {
    let fresh = fresh::sqlite().await;
    let relay = Relay::new(Arc::clone(&fresh.store()) as _);
    let metrics = Metrics::new(fresh.store(), &relay);
    let mails: Counter = Counter::default();
    metrics.register("shop", |registry| {
        registry.register("mails", "Mails that were sent", mails.clone());
    });
    mails.inc();
    let page = metrics.text().unwrap();
    assert!(page.contains("# HELP shop_mails Mails that were sent.\n"), "{page}");
    assert!(page.contains("\nshop_mails_total 1\n"), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
}
