//! Where a route publishes: batches go to the streams of their topics, by plain commands or by a script for each step.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::join_all;
use postroom::{Batch, Destination, Error, ErrorKind, Mode, Receipt, Result, Topic};
use redis::{Cmd, FromRedisValue, RedisResult, Value};

use crate::broker::Core;
use crate::fields;
use crate::link::{Link, failed, kind_of};
use crate::script::{self, Call};
use crate::wave::{Piece, Step, Waves};

/// After so many entries a topic is trimmed.
const TRIM_AFTER: usize = 10_000;
/// So often is a step planned anew because the topic has another number of partitions.
const PLANS_MAX: usize = 3;

const DOING: &str = "publish to Redis";

/// A publisher with a connection of its own.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) core: Arc<Core>,
    pub(crate) link: Link,
    pub(crate) topic: Topic,
    pub(crate) mode: Mode,
    pub(crate) known: Mutex<HashMap<String, Known>>,
}

/// What the publisher knows of a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    partitions: u16,
    /// The script has found it so.
    is_sure: bool,
    since_trim: usize,
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let mut waves = Waves::of(batch, &self.topic);
        loop {
            let steps = waves.next();
            if steps.is_empty() {
                return waves.receipts();
            }
            let sent = join_all(steps.iter().map(|step| self.send(&waves, step))).await;
            for (step, answer) in steps.iter().zip(sent) {
                match answer {
                    Ok(answers) => waves.answered(step, answers),
                    Err(error) => waves.failed(step, &refusal(error.kind(), error.report())),
                }
            }
        }
    }
}

impl Publisher {
    /// Adds the entries of a step to their streams; answers each.
    async fn send(&self, waves: &Waves<'_>, step: &Step) -> Result<Vec<Receipt>> {
        let pieces: Vec<&Piece<'_>> = waves.pieces(step).collect();
        if step.is_deep || !self.known(&step.topic).is_sure {
            return self.run(step, &pieces).await;
        }
        let mut answers = self.add(step, &pieces).await?;
        let mut missed = pieces;
        let mut open = answers.iter().map(Option::is_none);
        missed.retain(|_| open.next().unwrap_or(true));
        if !missed.is_empty() {
            let mut receipts = self.run(step, &missed).await?.into_iter();
            let open = answers.iter_mut().filter(|answer| answer.is_none());
            open.for_each(|answer| *answer = receipts.next());
        }
        let settle = |answer: Option<Receipt>| answer.unwrap_or(Receipt::Held);
        Ok(answers.into_iter().map(settle).collect())
    }

    /// Adds entries of different lanes by plain commands; answers none for those whose stream is not there. Only the script
    /// makes streams, and it alone knows for sure how many partitions there are: if somebody has made the topic anew with
    /// another number, nothing goes where nobody reads, and the next step is the script's.
    async fn add(&self, step: &Step, pieces: &[&Piece<'_>]) -> Result<Vec<Option<Receipt>>> {
        let partitions = self.known(&step.topic).partitions;
        let streams = self.core.names.streams(&step.topic, partitions);
        let mut commands = Vec::with_capacity(pieces.len() + 1);
        for piece in pieces {
            let stream = streams.get(usize::from(partition(piece, partitions)));
            let fields = fields::of_entry(piece.entry, self.mode);
            let bytes = fields.bytes() + stream.map_or(0, String::len);
            let mut xadd = Cmd::with_capacity(fields.len() * 2 + 4, bytes + 32);
            xadd.arg("XADD").arg(stream).arg("NOMKSTREAM").arg("*");
            fields.write(&mut xadd);
            commands.push(xadd);
        }
        let mut get = redis::cmd("GET");
        get.arg(self.core.names.partitions(&step.topic));
        commands.push(get);
        let mut answers = self.link.commands(DOING, commands, self.core.options.replicas).await?;
        let found = answers
            .pop()
            .and_then(|answer| u16::from_redis_value(answer.ok()?).ok());
        let receipts: Vec<Option<Receipt>> = answers.into_iter().map(added).collect();
        let is_sure = found == Some(partitions) && receipts.iter().all(Option::is_some);
        self.learn(&step.topic, |known| known.is_sure = is_sure);
        self.trim(&step.topic, receipts.len()).await;
        Ok(receipts)
    }

    /// Adds entries by the script.
    async fn run(&self, step: &Step, pieces: &[&Piece<'_>]) -> Result<Vec<Receipt>> {
        for _ in 0..PLANS_MAX {
            let partitions = self.known(&step.topic).partitions;
            let answer = self.ask(self.plan(step, pieces, partitions)).await?;
            if let Value::Int(other) = answer {
                let partitions = u16::try_from(other).unwrap_or(partitions).max(1);
                self.learn(&step.topic, |known| known.partitions = partitions);
                continue;
            }
            self.learn(&step.topic, |known| known.is_sure = true);
            let receipts = self.read(step, pieces, partitions, answer);
            self.trim(&step.topic, receipts.len()).await;
            return Ok(receipts);
        }
        Err(Error::new(
            ErrorKind::Failed,
            format!("the topic {} changes its partitions all the time", step.topic),
        ))
    }

    async fn ask(&self, call: Call) -> Result<Value> {
        let wanted = self.core.options.replicas;
        if wanted == 0 {
            return self.link.call(DOING, call).await;
        }
        self.link.call_and_wait(DOING, call, wanted).await
    }

    fn plan(&self, step: &Step, pieces: &[&Piece<'_>], partitions: u16) -> Call {
        let names = &self.core.names;
        let mut keys = vec![names.partitions(&step.topic)];
        keys.extend(names.streams(&step.topic, partitions));
        let mut call = Call::on(&script::PUBLISH, &keys).arg(partitions);
        for piece in pieces {
            let fields = fields::of_entry(piece.entry, self.mode);
            call = call
                .arg(partition(piece, partitions))
                .arg(piece.lane)
                .arg(fields.len() * 2);
            fields.write(&mut call.command);
        }
        call
    }

    fn read(&self, step: &Step, pieces: &[&Piece<'_>], partitions: u16, answer: Value) -> Vec<Receipt> {
        let Value::Array(answers) = answer else {
            return vec![Receipt::Unavailable("Redis did not answer per entry".to_owned()); pieces.len()];
        };
        let read = |(piece, answer): (&&Piece<'_>, Value)| match answer {
            Value::Int(1) => Receipt::Delivered,
            Value::Int(_) => Receipt::Held,
            other => {
                let stream = self.core.names.stream(&step.topic, partition(piece, partitions));
                let words = match other {
                    Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    other => format!("{other:?}"),
                };
                refusal(kind_of(&words), format!("add to {stream}: {words}"))
            }
        };
        pieces.iter().zip(answers).map(read).collect()
    }

    fn known(&self, topic: &str) -> Known {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(topic).copied().unwrap_or(Known {
            partitions: self.core.options.partitions.max(1),
            is_sure: false,
            since_trim: 0,
        })
    }

    fn learn(&self, topic: &str, change: impl FnOnce(&mut Known)) {
        let mut known = self.known(topic);
        change(&mut known);
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(topic.to_owned(), known);
    }

    /// Now and then removes what every group has acknowledged.
    async fn trim(&self, topic: &str, added: usize) {
        self.learn(topic, |known| known.since_trim += added);
        let known = self.known(topic);
        if known.since_trim < TRIM_AFTER {
            return;
        }
        self.learn(topic, |known| known.since_trim = 0);
        if let Err(error) = self.core.trim(&self.link, topic, known.partitions).await {
            tracing::warn!(topic, error = error.report(), "a topic was not trimmed");
        }
    }
}

/// The partition of an entry: that of its key.
fn partition(piece: &Piece<'_>, partitions: u16) -> u16 {
    let shard = piece.entry.event.key().shard(u32::from(partitions));
    u16::try_from(shard).unwrap_or(0)
}

/// What a command that adds an entry answered; none if there is no such stream.
fn added(answer: RedisResult<Value>) -> Option<Receipt> {
    match answer {
        Ok(Value::Nil) => None,
        Ok(_id) => Some(Receipt::Delivered),
        Err(error) => {
            let error = failed(DOING, error);
            Some(refusal(error.kind(), error.report()))
        }
    }
}

fn refusal(kind: ErrorKind, words: String) -> Receipt {
    match kind {
        ErrorKind::Unavailable => Receipt::Unavailable(words),
        _ => Receipt::Refused(words),
    }
}
