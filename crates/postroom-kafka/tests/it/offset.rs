//! Offsets: where groups begin, how far they are, and what is committed.

use std::time::Duration;

use postroom::{Broker as _, Mark, Message, Mode, Ordering, Start, Subscription};
use rdkafka::Message as _;

use crate::publish::{deliver, entry, letters, name, topic};
use crate::site::KafkaSite;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn marks(messages: &[Message]) -> Vec<Mark> {
    messages.iter().map(|message| message.mark.clone()).collect()
}

/// So many messages, not acknowledged.
async fn take(member: &mut Box<dyn Subscription>, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let next = tokio::time::timeout(PATIENCE, member.next(count - messages.len())).await;
        messages.extend(next.unwrap().unwrap());
    }
    messages
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

/// What is acknowledged out of turn is not committed before what came before it.
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

/// A member that is not asked keeps its place in the group, makes room for another, and hands out everything later.
#[tokio::test]
async fn a_member_that_is_not_asked_stays() {
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
    // From here on it is not asked. It holds all it can, and still takes part when the group is shared out.
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

/// Partitions that are added later are read from their beginning, also by a group that began at the head.
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
    let mut came: Vec<i64> = messages
        .iter()
        .map(|message| message.event().unwrap())
        .map(|event| {
            let value: serde_json::Value = event.decode().unwrap();
            value["n"].as_i64().unwrap()
        })
        .collect();
    came.sort_unstable();
    assert!(came.into_iter().eq(5..45));
}
