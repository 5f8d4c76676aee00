//! Queues with configured names.

use futures::StreamExt;
use lapin::options::BasicConsumeOptions;
use lapin::types::FieldTable;
use postroom::{Broker as _, Join, Letter, Mode, Start};
use postroom_rabbitmq::RabbitMq;
use uuid::Uuid;

use crate::site::{deliver, entry, name, shared_with};

const GROUPS: [&str; 4] = ["notification", "aggregate", "chat_persist", "chat_fanout"];

#[tokio::test(flavor = "multi_thread")]
async fn n_01_an_exchange_feeds_four_queues_with_their_dead_letter_queues() {
    let site = shared_with(1);
    let (exchange, suffix) = (name("domain_events"), Uuid::now_v7().simple().to_string());
    let rabbitmq = RabbitMq::new(site.url()).unwrap();
    let rabbitmq = rabbitmq
        .names(&format!("{{group}}_queue_{suffix}"), &format!("{{group}}_dlq_{suffix}"))
        .unwrap();
    let topics = [exchange.clone()];
    for group in GROUPS {
        drop(
            rabbitmq
                .subscribe(Join::new(group, &topics, Start::Head))
                .await
                .unwrap(),
        );
    }
    let sent = entry(7, "community.comment.created.v1", "post-1");
    deliver(&site.publisher(&exchange, Mode::Binary), std::slice::from_ref(&sent)).await;
    let first = async |queue: String| {
        let channel = site.plain().await; // a new one per group: RabbitMQ closes a channel whose queue is deleted
        let consuming = channel.basic_consume(queue.into(), "".into(), no_ack(), FieldTable::default());
        consuming.await.unwrap().next().await.unwrap().unwrap()
    };
    for group in GROUPS {
        let message = first(format!("{group}_queue_{suffix}")).await;
        let id = message.properties.message_id().as_ref().map(ToString::to_string);
        assert_eq!(id, Some(sent.event.id.to_string()), "{group}");
    }
    for group in GROUPS {
        let letter = Letter {
            group: group.to_owned(),
            ..letter(&exchange)
        };
        rabbitmq.bury(&letter).await.unwrap();
        let message = first(format!("{group}_dlq_{suffix}")).await;
        assert_eq!(message.data, letter.body, "{group}");
    }
    for group in GROUPS {
        rabbitmq.forget(group, &topics).await.unwrap();
    }
}

fn no_ack() -> BasicConsumeOptions {
    BasicConsumeOptions {
        no_ack: true,
        ..BasicConsumeOptions::default()
    }
}

fn letter(topic: &str) -> Letter {
    Letter {
        event_id: Uuid::nil(),
        group: String::new(),
        origin: postroom::Origin {
            topic: topic.to_owned(),
            place: "1".to_owned(),
        },
        content_type: Some("application/json".to_owned()),
        attributes: std::collections::BTreeMap::new(),
        fields: postroom::Fields::default(),
        body: b"{}".to_vec(),
        error: "it broke".to_owned(),
        attempts: 3,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_would_have_a_queue_twice_is_refused() {
    let rabbitmq = RabbitMq::new(shared_with(1).url()).unwrap();
    let rabbitmq = rabbitmq.names("{group}_queue", "{group}_dlq").unwrap();
    let topics = [name("one"), name("two")];
    let refused = rabbitmq.subscribe(Join::new("all", &topics, Start::Head)).await;
    let says = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(says.contains("put {topic} into the name"), "{says}");
}
