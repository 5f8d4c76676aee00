//! Joining a group: the topics exist, every partition has an offset to begin at, and only then the member joins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use postroom::{Error, ErrorKind, Result, Start, Subscription};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::client::{Shared, Voice, missing_words, partitions_of};
use crate::error::{failed, is_moving, is_rebalancing};
use crate::hand::{Hand, Place};
use crate::member::{Consumer, Member};
use crate::rebalance::Sharing;

/// What a member is told. One that dies is missed after 10 s; one that lives is never thrown out, because its thread polls.
const SETTINGS: [(&str, &str); 11] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("isolation.level", "read_committed"),
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("session.timeout.ms", "10000"),
    ("heartbeat.interval.ms", "2000"),
    ("topic.metadata.refresh.interval.ms", "30000"),
    ("queued.min.messages", "20000"),
    ("fetch.queue.backoff.ms", "20"), // the default waits a second once so many messages are there
    ("queued.max.messages.kbytes", "16384"),
    ("fetch.wait.max.ms", "250"),
];

/// So long it is until a coordinator that is nowhere is looked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// Joins a group.
pub(crate) async fn join(
    shared: &Arc<Shared>,
    group: &str,
    topics: &[String],
    start: Start,
) -> Result<Box<dyn Subscription>> {
    let doing = format!("join the group {group}");
    let (with, group, topics) = (Arc::clone(shared), group.to_owned(), topics.to_vec());
    let joined = shared.blocking(&doing, move || begin(&with, &group, &topics, start));
    let (hand, consumer) = joined.await?;
    Ok(Box::new(Member::new(Arc::clone(shared), hand, consumer)))
}

fn begin(shared: &Shared, group: &str, topics: &[String], start: Start) -> Result<(Arc<Hand>, Consumer)> {
    let starts = Clerk::new(shared, group)?.begin(topics, start)?;
    let hand = Arc::new(Hand::default());
    let sharing = Sharing {
        hand: Arc::clone(&hand),
        starts,
        answer_max: shared.answer_max,
    };
    let mut settings = SETTINGS.to_vec();
    settings.push(("group.id", group));
    settings.push(("auto.offset.reset", reset(shared.lost)));
    let consumer = shared.consumer(&settings, sharing)?;
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    consumer
        .subscribe(&names)
        .map_err(|source| failed(format!("subscribe to {names:?}"), source))?;
    Ok((hand, consumer))
}

/// How far the group is. A coordinator that moves, or that a new cluster is about to name, is asked again meanwhile.
#[expect(
    clippy::disallowed_methods,
    reason = "runs on a thread that may block, like the question itself"
)]
pub(crate) fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &TopicPartitionList,
    answer_max: Duration,
) -> KafkaResult<TopicPartitionList> {
    let deadline = Instant::now() + answer_max;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match consumer.committed_offsets(partitions.clone(), left) {
            Err(error) if is_moving(&error) && left > PAUSE * 2 => thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

/// How Kafka calls it.
fn reset(lost: Start) -> &'static str {
    match lost {
        Start::Beginning => "earliest",
        Start::Head => "latest",
    }
}

/// Looks after the offsets of a group without being a member of it.
pub(crate) struct Clerk<'a> {
    shared: &'a Shared,
    group: &'a str,
    consumer: BaseConsumer<Voice>,
}

impl<'a> Clerk<'a> {
    pub(crate) fn new(shared: &'a Shared, group: &'a str) -> Result<Self> {
        Ok(Self {
            shared,
            group,
            consumer: shared.clerk(group)?,
        })
    }

    /// Gives an offset to every partition that has none; answers those offsets. In a topic that the group knows already such a
    /// partition is newer than the group, so that it begins at its beginning.
    fn begin(&self, topics: &[String], start: Start) -> Result<HashMap<Place, i64>> {
        let offsets = self.offsets(topics)?;
        let known = offsets.iter().filter(|(_, offset)| offset.is_some());
        let known: HashSet<&str> = known.map(|((topic, _), _)| topic.as_str()).collect();
        let mut starts = HashMap::new();
        for (place, _) in offsets.iter().filter(|(_, offset)| offset.is_none()) {
            let (low, high) = self.ends(place)?;
            let offset = match start {
                Start::Head if !known.contains(place.0.as_str()) => high,
                Start::Head | Start::Beginning => low,
            };
            starts.insert(place.clone(), offset);
        }
        self.commit(&starts)?;
        Ok(starts)
    }

    /// Every partition of these topics, with how far the group is.
    pub(crate) fn offsets(&self, topics: &[String]) -> Result<Vec<(Place, Option<i64>)>> {
        let mut partitions = TopicPartitionList::new();
        for topic in topics {
            let numbers = partitions_of(self.consumer.client(), topic, self.shared.answer_max)?;
            if numbers.is_empty() {
                return Err(Error::new(ErrorKind::NotFound, missing_words(topic)));
            }
            for number in numbers {
                partitions.add_partition(topic, number);
            }
        }
        let committed = committed(&self.consumer, &partitions, self.shared.answer_max)
            .map_err(|source| failed(format!("ask how far the group {} is", self.group), source))?;
        let offset_of = |offset| match offset {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        let offsets = committed.to_topic_map().into_iter();
        Ok(offsets.map(|(place, offset)| (place, offset_of(offset))).collect())
    }

    /// The oldest offset of a partition, and the one that the next message to be seen will have.
    pub(crate) fn ends(&self, (topic, partition): &Place) -> Result<(i64, i64)> {
        self.consumer
            .fetch_watermarks(topic, *partition, self.shared.answer_max)
            .map_err(|source| failed(format!("ask for the ends of {topic}/{partition}"), source))
    }

    fn commit(&self, starts: &HashMap<Place, i64>) -> Result<()> {
        if starts.is_empty() {
            return Ok(());
        }
        let mut offsets = TopicPartitionList::new();
        for ((topic, partition), offset) in starts {
            let added = offsets.add_partition_offset(topic, *partition, Offset::Offset(*offset));
            added.map_err(|source| failed("begin a group", source))?;
        }
        match self.consumer.commit(&offsets, CommitMode::Sync) {
            // The group has members: whoever gets such a partition commits where it begins.
            Err(error) if is_rebalancing(&error) => Ok(()),
            committed => committed.map_err(|source| failed(format!("begin the group {}", self.group), source)),
        }
    }
}
