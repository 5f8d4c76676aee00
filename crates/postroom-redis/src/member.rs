//! A member of a consumer group: fetches entries of its leased partitions, and acknowledges or returns them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use postroom::{Error, ErrorKind, Mark, Message, Result, Start, Subscription};
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::assignment::{Assignment, Cursor, LeasedPartition, TopicPartition};
use crate::broker::Shared;
use crate::connection::{connect, failed};
use crate::id::Id;
use crate::lease_keeper::MemberState;
use crate::names;
use crate::script::{self, Call};

/// A member of a group. Dropping it releases its leases.
#[derive(Debug)]
pub(crate) struct Member {
    state: Arc<MemberState>,
    /// The connection of the blocking read. It is taken out during the read: if the future is dropped, the connection closes and
    /// the server ends the read.
    blocking: Option<BlockingConnection>,
    /// Rotates the topic and the partition that are read first.
    rotation: usize,
    _keeper: DropGuard,
}

/// Entry ids by partition.
type IdsByPartition = BTreeMap<TopicPartition, (LeasedPartition, Vec<Id>)>;

struct BlockingConnection(MultiplexedConnection);

impl std::fmt::Debug for BlockingConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlockingConnection")
    }
}

impl Member {
    pub(crate) async fn join(shared: &Arc<Shared>, group: &str, topics: &[String], start: Start) -> Result<Self> {
        let begin = match start {
            Start::Beginning => "0",
            Start::Head => "$",
        };
        let mut known = Vec::with_capacity(topics.len());
        for topic in topics {
            names::check(topic)?;
            let partitions = shared.partitions(topic, shared.options.partitions).await?;
            shared.create_group(topic, partitions, group, begin).await?;
            known.push((topic.clone(), partitions));
        }
        let state = Arc::new(MemberState {
            shared: Arc::clone(shared),
            member: Uuid::now_v7().to_string(),
            group: group.to_owned(),
            topics: known,
            assignment: Assignment::default(),
            changed: tokio::sync::Notify::new(),
            renewal_error: std::sync::Mutex::default(),
        });
        let stop = CancellationToken::new();
        let keeper = stop.clone().drop_guard();
        state.renew().await?;
        shared.tasks.spawn(Arc::clone(&state).keep_leases(stop));
        Ok(Self {
            state,
            blocking: None,
            rotation: 0,
            _keeper: keeper,
        })
    }

    /// Fetches available entries. There is no await after the first messages, so a dropped future cannot lose them.
    async fn fetch(&mut self, max: usize) -> Result<Vec<Message>> {
        self.rotation = self.rotation.wrapping_add(1);
        let count = self.state.topics.len();
        for step in 0..count {
            let messages = self
                .state
                .fetch((self.rotation + step) % count, self.rotation, max)
                .await?;
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
        Ok(Vec::new())
    }

    /// Waits until a leased partition has new entries.
    async fn wait(&mut self) -> Result<()> {
        const DOING: &str = "wait for entries in Redis";
        let mut held = self.state.assignment.all();
        held.retain(|(_, held)| !held.is_releasing);
        if held.is_empty() {
            return std::future::pending().await; // until `changed` signals new leases
        }
        if held.iter().any(|(_, held)| held.cursor != Cursor::New) {
            return Ok(());
        }
        let (shared, options) = (&self.state.shared, &self.state.shared.options);
        // The server waits for ever if it is told zero.
        let poll = options.poll_timeout.max(Duration::from_millis(1));
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT")
            .arg(1)
            .arg("BLOCK")
            .arg(poll.as_millis().to_string())
            .arg("STREAMS");
        for (place, _) in &held {
            read.arg(self.state.names_of(*place).1);
        }
        for (_, held) in &held {
            read.arg(held.seen.to_string());
        }
        let mut connection = match self.blocking.take() {
            Some(blocking) => blocking.0,
            None => connect(&shared.client, DOING, options.timeout, poll + options.timeout).await?,
        };
        let answer = read.query_async::<Value>(&mut connection).await;
        answer.map_err(|error| failed(DOING, error))?;
        self.blocking = Some(BlockingConnection(connection));
        Ok(())
    }

    /// The ids of these marks by partition, and whether all of them are in flight.
    fn ids_by_partition(&self, marks: &[Mark]) -> (IdsByPartition, bool) {
        let all = self.state.assignment.lock();
        let mut by_partition = IdsByPartition::new();
        let mut is_complete = true;
        for mark in marks {
            let found = self.locate(mark).and_then(|(place, id)| {
                let held = all.get(&place).filter(|held| held.in_flight.contains(&id))?;
                Some((place, held, id))
            });
            match found {
                Some((place, held, id)) => {
                    by_partition
                        .entry(place)
                        .or_insert_with(|| (held.clone(), Vec::new()))
                        .1
                        .push(id);
                }
                None => is_complete = false,
            }
        }
        (by_partition, is_complete)
    }

    fn locate(&self, mark: &Mark) -> Option<(TopicPartition, Id)> {
        let Mark::Id { topic, id } = mark else {
            return None;
        };
        let (partition, id) = id.split_once('/')?;
        let at = self.state.topics.iter().position(|(name, _)| name == topic)?;
        Some(((at, partition.parse().ok()?), id.parse().ok()?))
    }

    /// Acknowledges entries of one partition. Returns whether the lease was still valid.
    async fn ack_of(&self, place: TopicPartition, held: &LeasedPartition, ids: &[Id]) -> Result<bool> {
        let (topic, stream) = self.state.names_of(place);
        let texts: Vec<String> = ids.iter().map(Id::to_string).collect();
        let call = Call::on(&script::ACK, &[self.state.leases(topic), stream])
            .arg(&self.state.group)
            .arg(place.1)
            .arg(&held.token)
            .arg(texts);
        let is_held = self.state.shared.connection.call("acknowledge in Redis", call).await?;
        if is_held {
            self.state.assignment.acknowledged(place, &held.token, ids);
        }
        Ok(is_held)
    }
}

#[async_trait]
impl Subscription for Member {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        let state = Arc::clone(&self.state);
        loop {
            let changed = state.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            state.check_renewal()?;
            let messages = self.fetch(max.max(1)).await?;
            if !messages.is_empty() {
                return Ok(messages);
            }
            tokio::select! {
                () = changed => {}
                waited = self.wait() => waited?,
            }
        }
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        let (by_partition, mut is_complete) = self.ids_by_partition(done);
        let acks = by_partition
            .iter()
            .map(|(place, (held, ids))| self.ack_of(*place, held, ids));
        for is_held in join_all(acks).await {
            is_complete &= is_held?;
        }
        if is_complete {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Conflict,
            "acknowledge in Redis: the lease of the partition was lost to another member, which receives the entries again",
        ))
    }

    /// Only local: the entries stay pending for this member, which fetches them again.
    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        let (by_partition, _lost_anyway) = self.ids_by_partition(back);
        for (place, (_, ids)) in by_partition {
            self.state.assignment.rewind(place, &ids);
        }
        Ok(())
    }
}
