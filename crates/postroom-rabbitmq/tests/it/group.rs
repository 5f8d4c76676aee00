//! Groups and their queues: arguments, partitions, order and lag.

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use postroom::{Broker, Entry, ErrorKind, Join, Mark, Message, Mode, Receipt, Start};
use postroom_rabbitmq::RabbitMq;
use tokio::time::timeout;

use crate::site::{Rabbit, deliver, entry, name, number, shared, shared_with};

fn marks(messages: &[Message]) -> Vec<Mark> {
    messages.iter().map(|message| message.mark.clone()).collect()
}

async fn publish(site: &Rabbit, topic: &str, count: i64, keys: i64) {
    let entries: Vec<Entry> = (0..count)
        .map(|n| entry(n, "a.b", &format!("key-{}", n % keys)))
        .collect();
    let receipts = deliver(&site.publisher(topic, Mode::Binary), &entries).await;
    assert!(
        receipts.iter().all(|receipt| *receipt == Receipt::Delivered),
        "{receipts:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_with_other_arguments_is_a_clear_error() {
    let site = shared_with(1);
    let topic = name("classic");
    let queue = format!("{topic}:all:0");
    let channel = site.plain().await;
    let declared = channel.queue_declare(
        queue.as_str().into(),
        QueueDeclareOptions::durable(),
        FieldTable::default(),
    );
    declared.await.unwrap();
    let joined = site
        .rabbit()
        .subscribe(Join::new("all", std::slice::from_ref(&topic), Start::Beginning))
        .await;
    let error = joined.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let report = error.report();
    assert!(
        report.contains(&queue) && report.contains("inequivalent arg 'x-"),
        "{report}"
    );
    site.rabbit().forget("all", &[topic]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_keeps_its_number_of_partitions() {
    let site = shared().await; // three
    let topic = name("partitions");
    let member = site.join("all", &topic).await;
    for other in [1, 2, 4] {
        let broker = RabbitMq::new(site.url()).unwrap().partitions(other).unwrap();
        let joined = broker
            .subscribe(Join::new("all", std::slice::from_ref(&topic), Start::Beginning))
            .await;
        let error = joined.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{other}");
        assert!(error.report().contains("partitions"), "{}", error.report());
    }
    drop(member);
    drop(site.join("all", &topic).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_and_groups_with_dots_have_no_queue_in_common() {
    let site = shared_with(1);
    let topic = name("dots");
    let mut one = site.join("b.c", &topic).await;
    let mut other = site.join("c", &format!("{topic}.b")).await;
    publish(&site, &topic, 3, 3).await;
    let messages = one.next(10).await.unwrap();
    assert!(!messages.is_empty());
    assert!(
        timeout(Duration::from_secs(1), other.next(10)).await.is_err(),
        "the other topic is empty"
    );
}

/// Members are dropped in the middle of their batches. The next member continues after the last acknowledged message.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_stays_in_order_when_members_die_in_the_middle() {
    let site = shared().await;
    let topic = name("dying");
    let mut one = site.join("all", &topic).await;
    let mut other = site.join("all", &topic).await;
    publish(&site, &topic, 600, 20).await;
    let mut done: Vec<i64> = Vec::new();
    let mut turns = 0;
    while done.iter().collect::<BTreeSet<_>>().len() < 600 {
        let (messages, member) = timeout(Duration::from_secs(30), async {
            tokio::select! {
                messages = one.next(50) => (messages.unwrap(), &mut one),
                messages = other.next(50) => (messages.unwrap(), &mut other),
            }
        })
        .await
        .expect("messages arrive in time");
        let (worked, _lost) = messages.split_at(messages.len().div_ceil(2));
        done.extend(worked.iter().map(number));
        member.ack(&marks(worked)).await.unwrap();
        turns += 1;
        if turns % 3 == 0 {
            *member = site.join("all", &topic).await; // drops the old member with half of its batch and its prefetched messages
        } else {
            member.nack(&marks(_lost)).await.unwrap();
        }
    }
    assert_eq!(done.len(), 600, "acknowledged messages are not delivered again");
    for key in 0..20 {
        let of_key: Vec<i64> = done.iter().copied().filter(|n| n % 20 == key).collect();
        assert!(of_key.is_sorted(), "key {key}: {of_key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_next_loses_nothing() {
    let site = shared().await;
    let topic = name("cancelled");
    let mut member = site.join("all", &topic).await;
    let sending = publish(&site, &topic, 300, 300);
    let receiving = async {
        let mut came = Vec::new();
        while came.len() < 300 {
            // The future is usually dropped before it is ready, and often exactly then.
            if let Ok(messages) = timeout(Duration::from_micros(200), member.next(7)).await {
                let messages = messages.unwrap();
                came.extend(messages.iter().map(number));
                member.ack(&marks(&messages)).await.unwrap();
            }
        }
        came
    };
    let both = async { tokio::join!(sending, receiving) };
    let ((), mut came) = timeout(Duration::from_secs(60), both).await.expect("in time");
    came.sort_unstable();
    assert_eq!(came, (0..300).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_counted_until_the_group_is_forgotten() {
    let site = shared().await;
    let topic = name("waiting");
    let topics = [topic.clone(), format!("{topic}-unknown")];
    drop(site.join("all", &topic).await);
    publish(&site, &topic, 25, 25).await;
    let lag = site.rabbit().lag("all", &topics).await.unwrap();
    assert_eq!(lag.into_values().collect::<Vec<_>>(), [25, 0]);
    site.rabbit().forget("all", &topics).await.unwrap();
    let receipts = deliver(&site.publisher(&topic, Mode::Binary), &[entry(1, "a.b", "k")]).await;
    assert!(matches!(&receipts[..], [Receipt::Refused(_)]), "{receipts:?}");
}
