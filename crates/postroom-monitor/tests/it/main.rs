//! Metrics and readiness of a relay in a service of one's own: a store, a relay, any server.

use std::sync::Arc;

use postroom::{CancellationToken, Event, Relay, Subscriber, Tx};
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
