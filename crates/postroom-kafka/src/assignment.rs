//! The partitions assigned to a member, with their buffered messages and their messages in flight. The member and its polling
//! thread share it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postroom::{Error, ErrorKind, Mark, Message, Result};
use tokio::sync::Notify;

use crate::client::lock;

/// Limits of the buffer, in messages and in bytes.
const BUFFER_MAX: usize = 1000;
const BUFFER_BYTES_MAX: usize = 16 << 20;

/// A topic and the number of one of its partitions.
pub(crate) type TopicPartition = (String, i32);

/// The state of a member's assigned partitions.
#[derive(Debug, Default)]
pub(crate) struct Assignment {
    state: Mutex<State>,
    /// Signals a new message or an error to [`Assignment::take`].
    arrived: Notify,
    /// Signals the polling thread: messages were taken, acknowledged or returned, or the member leaves.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    buffered: VecDeque<Message>,
    buffered_bytes: usize,
    /// Messages in flight by assigned partition, in order of their offsets. Every assigned partition has an entry.
    in_flight: HashMap<TopicPartition, VecDeque<InFlight>>,
    /// Offsets to seek back to. Until then new messages of the partition are ignored.
    rewinds: HashMap<TopicPartition, i64>,
    /// Number of commits in progress.
    commits: usize,
    failure: Option<Error>,
    is_leaving: bool,
}

/// A message that the subscriber has taken.
#[derive(Debug)]
struct InFlight {
    offset: i64,
    is_acknowledged: bool,
}

/// Offsets to commit (the next one of each partition that advanced), and partitions that are no longer assigned to the member.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    pub(crate) commit: Vec<(TopicPartition, i64)>,
    pub(crate) revoked: Vec<TopicPartition>,
}

impl Assignment {
    /// Waits for messages and takes at most `max` of them. The rest stays in the buffer.
    pub(crate) async fn take(&self, max: usize) -> Result<Vec<Message>> {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            let messages = lock(&self.state).take(max)?;
            if !messages.is_empty() || max == 0 {
                self.changed.notify_all();
                return Ok(messages);
            }
            arrived.await;
        }
    }

    /// Buffers a message. Ignores it if its partition is not assigned or has a pending rewind.
    pub(crate) fn push(&self, message: Message) {
        let Some((partition, _)) = position(&message.mark) else {
            return;
        };
        let mut state = lock(&self.state);
        if state.in_flight.contains_key(&partition) && !state.rewinds.contains_key(&partition) {
            state.buffered_bytes += message.body.len();
            state.buffered.push_back(message);
            drop(state);
            self.arrived.notify_waiters();
        }
    }

    /// Makes the next call of [`Assignment::take`] fail with this error.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.state).failure.get_or_insert(error);
        self.arrived.notify_waiters();
    }

    /// Marks messages as acknowledged and returns the offsets to commit. The caller must call [`Assignment::commit_finished`].
    pub(crate) fn acknowledge(&self, marks: &[Mark]) -> Acknowledged {
        let mut state = lock(&self.state);
        state.commits += 1;
        state.acknowledge(marks)
    }

    /// Keeps only the offsets of partitions that are still assigned.
    pub(crate) fn still_assigned(&self, commit: &[(TopicPartition, i64)]) -> Vec<(TopicPartition, i64)> {
        let state = lock(&self.state);
        let assigned = commit
            .iter()
            .filter(|(partition, _)| state.in_flight.contains_key(partition));
        assigned.cloned().collect()
    }

    /// A commit has succeeded or failed.
    pub(crate) fn commit_finished(&self) {
        lock(&self.state).commits -= 1;
        self.changed.notify_all();
    }

    /// Returns messages: they are received again, with all that follow them in their partitions.
    pub(crate) fn rewind(&self, marks: &[Mark]) {
        let mut state = lock(&self.state);
        for (partition, offset) in marks.iter().filter_map(position) {
            state.rewind(&partition, offset);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Pending rewinds: partitions with the offset to seek back to.
    pub(crate) fn rewinds(&self) -> Vec<(TopicPartition, i64)> {
        let state = lock(&self.state);
        state
            .rewinds
            .iter()
            .map(|(partition, offset)| (partition.clone(), *offset))
            .collect()
    }

    /// The consumer has sought back to this offset.
    pub(crate) fn rewound(&self, partition: &TopicPartition, offset: i64) {
        let mut state = lock(&self.state);
        if state.rewinds.get(partition) == Some(&offset) {
            state.rewinds.remove(partition);
        }
    }

    /// Adds newly assigned partitions.
    pub(crate) fn add(&self, partitions: Vec<TopicPartition>) {
        let mut state = lock(&self.state);
        for partition in partitions {
            state.in_flight.entry(partition).or_default();
        }
    }

    /// Removes revoked partitions. Blocks until their messages in flight are acknowledged, at most until the timeout.
    pub(crate) fn revoke(&self, partitions: &HashSet<TopicPartition>, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.state);
        state.discard_buffered(partitions);
        state.rewinds.retain(|partition, _| !partitions.contains(partition));
        while state.has_unfinished(partitions) && !state.is_leaving {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.in_flight.retain(|partition, _| !partitions.contains(partition));
    }

    /// Whether the buffer has room. Waits for it until the timeout.
    pub(crate) fn has_room(&self, timeout: Duration) -> bool {
        let full = |state: &mut State| state.is_full() && !state.is_leaving && state.rewinds.is_empty();
        let waited = self.changed.wait_timeout_while(lock(&self.state), timeout, full);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_full()
    }

    /// The member leaves the group. Ends all waiting.
    pub(crate) fn leave(&self) {
        lock(&self.state).is_leaving = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_leaving(&self) -> bool {
        lock(&self.state).is_leaving
    }
}

impl State {
    fn take(&mut self, max: usize) -> Result<Vec<Message>> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let count = max.min(self.buffered.len());
        let messages: Vec<Message> = self.buffered.drain(..count).collect();
        for message in &messages {
            self.buffered_bytes -= message.body.len();
            if let Some((partition, offset)) = position(&message.mark) {
                let is_acknowledged = false;
                self.in_flight.entry(partition).or_default().push_back(InFlight {
                    offset,
                    is_acknowledged,
                });
            }
        }
        Ok(messages)
    }

    fn acknowledge(&mut self, marks: &[Mark]) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        let mut moved = HashMap::new();
        for (partition, offset) in marks.iter().filter_map(position) {
            let in_flight = self.in_flight.get_mut(&partition);
            let found = in_flight.and_then(|in_flight| in_flight.iter_mut().find(|message| message.offset == offset));
            match found {
                Some(message) => message.is_acknowledged = true,
                None => acknowledged.revoked.push(partition),
            }
        }
        for (partition, in_flight) in &mut self.in_flight {
            while let Some(first) = in_flight.pop_front_if(|first| first.is_acknowledged) {
                moved.insert(partition.clone(), first.offset + 1);
            }
        }
        acknowledged.commit = moved.into_iter().collect();
        acknowledged
    }

    fn rewind(&mut self, partition: &TopicPartition, offset: i64) {
        let Some(in_flight) = self
            .in_flight
            .get_mut(partition)
            .filter(|in_flight| in_flight.iter().any(|message| message.offset == offset))
        else {
            return; // revoked: the partition's new member receives it again
        };
        in_flight.retain(|message| message.offset < offset);
        let rewind = self.rewinds.entry(partition.clone()).or_insert(offset);
        *rewind = offset.min(*rewind);
        self.discard_buffered(&HashSet::from([partition.clone()]));
    }

    fn discard_buffered(&mut self, partitions: &HashSet<TopicPartition>) {
        self.buffered
            .retain(|message| position(&message.mark).is_none_or(|(partition, _)| !partitions.contains(&partition)));
        self.buffered_bytes = self.buffered.iter().map(|message| message.body.len()).sum();
    }

    fn has_unfinished(&self, partitions: &HashSet<TopicPartition>) -> bool {
        let is_out = |partition| {
            self.in_flight
                .get(partition)
                .is_some_and(|in_flight| !in_flight.is_empty())
        };
        self.commits > 0 || partitions.iter().any(is_out)
    }

    fn is_full(&self) -> bool {
        self.buffered.len() >= BUFFER_MAX || self.buffered_bytes >= BUFFER_BYTES_MAX
    }
}

/// The partition and offset in a mark of this broker.
fn position(mark: &Mark) -> Option<(TopicPartition, i64)> {
    match mark {
        Mark::Offset {
            topic,
            partition,
            offset,
        } => Some(((topic.clone(), *partition), *offset)),
        Mark::Tag(_) | Mark::Id { .. } => None,
    }
}

/// The error for acknowledging messages of revoked partitions.
pub(crate) fn partitions_revoked(revoked: &[TopicPartition]) -> Error {
    let mut names: Vec<String> = revoked
        .iter()
        .map(|(topic, partition)| format!("{topic}/{partition}"))
        .collect();
    names.sort();
    names.dedup();
    let names = names.join(", ");
    Error::new(
        ErrorKind::Conflict,
        format!(
            "not acknowledged: {names} was assigned to another member of the group, which receives the messages again"
        ),
    )
}
