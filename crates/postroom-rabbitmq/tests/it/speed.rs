//! Publishing throughput compared with the plain driver.

use std::time::{Duration, Instant};

use futures::future::join_all;
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use postroom::{Entry, Mode, Receipt};

use crate::site::{deliver, entry, name, shared_with};

const COUNT: i64 = 20_000;
const BATCH: usize = 500;

/// Publishing with order, attributes and receipts takes at most four times as long as the plain driver with the same payloads.
/// Sending one message at a time would take much longer.
#[tokio::test(flavor = "multi_thread")]
async fn publishing_keeps_up_with_the_driver() {
    let site = shared_with(1);
    let topic = name("speed");
    drop(site.join("all", &topic).await);
    let payload = postroom::parse_payload(&format!("\"{}\"", "x".repeat(498))).unwrap();
    let with_payload = |n: i64| {
        let mut entry = entry(n, "a.b", &format!("key-{}", n % 1000));
        entry.event.payload = payload.clone();
        entry
    };
    let entries: Vec<Entry> = (0..COUNT).map(with_payload).collect();
    let publisher = site.publisher(&topic, Mode::Binary);
    let channel = site.plain().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let properties = BasicProperties::default().with_delivery_mode(2);
    let body = payload.get().as_bytes();
    let (mut ours, mut plain) = (Duration::ZERO, Duration::ZERO);
    // Alternates, so that other load on the machine slows both.
    for batch in entries.chunks(BATCH) {
        let start = Instant::now();
        let receipts = deliver(&publisher, batch).await;
        ours += start.elapsed();
        assert!(receipts.iter().all(|receipt| *receipt == Receipt::Delivered));
        let start = Instant::now();
        let sending = batch.iter().map(async |_| {
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish(
                topic.as_str().into(),
                "slot.0".into(),
                options,
                body,
                properties.clone(),
            );
            assert!(sent.await.unwrap().await.unwrap().is_ack());
        });
        join_all(sending).await;
        plain += start.elapsed();
    }
    let rate = |time: Duration| (COUNT as f64 / time.as_secs_f64()).round();
    println!("ours {}/s, the driver alone {}/s", rate(ours), rate(plain));
    assert!(ours < plain * 4, "ours {ours:?}, the driver alone {plain:?}");
}
