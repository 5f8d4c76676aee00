//! The wire format: a plain client reads published messages, and Postroom reads messages of other programs.

use futures::StreamExt;
use lapin::BasicProperties;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions};
use lapin::types::{AMQPValue, FieldTable};
use postroom::Mode;

use crate::site::{deliver, entry, name, shared_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_client_reads_cloudevents() {
    let site = shared_with(1);
    let topic = name("wire");
    drop(site.join("all", &topic).await);
    let sent = entry(7, "shop.order.paid.v1", "order-1");
    for mode in [Mode::Binary, Mode::Structured] {
        deliver(&site.publisher(&topic, mode), std::slice::from_ref(&sent)).await;
    }
    let channel = site.plain().await;
    let options = BasicConsumeOptions::default();
    let queue = format!("{topic}:all:0");
    let consuming = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
    let mut consumer = consuming.await.unwrap();
    let binary = consumer.next().await.unwrap().unwrap();
    assert_eq!(binary.data, br#"{"n":7}"#);
    let properties = &binary.properties;
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string);
    assert_eq!(text(properties.content_type()).as_deref(), Some("application/json"));
    assert_eq!(text(properties.message_id()), Some(sent.event.id.to_string()));
    assert_eq!(text(properties.kind()).as_deref(), Some("shop.order.paid.v1"));
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert!(properties.timestamp().is_some());
    let headers = properties.headers().clone().unwrap();
    let header = |name: &str| {
        headers
            .inner()
            .get(name)
            .and_then(AMQPValue::as_long_string)
            .map(ToString::to_string)
    };
    assert_eq!(header("cloudEvents:specversion").as_deref(), Some("1.0"));
    assert_eq!(header("cloudEvents:id"), Some(sent.event.id.to_string()));
    assert_eq!(header("cloudEvents:type").as_deref(), Some("shop.order.paid.v1"));
    assert_eq!(header("cloudEvents:subject").as_deref(), Some("order-1"));
    let structured = consumer.next().await.unwrap().unwrap();
    let kind = text(structured.properties.content_type());
    assert_eq!(kind.as_deref(), Some("application/cloudevents+json"));
    let document: serde_json::Value = serde_json::from_slice(&structured.data).unwrap();
    assert_eq!(document["specversion"], "1.0");
    assert_eq!(document["data"]["n"], 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_cloudevent_is_an_event() {
    let site = shared_with(1);
    let topic = name("foreign");
    let mut member = site.join("all", &topic).await;
    let mut headers = FieldTable::default();
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", "17"),
        ("source", "/shop"),
        ("type", "shop.sold"),
    ] {
        headers.insert(
            format!("cloudEvents_{name}").into(),
            AMQPValue::LongString(value.into()),
        );
    }
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_headers(headers);
    let channel = site.plain().await;
    // Other programs do not use slots.
    let put = channel.basic_publish(
        topic.as_str().into(),
        "sold".into(),
        BasicPublishOptions::default(),
        b"[1]",
        properties,
    );
    put.await.unwrap();
    let messages = member.next(1).await.unwrap();
    let event = messages[0].event().unwrap();
    assert_eq!((event.event_type.as_str(), event.payload.get()), ("shop.sold", "[1]"));
}
