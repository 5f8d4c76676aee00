//! Streams with configured names, which other programs know.

use postroom::{Broker as _, ErrorKind, Join, Message, Start};
use postroom_redis::{Options, Redis};
use postroom_testkit::foreign::redis_cli;
use redis::AsyncTypedCommands;
use redis::streams::StreamRangeReply;
use tokio::time::timeout;

use crate::events::{PATIENCE, assert_whole, entries, join, marks, name, next, number, publish, receive};
use crate::lease::{LEASE, receive_and_crash, short_lease};
use crate::server::letter;
use crate::site::{Site, options, own, shared};

const TOPIC: &str = "domain.user.activity";

/// Options under which a stream has this name.
fn named(stream: &str, options: Options) -> Options {
    Options {
        stream: stream.to_owned(),
        partitions: 1,
        ..options
    }
}

async fn keys(site: &Site) -> Vec<String> {
    let mut keys: Vec<String> = site.client().await.keys("*").await.unwrap();
    keys.sort();
    keys
}

/// A program that knows only the name of the stream, and that entries are CloudEvents.
fn add_as_stranger(site: &Site, stream: &str, n: i64) {
    let event = format!(
        r#"{{"specversion":"1.0","id":"{n}","source":"/stranger","type":"shop.order.paid.v1","subject":"key-{n}","data":{{"n":{n}}}}}"#
    );
    let fields = ["content-type", "application/cloudevents+json", "data", &event];
    let added = redis_cli(&site.url, &[&["XADD", stream, "*"], fields.as_slice()].concat());
    assert!(added.contains('-'), "{added}");
}

#[tokio::test]
async fn a_04_a_stream_has_exactly_the_name_that_a_stranger_uses() {
    for (template, stream) in [
        ("{topic}", "domain.user.activity"),
        ("tasteam:{topic}", "tasteam:domain.user.activity"),
    ] {
        let site = own(&[], named(template, options())).await;
        add_as_stranger(&site, stream, 0); // before Postroom knows the topic
        let mut member = join(&site.broker, "group", TOPIC).await;
        assert_eq!(receive(&mut member, 1).await, [0]);
        publish(&site.broker, TOPIC, &entries(1, 2, 1, 10)).await;
        add_as_stranger(&site, stream, 2);
        assert_eq!(receive(&mut member, 2).await, [1, 2], "{template}");
        assert_eq!(site.client().await.xlen(stream).await.unwrap(), 3, "{template}");
        let helpers = ["leases:group", "partitions"].map(|key| format!("{{{stream}}}:{key}"));
        let mut expected = vec![stream.to_owned()];
        expected.extend(helpers);
        expected.sort();
        assert_eq!(keys(&site).await, expected, "{template}");
    }
}

#[tokio::test]
async fn dead_letters_are_copied_beside_a_stream_with_its_own_name() {
    let site = own(&[], named("{topic}", options())).await;
    site.broker.bury(&letter(TOPIC)).await.unwrap();
    let mut client = site.client().await;
    let letters: StreamRangeReply = client.xrange_all("{domain.user.activity}:dead").await.unwrap();
    assert_eq!(letters.ids[0].get::<String>("postroom-error").unwrap(), "no");
    assert_eq!(keys(&site).await, ["{domain.user.activity}:dead"]);
}

#[tokio::test]
async fn the_entries_of_a_member_that_dies_are_reclaimed_from_a_stream_with_its_own_name() {
    let site = shared().await;
    let options = named("{topic}", short_lease());
    let broker = Redis::open(&site.url, options.clone()).unwrap();
    let (topic, group) = (name(TOPIC), name("group"));
    publish(&broker, &topic, &entries(0, 30, 5, 10)).await;
    let taken = receive_and_crash((site.url.clone(), options), group.clone(), topic.clone(), 30).await;
    assert_eq!(taken.len(), 30);
    add_as_stranger(&site, &topic, 30);
    let pending = broker.lag(&group, std::slice::from_ref(&topic)).await.unwrap();
    assert_eq!(pending.iter().map(|lag| lag.pending).collect::<Vec<_>>(), [30]);
    let mut successor = join(&broker, &group, &topic).await;
    let came = receive(&mut successor, 31).await;
    assert_whole(&came, 31, 5);
}

/// One stream has one member at a time: the next one gets it, with what is pending, when the first one leaves.
#[tokio::test]
async fn a_member_hands_over_a_stream_with_its_own_name() {
    let site = shared().await;
    let broker = Redis::open(&site.url, named("{topic}", short_lease())).unwrap();
    let (topic, group) = (name(TOPIC), name("group"));
    publish(&broker, &topic, &entries(0, 10, 2, 10)).await;
    let mut first = join(&broker, &group, &topic).await;
    let messages: Vec<Message> = next(&mut first, 100).await;
    first.ack(&marks(&messages[..4])).await.unwrap();
    let mut second = join(&broker, &group, &topic).await;
    let idle = timeout(LEASE * 2, second.next(10)).await;
    assert!(idle.is_err(), "two members have the stream: {idle:?}");
    drop(first);
    let rest = timeout(PATIENCE, second.next(100)).await.unwrap().unwrap();
    assert_eq!(rest.iter().map(number).collect::<Vec<_>>(), (4..10).collect::<Vec<_>>());
}

/// A topic that was created with several partitions would be one stream several times.
#[tokio::test]
async fn several_partitions_of_one_stream_are_refused() {
    let four = Options {
        partitions: 4,
        ..named("{topic}", options())
    };
    let error = Redis::open("redis://a", four).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("set partitions to 1"), "{error}");
    let site = own(&[], named("{topic}", options())).await;
    let error = site.broker.create(TOPIC, 2).await.unwrap_err();
    assert!(error.to_string().contains("has 2 partitions"), "{error}");
    let mut client = site.client().await;
    client.set("{domain.user.activity}:partitions", "2").await.unwrap();
    let topics = [TOPIC.to_owned()];
    let error = site
        .broker
        .subscribe(Join::new("group", &topics, Start::Head))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("has 2 partitions"), "{error}");
}
