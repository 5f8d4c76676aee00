//! Trimming of streams: which entries it removes and which it keeps.

use std::time::Duration;

use postroom_redis::Options;
use redis::AsyncTypedCommands;

use crate::events::{assert_whole, entries, join, marks, name, next, number, publish, receive};
use crate::site::{Site, options, own, shared};

fn short_retention() -> Options {
    Options {
        keep: Duration::ZERO,
        partitions: 1,
        ..options()
    }
}

async fn length(site: &Site, topic: &str) -> usize {
    let mut client = site.client().await;
    client.xlen(format!("postroom:{{{topic}}}:0")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trimming_under_load_removes_no_unread_entry() {
    let site = own(&[], short_retention()).await;
    let topic = name("orders");
    let mut quick = join(&site.broker, "quick", &topic).await;
    let mut slow = join(&site.broker, "slow", &topic).await;
    let (broker, to) = (site.broker.clone(), topic.clone());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { publish(&broker, &to, &entries(0, 6000, 11, 50)).await });
    tasks.spawn(async move { assert_whole(&receive(&mut quick, 6000).await, 6000, 11) });
    let mut came = Vec::new();
    let mut removed = 0;
    while came.len() < 6000 {
        let messages = next(&mut slow, 150).await;
        removed += site.broker.trim(&topic).await.unwrap(); // while entries are pending
        came.extend(messages.iter().map(number));
        slow.ack(&marks(&messages)).await.unwrap();
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(came.len(), 6000, "no duplicates");
    assert_whole(&came, 6000, 11);
    assert!(removed > 3000, "{removed} removed meanwhile");
    site.broker.trim(&topic).await.unwrap();
    let left = length(&site, &topic).await;
    assert!(left <= 200, "{left} are left");
}

#[tokio::test]
async fn a_topic_without_groups_only_has_a_maximum_length() {
    let site = own(&[], short_retention()).await;
    let topic = name("orders");
    publish(&site.broker, &topic, &entries(0, 1000, 3, 10)).await;
    assert_eq!(site.broker.trim(&topic).await.unwrap(), 0);
    let capped = Options {
        length_max: Some(300),
        ..short_retention()
    };
    let capped = postroom_redis::Redis::open(&site.url, capped).unwrap();
    assert!(capped.trim(&topic).await.unwrap() >= 600);
    assert!((300..=400).contains(&length(&site, &topic).await));
}

#[tokio::test]
async fn young_entries_are_kept_for_new_groups() {
    let site = shared().await;
    let topic = name("orders");
    site.broker.create(&topic, 1).await.unwrap();
    let mut member = join(&site.broker, "one", &topic).await;
    publish(&site.broker, &topic, &entries(0, 500, 3, 10)).await;
    receive(&mut member, 500).await;
    assert_eq!(site.broker.trim(&topic).await.unwrap(), 0);
    let mut late = join(&site.broker, "another", &topic).await;
    assert_eq!(receive(&mut late, 500).await.len(), 500);
}

#[tokio::test]
async fn lag_counts_unread_and_pending_entries() {
    let site = shared().await;
    let topic = name("orders");
    let topics = [topic.clone()];
    site.broker.create(&topic, 2).await.unwrap();
    assert_eq!(site.broker.lag("group", &topics).await.unwrap(), []);
    let mut member = join(&site.broker, "group", &topic).await;
    publish(&site.broker, &topic, &entries(0, 100, 20, 10)).await;
    let messages = next(&mut member, 30).await;
    let lags = site.broker.lag("group", &topics).await.unwrap();
    assert_eq!(lags.len(), 2);
    assert_eq!(lags.iter().map(|lag| lag.pending).sum::<u64>(), messages.len() as u64);
    assert_eq!(
        lags.iter().filter_map(|lag| lag.unread).sum::<u64>(),
        100 - messages.len() as u64
    );
}
