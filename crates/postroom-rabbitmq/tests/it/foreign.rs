//! Python's AMQP client reads published events as valid CloudEvents in both modes.

use postroom::Mode;
use postroom_testkit::foreign::{self, Seen};

use crate::site::{deliver, name, shared_with};

/// Reads messages of a queue and prints each as a line of JSON.
const READ: &str = r#"
import json, sys, pika
url, queue, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
for method, properties, body in channel.consume(queue, inactivity_timeout=60):
    assert method is not None, "no message came"
    print(json.dumps({
        "content_type": properties.content_type, "message_id": properties.message_id, "persistent": properties.delivery_mode,
        "headers": properties.headers or {}, "body": body.decode("utf-8"),
    }))
    channel.basic_ack(method.delivery_tag)
    count -= 1
    if count == 0:
        break
channel.cancel()
connection.close()
"#;

#[tokio::test(flavor = "multi_thread")]
async fn pika_reads_cloud_events_in_both_modes() {
    let (site, topic, sent) = (shared_with(1), name("foreign"), foreign::sample());
    drop(site.join("all", &topic).await);
    for (mode, content_type) in [
        (Mode::Binary, "application/json"),
        (Mode::Structured, "application/cloudevents+json"),
    ] {
        deliver(&site.publisher(&topic, mode), std::slice::from_ref(&sent)).await;
        let printed = foreign::python(READ, &[site.url(), &format!("{topic}:all:0"), "1"]);
        let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(found["message_id"], sent.event.id.to_string());
        assert_eq!(found["persistent"], 2);
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned).unwrap();
        let attribute = |(name, value): (&String, &serde_json::Value)| {
            let name = name.strip_prefix("cloudEvents:").expect("only attributes are headers");
            (name.to_owned(), text(value))
        };
        let seen = Seen {
            key: None,
            content_type: text(&found["content_type"]),
            attributes: found["headers"].as_object().unwrap().iter().map(attribute).collect(),
            body: text(&found["body"]),
        };
        assert_eq!(seen.content_type, content_type);
        seen.assert_is(&sent);
    }
}
