//! Joins a consumer group. Before the member joins, all topics must exist and every partition gets a start offset.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use postroom::{Error, ErrorKind, Result, Start, Subscription};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::assignment::{Assignment, TopicPartition};
use crate::client::{LogContext, Shared, missing_topic_message, partitions_of};
use crate::error::{failed, is_coordinator_unavailable, is_rebalancing};
use crate::member::{Consumer, Member};
use crate::rebalance::RebalanceContext;

/// Consumer settings of a member. The group detects a dead member after 10 s. A live member stays in the group, because its
/// thread polls all the time.
const MEMBER_SETTINGS: [(&str, &str); 11] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("isolation.level", "read_committed"),
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("session.timeout.ms", "10000"),
    ("heartbeat.interval.ms", "2000"),
    ("topic.metadata.refresh.interval.ms", "30000"),
    ("queued.min.messages", "20000"),
    ("fetch.queue.backoff.ms", "20"), // the default is one second after the queue was full
    ("queued.max.messages.kbytes", "16384"),
    ("fetch.wait.max.ms", "250"),
];

/// Retry interval while the group has no coordinator.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Joins a group.
pub(crate) async fn join(
    shared: &Arc<Shared>,
    group: &str,
    topics: &[String],
    start: Start,
) -> Result<Box<dyn Subscription>> {
    let doing = format!("join the group {group}");
    let (with, group, topics) = (Arc::clone(shared), group.to_owned(), topics.to_vec());
    let joined = shared.blocking(&doing, move || start_consumer(&with, &group, &topics, start));
    let (assignment, consumer) = joined.await?;
    Ok(Box::new(Member::new(Arc::clone(shared), assignment, consumer)))
}

fn start_consumer(
    shared: &Shared,
    group: &str,
    topics: &[String],
    start: Start,
) -> Result<(Arc<Assignment>, Consumer)> {
    let start_offsets = GroupOffsets::new(shared, group)?.initialize(topics, start)?;
    let assignment = Arc::new(Assignment::default());
    let sharing = RebalanceContext {
        assignment: Arc::clone(&assignment),
        start_offsets,
        answer_max: shared.answer_max,
    };
    let mut settings = MEMBER_SETTINGS.to_vec();
    settings.push(("group.id", group));
    settings.push(("auto.offset.reset", auto_offset_reset(shared.lost)));
    let consumer = shared.consumer(&settings, sharing)?;
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    consumer
        .subscribe(&names)
        .map_err(|source| failed(format!("subscribe to {names:?}"), source))?;
    Ok((assignment, consumer))
}

/// The group's committed offsets. Retries while the coordinator moves, or while a new cluster elects one.
#[expect(
    clippy::disallowed_methods,
    reason = "runs on a blocking thread, like the driver's call"
)]
pub(crate) fn committed_offsets<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &TopicPartitionList,
    answer_max: Duration,
) -> KafkaResult<TopicPartitionList> {
    let deadline = Instant::now() + answer_max;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match consumer.committed_offsets(partitions.clone(), left) {
            Err(error) if is_coordinator_unavailable(&error) && left > RETRY_INTERVAL * 2 => {
                thread::sleep(RETRY_INTERVAL);
            }
            answer => return answer,
        }
    }
}

/// The value of Kafka's setting.
fn auto_offset_reset(lost: Start) -> &'static str {
    match lost {
        Start::Beginning => "earliest",
        Start::Head => "latest",
    }
}

/// Reads and commits the offsets of a group without joining it.
pub(crate) struct GroupOffsets<'a> {
    shared: &'a Shared,
    group: &'a str,
    consumer: BaseConsumer<LogContext>,
}

impl<'a> GroupOffsets<'a> {
    pub(crate) fn new(shared: &'a Shared, group: &'a str) -> Result<Self> {
        Ok(Self {
            shared,
            group,
            consumer: shared.offset_consumer(group)?,
        })
    }

    /// Commits a start offset for every partition that has none, and returns these offsets. If the group has offsets in other
    /// partitions of the topic, the partition is newer than the group: it starts at its oldest message.
    fn initialize(&self, topics: &[String], start: Start) -> Result<HashMap<TopicPartition, i64>> {
        let offsets = self.offsets(topics)?;
        let known = offsets.iter().filter(|(_, offset)| offset.is_some());
        let known: HashSet<&str> = known.map(|((topic, _), _)| topic.as_str()).collect();
        let mut start_offsets = HashMap::new();
        for (partition, _) in offsets.iter().filter(|(_, offset)| offset.is_none()) {
            let (low, high) = self.watermarks(partition)?;
            let offset = match start {
                Start::Head if !known.contains(partition.0.as_str()) => high,
                Start::Head | Start::Beginning => low,
            };
            start_offsets.insert(partition.clone(), offset);
        }
        self.commit(&start_offsets)?;
        Ok(start_offsets)
    }

    /// Every partition of these topics, with the group's committed offset.
    pub(crate) fn offsets(&self, topics: &[String]) -> Result<Vec<(TopicPartition, Option<i64>)>> {
        let mut partitions = TopicPartitionList::new();
        for topic in topics {
            let numbers = partitions_of(self.consumer.client(), topic, self.shared.answer_max)?;
            if numbers.is_empty() {
                return Err(Error::new(ErrorKind::NotFound, missing_topic_message(topic)));
            }
            for number in numbers {
                partitions.add_partition(topic, number);
            }
        }
        let committed = committed_offsets(&self.consumer, &partitions, self.shared.answer_max)
            .map_err(|source| failed(format!("fetch the offsets of the group {}", self.group), source))?;
        let offset_of = |offset| match offset {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        let offsets = committed.to_topic_map().into_iter();
        Ok(offsets
            .map(|(partition, offset)| (partition, offset_of(offset)))
            .collect())
    }

    /// The oldest offset of a partition, and the offset of its next message.
    pub(crate) fn watermarks(&self, (topic, partition): &TopicPartition) -> Result<(i64, i64)> {
        self.consumer
            .fetch_watermarks(topic, *partition, self.shared.answer_max)
            .map_err(|source| failed(format!("fetch the watermarks of {topic}/{partition}"), source))
    }

    fn commit(&self, start_offsets: &HashMap<TopicPartition, i64>) -> Result<()> {
        if start_offsets.is_empty() {
            return Ok(());
        }
        let mut offsets = TopicPartitionList::new();
        for ((topic, partition), offset) in start_offsets {
            let added = offsets.add_partition_offset(topic, *partition, Offset::Offset(*offset));
            added.map_err(|source| failed(format!("initialize the offsets of the group {}", self.group), source))?;
        }
        match self.consumer.commit(&offsets, CommitMode::Sync) {
            // The group has members: the member that gets such a partition commits its start offset.
            Err(error) if is_rebalancing(&error) => Ok(()),
            committed => committed
                .map_err(|source| failed(format!("initialize the offsets of the group {}", self.group), source)),
        }
    }
}
