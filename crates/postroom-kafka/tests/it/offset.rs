//! Start offsets, lag and committed offsets of groups.

use std::time::Duration;

use postroom::{Broker as _, Entry, Event, Mark, Message, Mode, Ordering, Start, Subscription};
use postroom_kafka::{Kafka, Options};
use postroom_testkit::fresh;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::{Message as _, Offset, TopicPartitionList};

use crate::pipeline::{OrderPaid, Pipeline};
use crate::publish::{deliver, entry, letters, name, topic};
use crate::sales::{Sales, sold, start_consumer};
use crate::site::KafkaSite;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn marks(messages: &[Message]) -> Vec<Mark> {
    messages.iter().map(|message| message.mark.clone()).collect()
}

/// Receives this many messages without acknowledging them.
async fn take(member: &mut Box<dyn Subscription>, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let next = tokio::time::timeout(PATIENCE, member.next(count - messages.len())).await;
        messages.extend(next.unwrap().unwrap());
    }
    messages
}

fn number(message: &Message) -> i64 {
    let value: serde_json::Value = message.event().unwrap().decode().unwrap();
    value["n"].as_i64().unwrap()
}

async fn fill(site: &KafkaSite, name: &str, numbers: std::ops::Range<i64>) {
    let entries: Vec<_> = numbers.map(|n| entry(n, &format!("key-{}", n % 5), 10)).collect();
    let publisher = site.kafka.publisher(topic(name), Mode::Binary);
    let receipts = deliver(&*publisher, &entries, Ordering::Key).await;
    assert!(!letters(&receipts).contains(|letter| letter != '+'), "{receipts:?}");
}

#[tokio::test]
async fn lag_counts_what_is_not_acknowledged() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 3, &[]).await;
    fill(&site, &name, 0..20).await;
    assert_eq!(site.behind(&name, &name).await, 20, "never joined");
    let mut member = site.join(&name, &name, Start::Beginning).await;
    let messages = take(&mut member, 20).await;
    assert_eq!(site.behind(&name, &name).await, 20, "nothing acknowledged");
    member.ack(&marks(&messages)).await.unwrap();
    assert_eq!(site.behind(&name, &name).await, 0);
    fill(&site, &name, 20..27).await;
    assert_eq!(site.behind(&name, &name).await, 7);
    let head = format!("{name}-head");
    drop(site.join(&head, &name, Start::Head).await);
    assert_eq!(site.behind(&head, &name).await, 0, "began at the head");
}

/// The committed offset never passes an unacknowledged message.
#[tokio::test]
async fn a_gap_is_not_committed() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 1, &[]).await;
    fill(&site, &name, 0..10).await;
    let mut member = site.join(&name, &name, Start::Beginning).await;
    let messages = take(&mut member, 10).await;
    member.ack(&marks(&messages[5..])).await.unwrap();
    assert_eq!(site.behind(&name, &name).await, 10);
    member.ack(&marks(&messages[..3])).await.unwrap();
    assert_eq!(site.behind(&name, &name).await, 7);
    member.ack(&marks(&messages[3..5])).await.unwrap();
    assert_eq!(site.behind(&name, &name).await, 0);
}

fn place(message: &Message) -> (i32, i64) {
    match &message.mark {
        Mark::Offset { partition, offset, .. } => (*partition, *offset),
        other => panic!("{other:?}"),
    }
}

/// A member whose `next` is not called stays in the group, takes part in rebalances, and returns all its messages later.
#[tokio::test]
async fn a_member_that_does_not_poll_stays_in_the_group() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 2, &[]).await;
    fill(&site, &name, 0..6000).await;
    let mut sizes = [0, 0];
    for message in site.read(&name, "read_committed").await {
        sizes[usize::try_from(message.partition()).unwrap()] += 1;
    }
    let mut idle = site.join(&name, &name, Start::Beginning).await;
    let mut messages = take(&mut idle, 1).await;
    idle.ack(&marks(&messages)).await.unwrap();
    // From here on `next` is not called. The buffer fills up, and the member still takes part in the rebalance.
    let mut other = site.join(&name, &name, Start::Beginning).await;
    let mut of_other = take(&mut other, 1).await;
    let (partition, begun) = place(&of_other[0]);
    let share = sizes[usize::try_from(partition).unwrap()] - usize::try_from(begun).unwrap();
    of_other.extend(take(&mut other, share - 1).await);
    let of_idle = take(&mut idle, 6000 - 1 - share).await;
    other.ack(&marks(&of_other)).await.unwrap();
    idle.ack(&marks(&of_idle)).await.unwrap();
    messages.extend(of_idle.into_iter().chain(of_other));
    for (partition, size) in (0..).zip(sizes) {
        let places = messages.iter().map(place).filter(|place| place.0 == partition);
        let all = 0..i64::try_from(size).unwrap();
        assert!(places.map(|place| place.1).eq(all), "in order, each once");
    }
    assert_eq!(site.behind(&name, &name).await, 0);
}

/// A group reads added partitions from their oldest message, even if it started at the head.
#[tokio::test]
async fn a_new_partition_is_read_from_its_beginning() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 1, &[]).await;
    fill(&site, &name, 0..5).await;
    drop(site.join(&name, &name, Start::Head).await);
    site.create_with(&name, 6, &[]).await;
    let added = format!("{name}-added");
    drop(site.join(&added, &name, Start::Beginning).await);
    fill(&site, &name, 5..45).await;
    let mut member = site.join(&name, &name, Start::Beginning).await;
    let messages = take(&mut member, 40).await;
    let mut came: Vec<i64> = messages.iter().map(number).collect();
    came.sort_unstable();
    assert!(came.into_iter().eq(5..45));
}

/// A group that rejoins reads partitions that were added in its absence from their oldest message.
#[tokio::test]
async fn a_partition_that_came_while_the_group_was_away_is_read_from_its_beginning() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 3, &[]).await;
    fill(&site, &name, 0..5).await;
    drop(site.join(&name, &name, Start::Head).await);
    site.create_with(&name, 6, &[]).await;
    fill(&site, &name, 5..45).await;
    let of_new = site.read(&name, "read_committed").await;
    assert!(
        of_new.iter().any(|message| message.partition() >= 3),
        "some are in new partitions"
    );
    let mut member = site.join(&name, &name, Start::Head).await;
    let mut came: Vec<i64> = take(&mut member, 40).await.iter().map(number).collect();
    came.sort_unstable();
    assert!(came.into_iter().eq(5..45));
}

/// A group without committed offsets starts at the head by default. Its own relay publishes only after the group has joined,
/// so the group misses none of its events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_without_an_offset_begins_at_the_latest_message() {
    let mut pipeline = Pipeline::open(fresh::sqlite().await, KafkaSite::shared()).await;
    let old = |n: i64| Entry {
        event: Event::of(&OrderPaid { n }).unwrap(),
        ..entry(n, "a", 0)
    };
    let elsewhere = pipeline
        .site
        .kafka
        .publisher(topic(&pipeline.topic("order")), Mode::Binary);
    let sent = deliver(&*elsewhere, &[old(1), old(2), old(3)], Ordering::Key).await;
    assert_eq!(letters(&sent), "+++");
    pipeline.orders(4..=6).await;
    start_consumer(&mut pipeline, &Sales::default()).await;
    pipeline
        .until("later events are counted", async || sold(&pipeline).await == [4, 5, 6])
        .await;
    pipeline.stop().await;
}

/// The first message that a group receives after its committed offset 3 was deleted: messages 0 to 7 are deleted, 8 and 9 and
/// later ones exist.
async fn first_after_loss(lost: Start) -> i64 {
    let (mut site, name) = (KafkaSite::shared(), name());
    let options = Options {
        lost,
        ..Options::new(&site.url)
    };
    site.kafka = Kafka::new(&options).unwrap();
    site.create_with(&name, 1, &[]).await;
    fill(&site, &name, 0..10).await;
    let mut member = site.join(&name, &name, Start::Beginning).await;
    let messages = take(&mut member, 3).await;
    member.ack(&marks(&messages)).await.unwrap();
    drop(member);
    let mut deleted = TopicPartitionList::new();
    deleted.add_partition_offset(&name, 0, Offset::Offset(8)).unwrap();
    let admin: AdminClient<DefaultClientContext> = site.client().create().unwrap();
    admin.delete_records(&deleted, &AdminOptions::new()).await.unwrap();
    let mut member = site.join(&name, &name, Start::Beginning).await;
    for n in 10.. {
        fill(&site, &name, n..n + 1).await;
        if let Ok(next) = tokio::time::timeout(Duration::from_millis(500), member.next(1)).await {
            return number(&next.unwrap()[0]);
        }
        assert!(n < 130, "nothing came");
    }
    unreachable!("the loop ends with a message or an assertion")
}

#[tokio::test]
async fn a_lost_offset_goes_on_with_what_comes_by_default() {
    assert_eq!(Options::new("kafka://a:1").lost, Start::Head);
    let first = first_after_loss(Start::Head).await;
    assert!(first >= 10, "{first} is older than the reset");
}

#[tokio::test]
async fn a_lost_offset_goes_on_with_the_oldest_message_if_one_wants() {
    assert_eq!(first_after_loss(Start::Beginning).await, 8);
}

/// A new cluster elects group coordinators on first request; joining waits for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_groups_of_a_cluster_join() {
    let (site, name) = (KafkaSite::private().await, name());
    site.create_with(&name, 1, &[]).await;
    let join = async |n| drop(site.join(&format!("{name}-{n}"), &name, Start::Head).await);
    tokio::join!(join(0), join(1), join(2), join(3));
}
