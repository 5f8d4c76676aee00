//! Publishes the batches of a route to the streams of their topics, by plain commands or by a script.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::join_all;
use postroom::{Batch, Destination, Error, ErrorKind, Mode, Receipt, Result, Topic};
use redis::{Cmd, FromRedisValue, RedisResult, Value};

use crate::broker::Shared;
use crate::connection::{Connection, failed, kind_of};
use crate::fields;
use crate::publish_plan::{PlannedEntry, PublishPlan, TopicBatch};
use crate::script::{self, Call};

/// A topic is trimmed after this many entries.
const TRIM_AFTER: usize = 10_000;
/// Maximum number of attempts when the topic's number of partitions has changed.
const ATTEMPTS_MAX: usize = 3;

const DOING: &str = "publish to Redis";

/// A publisher with its own connection.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Connection,
    pub(crate) topic: Topic,
    pub(crate) mode: Mode,
    pub(crate) topics: Mutex<HashMap<String, TopicState>>,
}

/// Cached state of a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicState {
    partitions: u16,
    /// The script has confirmed the number of partitions.
    is_verified: bool,
    since_trim: usize,
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let mut plan = PublishPlan::of(batch, &self.topic, &self.mode);
        loop {
            let batches = plan.next_round();
            if batches.is_empty() {
                return plan.finish();
            }
            let sent = join_all(batches.iter().map(|topic_batch| self.send(&plan, topic_batch))).await;
            for (topic_batch, answer) in batches.iter().zip(sent) {
                match answer {
                    Ok(answers) => plan.record(topic_batch, answers),
                    Err(error) => plan.record_failure(topic_batch, &refusal(error.kind(), error.report())),
                }
            }
        }
    }
}

impl Publisher {
    /// Adds the entries of a request to their streams, and returns one receipt each.
    async fn send(&self, plan: &PublishPlan<'_>, topic_batch: &TopicBatch) -> Result<Vec<Receipt>> {
        let planned_entries: Vec<&PlannedEntry<'_>> = plan.planned_entries(topic_batch).collect();
        if topic_batch.is_deep || !self.topic_state(&topic_batch.topic).is_verified {
            return self.add_by_script(topic_batch, &planned_entries).await;
        }
        let mut answers = self.add_by_commands(topic_batch, &planned_entries).await?;
        let mut unsent = planned_entries;
        let mut open = answers.iter().map(Option::is_none);
        unsent.retain(|_| open.next().unwrap_or(true));
        if !unsent.is_empty() {
            let mut receipts = self.add_by_script(topic_batch, &unsent).await?.into_iter();
            let open = answers.iter_mut().filter(|answer| answer.is_none());
            open.for_each(|answer| *answer = receipts.next());
        }
        let settle = |answer: Option<Receipt>| answer.unwrap_or(Receipt::Held);
        Ok(answers.into_iter().map(settle).collect())
    }

    /// Adds entries of different lanes by plain commands. Returns no receipt for entries whose stream does not exist. Only the
    /// script creates streams, because it checks the number of partitions. If the topic was created again with another number,
    /// this function adds nothing to an unread stream, and the next request uses the script.
    async fn add_by_commands(
        &self,
        topic_batch: &TopicBatch,
        planned_entries: &[&PlannedEntry<'_>],
    ) -> Result<Vec<Option<Receipt>>> {
        let partitions = self.topic_state(&topic_batch.topic).partitions;
        let streams = self.shared.names.streams(&topic_batch.topic, partitions);
        let mut commands = Vec::with_capacity(planned_entries.len() + 1);
        for planned in planned_entries {
            let stream = streams.get(usize::from(partition(planned, partitions)));
            let fields = fields::of_entry(planned, &self.mode);
            let bytes = fields.bytes() + stream.map_or(0, String::len);
            let mut xadd = Cmd::with_capacity(fields.len() * 2 + 4, bytes + 32);
            xadd.arg("XADD").arg(stream).arg("NOMKSTREAM").arg("*");
            fields.write(&mut xadd);
            commands.push(xadd);
        }
        let mut get = redis::cmd("GET");
        get.arg(self.shared.names.partitions(&topic_batch.topic));
        commands.push(get);
        let mut answers = self
            .connection
            .commands(DOING, commands, self.shared.options.replicas)
            .await?;
        let found = answers
            .pop()
            .and_then(|answer| u16::from_redis_value(answer.ok()?).ok());
        let answered = planned_entries.iter().zip(answers);
        let receipt = |(planned, answer): (&&PlannedEntry<'_>, _)| planned.rejection().or_else(|| receipt_of(answer));
        let receipts: Vec<Option<Receipt>> = answered.map(receipt).collect();
        let is_verified = found == Some(partitions) && receipts.iter().all(Option::is_some);
        self.update(&topic_batch.topic, |known| known.is_verified = is_verified);
        self.trim(&topic_batch.topic, receipts.len()).await;
        Ok(receipts)
    }

    /// Adds entries with the script.
    async fn add_by_script(
        &self,
        topic_batch: &TopicBatch,
        planned_entries: &[&PlannedEntry<'_>],
    ) -> Result<Vec<Receipt>> {
        for _ in 0..ATTEMPTS_MAX {
            let partitions = self.topic_state(&topic_batch.topic).partitions;
            let answer = self
                .call_script(self.script_call(topic_batch, planned_entries, partitions))
                .await?;
            if let Value::Int(other) = answer {
                let partitions = u16::try_from(other).unwrap_or(partitions).max(1);
                self.update(&topic_batch.topic, |known| known.partitions = partitions);
                continue;
            }
            self.update(&topic_batch.topic, |known| known.is_verified = true);
            let receipts = self.receipts(topic_batch, planned_entries, partitions, answer);
            self.trim(&topic_batch.topic, receipts.len()).await;
            return Ok(receipts);
        }
        Err(Error::new(
            ErrorKind::Failed,
            format!(
                "the topic {} changed its number of partitions {ATTEMPTS_MAX} times",
                topic_batch.topic
            ),
        ))
    }

    async fn call_script(&self, call: Call) -> Result<Value> {
        let wanted = self.shared.options.replicas;
        if wanted == 0 {
            return self.connection.call(DOING, call).await;
        }
        self.connection.call_and_wait(DOING, call, wanted).await
    }

    fn script_call(&self, topic_batch: &TopicBatch, planned_entries: &[&PlannedEntry<'_>], partitions: u16) -> Call {
        let names = &self.shared.names;
        let mut keys = vec![names.partitions(&topic_batch.topic)];
        keys.extend(names.streams(&topic_batch.topic, partitions));
        let mut call = Call::on(&script::PUBLISH, &keys).arg(partitions);
        for planned in planned_entries {
            let fields = fields::of_entry(planned, &self.mode);
            call = call
                .arg(partition(planned, partitions))
                .arg(planned.lane)
                .arg(fields.len() * 2);
            fields.write(&mut call.command);
        }
        call
    }

    fn receipts(
        &self,
        topic_batch: &TopicBatch,
        planned_entries: &[&PlannedEntry<'_>],
        partitions: u16,
        answer: Value,
    ) -> Vec<Receipt> {
        let Value::Array(answers) = answer else {
            return vec![
                Receipt::unavailable("unexpected response of Redis: no result per entry");
                planned_entries.len()
            ];
        };
        let read = |(planned, answer): (&&PlannedEntry<'_>, Value)| match answer {
            Value::Int(1) => Receipt::Delivered,
            Value::Int(_) => Receipt::Held,
            _ if planned.rejection().is_some() => planned.rejection().unwrap_or(Receipt::Held),
            other => {
                let stream = self
                    .shared
                    .names
                    .stream(&topic_batch.topic, partition(planned, partitions));
                let error = match other {
                    Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    other => format!("{other:?}"),
                };
                refusal(kind_of(&error), format!("add to {stream}: {error}"))
            }
        };
        planned_entries.iter().zip(answers).map(read).collect()
    }

    fn topic_state(&self, topic: &str) -> TopicState {
        let known = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(topic).copied().unwrap_or(TopicState {
            partitions: self.shared.options.partitions.max(1),
            is_verified: false,
            since_trim: 0,
        })
    }

    fn update(&self, topic: &str, change: impl FnOnce(&mut TopicState)) {
        let mut known = self.topic_state(topic);
        change(&mut known);
        let mut all = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(topic.to_owned(), known);
    }

    /// Periodically removes entries that every group has acknowledged.
    async fn trim(&self, topic: &str, added: usize) {
        self.update(topic, |known| known.since_trim += added);
        let known = self.topic_state(topic);
        if known.since_trim < TRIM_AFTER {
            return;
        }
        self.update(topic, |known| known.since_trim = 0);
        if let Err(error) = self.shared.trim(&self.connection, topic, known.partitions).await {
            tracing::warn!(topic, error = error.report(), "trimming a topic failed");
        }
    }
}

/// The partition of an entry's key.
fn partition(planned: &PlannedEntry<'_>, partitions: u16) -> u16 {
    let shard = planned.entry.event.key().shard(u32::from(partitions));
    u16::try_from(shard).unwrap_or(0)
}

/// The receipt of an XADD command; none if the stream does not exist.
fn receipt_of(answer: RedisResult<Value>) -> Option<Receipt> {
    match answer {
        Ok(Value::Nil) => None,
        Ok(_id) => Some(Receipt::Delivered),
        Err(error) => {
            let error = failed(DOING, error);
            Some(refusal(error.kind(), error.report()))
        }
    }
}

fn refusal(kind: ErrorKind, error: String) -> Receipt {
    match kind {
        ErrorKind::Unavailable => Receipt::unavailable(error),
        _ => Receipt::Refused(error),
    }
}
