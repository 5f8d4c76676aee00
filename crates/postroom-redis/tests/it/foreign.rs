//! `redis-cli` reads published events as valid CloudEvents in both modes.

use postroom::{Broker as _, Mode, Ordering, Receipt, Topic};
use postroom_testkit::foreign::{self, Seen};

use crate::events::{deliver, name};
use crate::site::shared;

#[tokio::test]
async fn redis_cli_reads_cloud_events_in_both_modes() {
    let (site, sent) = (shared().await, foreign::sample());
    for (mode, content_type) in [
        (Mode::Binary, "application/json"),
        (Mode::Structured, "application/cloudevents+json"),
    ] {
        let topic = name("foreign");
        site.broker.create(&topic, 1).await.unwrap();
        let publisher = site.broker.publisher(topic.parse::<Topic>().unwrap(), mode);
        let receipts = deliver(&publisher, std::slice::from_ref(&sent), Ordering::Key).await;
        assert_eq!(receipts, [Receipt::Delivered]);
        let stream = format!("postroom:{{{topic}}}:0");
        let printed = foreign::redis_cli(&site.url, &["--json", "XRANGE", &stream, "-", "+"]);
        let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let entries = found.as_array().unwrap();
        assert_eq!(entries.len(), 1, "{printed}");
        let flat: Vec<&str> = entries[0][1]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|text| text.as_str())
            .collect();
        let mut seen = Seen::default();
        for pair in flat.chunks(2) {
            match (pair[0].strip_prefix("ce_"), pair[0]) {
                (Some(name), _) => drop(seen.attributes.insert(name.to_owned(), pair[1].to_owned())),
                (None, "content-type") => pair[1].clone_into(&mut seen.content_type),
                (None, "data") => pair[1].clone_into(&mut seen.body),
                (None, other) => panic!("unexpected field: {other}"),
            }
        }
        assert_eq!(seen.content_type, content_type);
        seen.assert_is(&sent);
    }
}
