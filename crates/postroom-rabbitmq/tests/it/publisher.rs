//! Messages that RabbitMQ refuses or cannot store.

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use postroom::{Entry, Mode, Receipt};

use crate::site::{deliver, entry, name, number, shared};

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_no_group_has_joined_refuses() {
    let site = shared().await;
    let topic = name("lonely");
    let receipts = deliver(
        &site.publisher(&topic, Mode::Binary),
        &[entry(1, "a.b", "k"), entry(2, "a.b", "k")],
    )
    .await;
    let [Receipt::Refused(words), Receipt::Held] = &receipts[..] else {
        panic!("{receipts:?}");
    };
    assert!(
        words.contains(&topic) && words.contains("no group has joined"),
        "{words}"
    );
    let channel = site.plain().await;
    let deleted = channel.exchange_delete(topic.as_str().into(), ExchangeDeleteOptions::default());
    deleted.await.unwrap();
}

/// The driver attaches a returned message to the confirm of any message of the channel, so the id identifies the refused one.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_messages_exactly_those_without_a_queue_are_refused() {
    let site = shared().await;
    let prefix = name("mixed");
    let mut subscription = site.join("all", &format!("{prefix}-kept")).await;
    let publisher = site.publisher(&format!("{prefix}-{{domain}}"), Mode::Binary);
    for round in 0..20 {
        let kind = |n: i64| if n % 3 == 0 { "test.lost" } else { "test.kept" };
        let of_round = |n: i64| entry(1000 * round + n, kind(n), &format!("key-{n}"));
        let entries: Vec<Entry> = (0..400).map(of_round).collect();
        let receipts = deliver(&publisher, &entries).await;
        for (entry, receipt) in entries.iter().zip(&receipts) {
            let is_right = match receipt {
                Receipt::Delivered => entry.event.event_type == "test.kept",
                Receipt::Refused(_) => entry.event.event_type == "test.lost",
                Receipt::Rejected(_) | Receipt::Held | Receipt::Unavailable { .. } => false,
            };
            assert!(is_right, "{} was answered {receipt:?}", entry.id);
        }
        let mut came = 0;
        while came
            < entries
                .iter()
                .filter(|entry| entry.event.event_type == "test.kept")
                .count()
        {
            let messages = subscription.next(500).await.unwrap();
            came += messages.len();
            let marks: Vec<_> = messages.iter().map(|message| message.mark.clone()).collect();
            subscription.ack(&marks).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_exchange_is_declared_again_and_other_topics_are_unaffected() {
    let site = shared().await;
    let prefix = name("gone");
    let (one, other) = (format!("{prefix}-one"), format!("{prefix}-other"));
    let mut first = site.join("all", &one).await;
    let mut second = site.join("all", &other).await;
    let publisher = site.publisher(&format!("{prefix}-{{domain}}"), Mode::Binary);
    let entries = |from: i64| [entry(from, "test.one", "a"), entry(from + 1, "test.other", "b")];
    assert_eq!(
        deliver(&publisher, &entries(1)).await,
        [Receipt::Delivered, Receipt::Delivered]
    );
    let channel = site.plain().await;
    let deleted = channel.exchange_delete(one.as_str().into(), ExchangeDeleteOptions::default());
    deleted.await.unwrap();
    let receipts = deliver(&publisher, &entries(3)).await;
    // The exchange exists again. Its bindings are missing until a member joins.
    assert!(
        matches!(&receipts[..], [Receipt::Refused(_), Receipt::Delivered]),
        "{receipts:?}"
    );
    drop(first);
    first = site.join("all", &one).await;
    assert_eq!(
        deliver(&publisher, &entries(5)).await,
        [Receipt::Delivered, Receipt::Delivered]
    );
    let mut came = Vec::new();
    while came.len() < 5 {
        let messages = tokio::select! {
            messages = first.next(10) => messages,
            messages = second.next(10) => messages,
        };
        came.extend(messages.unwrap().iter().map(number));
    }
    came.sort_unstable();
    came.dedup(); // messages on the channel of the missing exchange may arrive twice
    assert_eq!(came, [1, 2, 4, 5, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_and_holds_its_key() {
    let site = shared().await;
    let topic = name("full");
    let channel = site.plain().await;
    let queue = format!("{topic}-plain");
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let declared = channel.exchange_declare(
        topic.as_str().into(),
        ExchangeKind::Topic,
        durable,
        FieldTable::default(),
    );
    declared.await.unwrap();
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    let exclusive = QueueDeclareOptions::exclusive();
    channel
        .queue_declare(queue.as_str().into(), exclusive, arguments)
        .await
        .unwrap();
    let bound = channel.queue_bind(
        queue.as_str().into(),
        topic.as_str().into(),
        "#".into(),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    bound.await.unwrap();
    let entries = [entry(1, "a.b", "k"), entry(2, "a.b", "k"), entry(3, "a.b", "k")];
    let receipts = deliver(&site.publisher(&topic, Mode::Binary), &entries).await;
    let [Receipt::Delivered, Receipt::Refused(words), Receipt::Held] = &receipts[..] else {
        panic!("{receipts:?}");
    };
    assert!(words.contains(&topic) && words.contains("full"), "{words}");
    let deleted = channel.exchange_delete(topic.as_str().into(), ExchangeDeleteOptions::default());
    deleted.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_amqp_cannot_carry_is_rejected_and_others_pass() {
    let site = shared().await;
    let topic = name("long");
    let _member = site.join("all", &topic).await;
    let mut long = entry(1, "a.b", "k");
    long.event = long.event.header("x".repeat(250), "1");
    let receipts = deliver(&site.publisher(&topic, Mode::Binary), &[long, entry(2, "a.b", "j")]).await;
    assert!(
        matches!(&receipts[..], [Receipt::Rejected(_), Receipt::Delivered]),
        "{receipts:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_whose_exchange_is_of_another_kind_refuses_and_says_so() {
    let site = shared().await;
    let topic = name("fanout");
    let channel = site.plain().await;
    let options = ExchangeDeclareOptions::default();
    let declared = channel.exchange_declare(
        topic.as_str().into(),
        ExchangeKind::Fanout,
        options,
        FieldTable::default(),
    );
    declared.await.unwrap();
    let receipts = deliver(&site.publisher(&topic, Mode::Binary), &[entry(1, "a.b", "k")]).await;
    let [Receipt::Refused(words)] = &receipts[..] else {
        panic!("{receipts:?}");
    };
    assert!(words.contains(&topic) && words.contains("inequivalent"), "{words}");
    let deleted = channel.exchange_delete(topic.as_str().into(), ExchangeDeleteOptions::default());
    deleted.await.unwrap();
}
