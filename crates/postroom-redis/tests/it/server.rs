//! Server events: a crash, data loss, replicas and cluster mode.

use std::collections::HashSet;
use std::time::Duration;

use postroom::{Broker, Letter, Mode, Ordering, Origin, Receipt, Topic};
use postroom_redis::{Options, Redis};
use redis::AsyncTypedCommands;
use redis::streams::StreamRangeReply;
use tokio::time::timeout;

use crate::events::{
    PATIENCE, assert_whole, deliver, entries, join, marks, name, next, number, publish, publisher, receive,
};
use crate::site::{Site, options, own, private, shared};

/// Reads every event in the streams of a topic with a plain client.
async fn found(site: &Site, topic: &str, partitions: u16) -> Vec<i64> {
    let mut client = site.client().await;
    let mut found = Vec::new();
    for partition in 0..partitions {
        let all: StreamRangeReply = client
            .xrange_all(format!("postroom:{{{topic}}}:{partition}"))
            .await
            .unwrap();
        for entry in all.ids {
            let data: String = entry.get("data").unwrap();
            found.push(
                serde_json::from_str::<serde_json::Value>(&data).unwrap()["n"]
                    .as_i64()
                    .unwrap(),
            );
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_in_the_middle_has_kept_what_it_took() {
    is_killed_in_the_middle(13).await; // the script adds the entries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_in_the_middle_has_kept_what_it_took_of_many_keys() {
    is_killed_in_the_middle(150).await; // plain commands add the entries
}

async fn is_killed_in_the_middle(keys: i64) {
    let mut site = private().await;
    let topic = name("orders");
    site.broker.create(&topic, 3).await.unwrap();
    let to = publisher(&site.broker, &topic);
    let (progress, mut reached) = tokio::sync::watch::channel(0);
    let publishing = async move {
        let mut rest = entries(0, 3000, keys, 200);
        while !rest.is_empty() {
            let batch = &rest[..rest.len().min(300)];
            let receipts = deliver(&to, batch, Ordering::Key).await;
            let mut answers = receipts.into_iter();
            rest.retain(|_| answers.next() != Some(Receipt::Delivered));
            progress.send(3000 - rest.len()).unwrap();
        }
    };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(publishing);
    for at in [500, 1500] {
        timeout(PATIENCE, reached.wait_for(|count| *count >= at))
            .await
            .unwrap()
            .unwrap();
        site.server.as_mut().unwrap().kill().unwrap();
        site.server.as_mut().unwrap().restart().await.unwrap();
    }
    timeout(PATIENCE, tasks.join_next()).await.unwrap().unwrap().unwrap();
    assert_whole(&found(&site, &topic, 3).await, 3000, keys);
    let mut member = join(&site.broker, "group", &topic).await;
    let mut came = Vec::new();
    while came.iter().collect::<HashSet<_>>().len() < 3000 {
        let messages = next(&mut member, 500).await;
        came.extend(messages.iter().map(number));
        member.ack(&marks(&messages)).await.unwrap();
    }
    assert_whole(&came, 3000, keys);
}

/// Number of script calls on the server.
async fn scripts_run(site: &Site) -> usize {
    let mut info = redis::cmd("INFO");
    let mut client = site.client().await;
    let stats: String = info.arg("commandstats").query_async(&mut client).await.unwrap();
    let calls = stats.split("cmdstat_evalsha:calls=").nth(1).unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn many_keys_need_no_script_and_stay_in_order() {
    let site = private().await;
    let topic = name("orders");
    let to = publisher(&site.broker, &topic);
    let all = entries(0, 900, 100, 20);
    let mut counts = Vec::new();
    for batch in all.chunks(300) {
        let receipts = deliver(&to, batch, Ordering::Key).await;
        assert!(receipts.iter().all(|receipt| *receipt == Receipt::Delivered));
        counts.push(scripts_run(&site).await);
    }
    assert_eq!(
        counts[1..],
        [counts[0]; 2],
        "only the first batch uses the script, to read the number of partitions"
    );
    assert_whole(&found(&site, &topic, 4).await, 900, 100);
}

#[tokio::test]
async fn a_topic_made_anew_with_fewer_partitions_gets_everything() {
    let site = shared().await;
    let topic = name("orders");
    let to = publisher(&site.broker, &topic);
    deliver(&to, &entries(0, 50, 50, 20), Ordering::Key).await;
    let mut client = site.client().await;
    let keys: Vec<String> = client.keys(format!("postroom:{{{topic}}}:*")).await.unwrap();
    client.del(keys).await.unwrap();
    site.broker.create(&topic, 2).await.unwrap();
    let receipts = deliver(&to, &entries(0, 50, 50, 20), Ordering::Key).await;
    assert!(receipts.iter().all(|receipt| *receipt == Receipt::Delivered));
    assert_whole(&found(&site, &topic, 2).await, 50, 50);
}

#[tokio::test]
async fn a_group_or_a_stream_that_is_lost_is_made_again() {
    let site = shared().await;
    let (topic, group) = (name("orders"), name("group"));
    site.broker.create(&topic, 1).await.unwrap();
    let stream = format!("postroom:{{{topic}}}:0");
    let mut member = join(&site.broker, &group, &topic).await;
    publish(&site.broker, &topic, &entries(0, 5, 2, 10)).await;
    receive(&mut member, 5).await;
    let mut client = site.client().await;
    assert!(client.xgroup_destroy(&stream, &group).await.unwrap());
    publish(&site.broker, &topic, &entries(5, 8, 2, 10)).await;
    assert_eq!(
        receive(&mut member, 8).await,
        (0..8).collect::<Vec<_>>(),
        "delivered again from the oldest entry"
    );
    assert_eq!(client.del(&stream).await.unwrap(), 1);
    publish(&site.broker, &topic, &entries(8, 12, 2, 10)).await;
    assert_eq!(receive(&mut member, 4).await, (8..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn scripts_the_server_forgot_are_loaded_again() {
    let site = private().await;
    let topic = name("orders");
    publish(&site.broker, &topic, &entries(0, 5, 2, 10)).await;
    let mut member = join(&site.broker, "group", &topic).await;
    let mut client = site.client().await;
    redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut client).await.unwrap();
    publish(&site.broker, &topic, &entries(5, 9, 2, 10)).await;
    assert_whole(&receive(&mut member, 9).await, 9, 2);
}

#[tokio::test]
async fn a_key_of_another_kind_is_named() {
    let site = shared().await;
    let topic = name("orders");
    site.broker.create(&topic, 1).await.unwrap();
    let stream = format!("postroom:{{{topic}}}:0");
    site.client().await.set(&stream, "mine").await.unwrap();
    let to = publisher(&site.broker, &topic);
    let receipts = deliver(&to, &entries(0, 3, 1, 10), Ordering::Key).await;
    let [Receipt::Refused(words), Receipt::Held, Receipt::Held] = &receipts[..] else {
        panic!("{receipts:?}");
    };
    assert!(words.contains(&stream) && words.contains("WRONGTYPE"), "{words}");
}

#[tokio::test]
async fn replicas_are_waited_for() {
    let site = private().await;
    let options = Options {
        replicas: 1,
        timeout: Duration::from_millis(1500),
        ..options()
    };
    let careful = Redis::open(&site.url, options).unwrap();
    let topic = name("orders");
    let to = publisher(&careful, &topic);
    let receipts = deliver(&to, &entries(0, 2, 1, 10), Ordering::Key).await;
    let [Receipt::Unavailable { says: words, .. }, Receipt::Held] = &receipts[..] else {
        panic!("{receipts:?}");
    };
    assert!(words.contains("0 of 1 replicas"), "{words}");
    let port = site.url.trim_end_matches('/').rsplit(':').next().unwrap();
    let replica = own(&["--replicaof", "127.0.0.1", port], crate::site::options()).await;
    let delivered = async {
        while deliver(&to, &entries(0, 2, 1, 10), Ordering::Key).await != [Receipt::Delivered, Receipt::Delivered] {}
    };
    timeout(PATIENCE, delivered).await.unwrap();
    let copied = found(&replica, &topic, 4).await;
    assert!(copied.ends_with(&[0, 1]), "{copied:?}");
}

#[tokio::test]
async fn a_plain_client_reads_cloud_events() {
    let site = shared().await;
    let topic = name("orders");
    site.broker.create(&topic, 1).await.unwrap();
    publish(&site.broker, &topic, &entries(0, 1, 1, 0)).await;
    let structured = site.broker.publisher(topic.parse::<Topic>().unwrap(), Mode::Structured);
    deliver(&structured, &entries(1, 2, 1, 0), Ordering::Key).await;
    let stream = format!("postroom:{{{topic}}}:0");
    let all: StreamRangeReply = site.client().await.xrange_all(stream).await.unwrap();
    let field = |at: usize, name: &str| all.ids[at].get::<String>(name);
    for (name, value) in [
        ("ce_specversion", "1.0"),
        ("ce_type", "shop.order.paid.v1"),
        ("ce_source", "postroom"),
        ("ce_subject", "key-0"),
        ("content-type", "application/json"),
        ("data", r#"{"n":0,"pad":""}"#),
    ] {
        assert_eq!(field(0, name).as_deref(), Some(value), "{name}");
    }
    assert!(field(0, "ce_id").is_some() && field(0, "ce_time").is_some());
    assert_eq!(
        field(1, "content-type").as_deref(),
        Some("application/cloudevents+json")
    );
    assert_eq!(all.ids[1].map.len(), 2);
    let document: serde_json::Value = serde_json::from_str(&field(1, "data").unwrap()).unwrap();
    assert_eq!(document["data"]["n"], 1);
    assert_eq!(document["type"], "shop.order.paid.v1");
}

#[tokio::test]
async fn every_step_stays_within_a_slot_of_a_cluster() {
    every_step_stays_within_a_slot(3, &options().stream).await;
}

#[tokio::test]
async fn every_step_of_a_topic_whose_stream_has_its_name_stays_within_a_slot_of_a_cluster() {
    every_step_stays_within_a_slot(1, "{topic}").await;
}

/// A server in cluster mode refuses a request whose keys are in different slots. Runs every operation on such a server.
async fn every_step_stays_within_a_slot(partitions: u16, stream: &str) {
    let options = Options {
        keep: Duration::ZERO,
        deliveries_max: Some(1),
        partitions,
        stream: stream.to_owned(),
        ..options()
    };
    let site = own(&["--cluster-enabled", "yes"], options).await;
    let mut client = site.client().await;
    let add = redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16383).clone();
    add.exec_async(&mut client).await.unwrap();
    let is_ready = async {
        let info = redis::cmd("CLUSTER").arg("INFO").clone();
        while !info
            .query_async::<String>(&mut client)
            .await
            .unwrap()
            .contains("cluster_state:ok")
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, is_ready).await.unwrap();
    // Entries of one lane alternate between two topics.
    let topics: Topic = "{domain}-events".parse().unwrap();
    let to = site.broker.publisher(topics, Mode::Binary);
    let mut sent = entries(0, 20, 3, 10);
    for entry in sent.iter_mut().step_by(2) {
        entry.event.event_type = "shop.like.created.v1".to_owned();
    }
    let receipts = deliver(&to, &sent, Ordering::Strict).await;
    assert!(
        receipts.iter().all(|receipt| *receipt == Receipt::Delivered),
        "{receipts:?}"
    );
    let mut member = join(&site.broker, "group", "order-events").await;
    let messages = next(&mut member, 2).await;
    member.ack(&marks(&messages[..1])).await.unwrap();
    member.nack(&marks(&messages[1..])).await.unwrap();
    assert_eq!(receive(&mut member, 9).await.len(), 9);
    assert!(
        timeout(Duration::from_millis(200), member.next(1)).await.is_err(),
        "the member waits"
    );
    site.broker.bury(&letter("order-events")).await.unwrap();
    site.broker.trim("order-events").await.unwrap();
    assert_eq!(
        site.broker
            .lag("group", &["order-events".to_owned()])
            .await
            .unwrap()
            .len(),
        usize::from(partitions)
    );
    let keys: Vec<String> = client.keys("*order-events*").await.unwrap();
    assert!(keys.len() >= usize::from(partitions) + 3, "{keys:?}");
    let mut slots = HashSet::new();
    for key in &keys {
        let slot = redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).clone();
        slots.insert(slot.query_async::<u32>(&mut client).await.unwrap());
    }
    assert_eq!(slots.len(), 1, "{keys:?}");
}

pub(crate) fn letter(topic: &str) -> Letter {
    Letter {
        event_id: uuid::Uuid::nil(),
        group: "group".to_owned(),
        origin: Origin {
            topic: topic.to_owned(),
            place: "partition 0, id 1-1".to_owned(),
        },
        content_type: None,
        attributes: std::collections::BTreeMap::new(),
        fields: postroom::Fields::default(),
        body: b"{}".to_vec(),
        error: "no".to_owned(),
        attempts: 1,
    }
}
