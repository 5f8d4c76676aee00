//! A member of a consumer group. Its own thread polls Kafka, so that a slow handler neither delays a rebalance nor removes the
//! member from the group.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Mark, Message, Result, Subscription};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::{Offset, TopicPartitionList};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::assignment::{Assignment, TopicPartition, partitions_revoked};
use crate::client::Shared;
use crate::error::{code, failed, is_rebalancing};
use crate::rebalance::RebalanceContext;
use crate::record::to_message;

/// Timeout of one poll: the thread checks for requests at least this often.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// A member whose buffer stays full for this long pauses fetching.
const PAUSE_AFTER: Duration = Duration::from_secs(1);
/// Retry interval of a commit during a rebalance.
const COMMIT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A consumer in a group.
pub(crate) type Consumer = BaseConsumer<RebalanceContext>;

/// A subscriber's membership in a group. Dropping it leaves the group.
pub(crate) struct Member {
    shared: Arc<Shared>,
    assignment: Arc<Assignment>,
    consumer: Arc<Consumer>,
    /// The polling thread. When the member leaves, it closes the consumer and ends.
    _polling: JoinSet<()>,
}

impl Member {
    pub(crate) fn new(shared: Arc<Shared>, assignment: Arc<Assignment>, consumer: Consumer) -> Self {
        let consumer = Arc::new(consumer);
        let mut polling = JoinSet::new();
        let (polled, filled) = (Arc::clone(&consumer), Arc::clone(&assignment));
        polling.spawn_blocking(move || poll(&polled, &filled));
        Self {
            shared,
            assignment,
            consumer,
            _polling: polling,
        }
    }

    /// Commits offsets of partitions that are still assigned. Kafka refuses commits during a rebalance: retries them.
    async fn commit(&self, commit: &[(TopicPartition, i64)]) -> Result<()> {
        let deadline = Instant::now() + self.shared.answer_max;
        loop {
            let assigned = self.assignment.still_assigned(commit);
            if assigned.is_empty() {
                return if commit.is_empty() {
                    Ok(())
                } else {
                    Err(partitions_revoked(&partitions(commit)))
                };
            }
            match self.try_commit(&assigned).await? {
                Ok(()) if assigned.len() == commit.len() => return Ok(()),
                Ok(()) => return Err(partitions_revoked(&partitions(commit))),
                Err(error) if is_rebalancing(&error) && Instant::now() < deadline => sleep(COMMIT_RETRY_INTERVAL).await,
                Err(error) => return Err(failed("acknowledge messages", error)),
            }
        }
    }

    async fn try_commit(&self, commit: &[(TopicPartition, i64)]) -> Result<KafkaResult<()>> {
        let mut offsets = TopicPartitionList::new();
        for ((topic, partition), offset) in commit {
            let added = offsets.add_partition_offset(topic, *partition, Offset::Offset(*offset));
            added.map_err(|source| failed("acknowledge messages", source))?;
        }
        let consumer = Arc::clone(&self.consumer);
        let call = move || Ok(consumer.commit(&offsets, CommitMode::Sync));
        self.shared.blocking("acknowledge messages", call).await
    }
}

#[async_trait]
impl Subscription for Member {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        self.assignment.take(max).await
    }

    /// Commits each partition up to its first unacknowledged message. If a partition was revoked, commits the others and returns
    /// a [`Conflict`](postroom::ErrorKind::Conflict).
    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        let done = self.assignment.acknowledge(done);
        let guard = CommitGuard(&self.assignment);
        let committed = self.commit(&done.commit).await;
        drop(guard);
        committed?;
        if done.revoked.is_empty() {
            return Ok(());
        }
        Err(partitions_revoked(&done.revoked))
    }

    /// Seeks back to the first of these messages in each partition. Later messages are received again, also acknowledged ones.
    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        self.assignment.rewind(back);
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.assignment.leave();
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("kafka", &self.shared)
            .finish_non_exhaustive()
    }
}

/// Reports the end of a commit, also when its future is dropped.
struct CommitGuard<'a>(&'a Assignment);

impl Drop for CommitGuard<'_> {
    fn drop(&mut self) {
        self.0.commit_finished();
    }
}

fn partitions(commit: &[(TopicPartition, i64)]) -> Vec<TopicPartition> {
    commit.iter().map(|(partition, _)| partition.clone()).collect()
}

/// Polls until the member leaves.
fn poll(consumer: &Consumer, assignment: &Assignment) {
    let mut is_paused = false;
    while !assignment.is_leaving() {
        for (partition, offset) in assignment.rewinds() {
            seek_back(consumer, assignment, &partition, offset);
        }
        let timeout = if is_paused { Duration::ZERO } else { PAUSE_AFTER };
        let has_room = assignment.has_room(timeout);
        // Pauses partitions again: new ones may have been assigned since the last pause.
        if (!has_room || is_paused)
            && let Err(source) = pause(consumer, !has_room)
        {
            assignment.fail(failed("pause or resume partitions", source));
        }
        is_paused = !has_room;
        match consumer.poll(POLL_TIMEOUT) {
            Some(Ok(message)) => assignment.push(to_message(&message)),
            Some(Err(error)) => handle_poll_error(assignment, error),
            None => {}
        }
    }
}

fn pause(consumer: &Consumer, is_pause: bool) -> KafkaResult<()> {
    let assigned = consumer.assignment()?;
    if is_pause {
        consumer.pause(&assigned)
    } else {
        consumer.resume(&assigned)
    }
}

fn seek_back(consumer: &Consumer, assignment: &Assignment, partition: &TopicPartition, offset: i64) {
    match consumer.seek(&partition.0, partition.1, Offset::Offset(offset), PAUSE_AFTER) {
        Ok(()) => assignment.rewound(partition, offset),
        Err(source) => assignment.fail(failed("seek back to returned messages", source)),
    }
}

/// Ignores errors after which the driver reconnects. Reports all others to the subscriber.
fn handle_poll_error(assignment: &Assignment, error: KafkaError) {
    let is_transient = matches!(
        code(&error),
        Some(
            Code::BrokerTransportFailure
                | Code::Resolve
                | Code::OperationTimedOut
                | Code::CoordinatorLoadInProgress
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::WaitingForCoordinator
        )
    );
    if is_transient {
        tracing::debug!(%error, "transient consumer error; the driver retries");
    } else {
        assignment.fail(failed("receive messages", error));
    }
}
