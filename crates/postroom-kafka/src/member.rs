//! A member of a group. A thread of its own polls for it, so that a handler may take its time: the group is shared out
//! promptly, and nobody is thrown out for being slow.

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

use crate::client::Shared;
use crate::error::{code, failed, is_rebalancing};
use crate::hand::{Hand, Place, conflict};
use crate::rebalance::Sharing;
use crate::record::message_of;

/// The thread looks up at least this often.
const TICK: Duration = Duration::from_millis(100);
/// Who is not asked for messages for so long stops to fetch.
const PAUSE_AFTER: Duration = Duration::from_secs(1);
/// Between two tries to commit while the group is shared out.
const AGAIN: Duration = Duration::from_millis(100);

/// A consumer in a group.
pub(crate) type Consumer = BaseConsumer<Sharing>;

/// What a subscriber holds of a group. Dropping it leaves the group.
pub(crate) struct Member {
    shared: Arc<Shared>,
    hand: Arc<Hand>,
    consumer: Arc<Consumer>,
    /// The thread that polls. It ends by itself when the member leaves, and leaves the group in order.
    _polling: JoinSet<()>,
}

impl Member {
    pub(crate) fn new(shared: Arc<Shared>, hand: Arc<Hand>, consumer: Consumer) -> Self {
        let consumer = Arc::new(consumer);
        let mut polling = JoinSet::new();
        let (to_poll, to_fill) = (Arc::clone(&consumer), Arc::clone(&hand));
        polling.spawn_blocking(move || poll(&to_poll, &to_fill));
        Self {
            shared,
            hand,
            consumer,
            _polling: polling,
        }
    }

    /// Commits what is still ours. While the group is shared out a commit is refused, and tried again.
    async fn commit(&self, commit: &[(Place, i64)]) -> Result<()> {
        let deadline = Instant::now() + self.shared.answer_max;
        loop {
            let ours = self.hand.still_ours(commit);
            if ours.is_empty() {
                return if commit.is_empty() {
                    Ok(())
                } else {
                    Err(conflict(&places(commit)))
                };
            }
            match self.try_commit(&ours).await? {
                Ok(()) if ours.len() == commit.len() => return Ok(()),
                Ok(()) => return Err(conflict(&places(commit))),
                Err(error) if is_rebalancing(&error) && Instant::now() < deadline => sleep(AGAIN).await,
                Err(error) => return Err(failed("acknowledge messages", error)),
            }
        }
    }

    async fn try_commit(&self, commit: &[(Place, i64)]) -> Result<KafkaResult<()>> {
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
        self.hand.take(max).await
    }

    /// Commits, in each partition, up to the first message that is not acknowledged yet. If a partition has gone to another
    /// member the rest is committed, and the answer is a [`Conflict`](postroom::ErrorKind::Conflict).
    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        let done = self.hand.done(done);
        let ending = Ending(&self.hand);
        let committed = self.commit(&done.commit).await;
        drop(ending);
        committed?;
        if done.lost.is_empty() {
            return Ok(());
        }
        Err(conflict(&done.lost))
    }

    /// Goes back to the first of these in each partition; what was acknowledged behind it comes again too.
    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        self.hand.put_back(back);
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.hand.leave();
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("kafka", &self.shared)
            .finish_non_exhaustive()
    }
}

/// Says that a commit has ended, also when it is cut off.
struct Ending<'a>(&'a Hand);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.committed();
    }
}

fn places(commit: &[(Place, i64)]) -> Vec<Place> {
    commit.iter().map(|(place, _)| place.clone()).collect()
}

/// Polls until the member leaves.
fn poll(consumer: &Consumer, hand: &Hand) {
    let mut is_paused = false;
    while !hand.is_leaving() {
        for (place, offset) in hand.back() {
            go_back(consumer, hand, &place, offset);
        }
        let patience = if is_paused { Duration::ZERO } else { PAUSE_AFTER };
        let has_room = hand.has_room(patience);
        // Partitions may have come since the last pause: those are paused now.
        if (!has_room || is_paused)
            && let Err(source) = pause(consumer, !has_room)
        {
            hand.fail(failed("pause", source));
        }
        is_paused = !has_room;
        match consumer.poll(TICK) {
            Some(Ok(message)) => hand.offer(message_of(&message)),
            Some(Err(error)) => heed(hand, error),
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

fn go_back(consumer: &Consumer, hand: &Hand, place: &Place, offset: i64) {
    match consumer.seek(&place.0, place.1, Offset::Offset(offset), PAUSE_AFTER) {
        Ok(()) => hand.went_back(place, offset),
        Err(source) => hand.fail(failed("go back to messages that were given back", source)),
    }
}

/// An error that the driver does not get over by itself, or not soon, ends the call that waits.
fn heed(hand: &Hand, error: KafkaError) {
    let is_passing = matches!(
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
    if is_passing {
        tracing::debug!(%error, "the driver tries again");
    } else {
        hand.fail(failed("receive messages", error));
    }
}
