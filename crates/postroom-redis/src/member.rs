//! A member of a group: hands out entries of the partitions it holds, and settles them.

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

use crate::broker::Core;
use crate::holding::{Cursor, Held, Holding, Place};
use crate::id::Id;
use crate::keeper::Desk;
use crate::link::{connect, failed};
use crate::names;
use crate::script::{self, Call};

/// So long the server lets one call wait for news.
const BLOCK: Duration = Duration::from_secs(5);

/// A member. Dropping it gives back what it holds.
#[derive(Debug)]
pub(crate) struct Member {
    desk: Arc<Desk>,
    /// Where it waits for news. Taken out while it waits, so that a wait which is given up is ended on the server too.
    waiting: Option<Waiting>,
    /// Which partition and topic come first next time.
    turn: usize,
    _keeper: DropGuard,
}

/// Entries by partition.
type Sorted = BTreeMap<Place, (Held, Vec<Id>)>;

struct Waiting(MultiplexedConnection);

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiting")
    }
}

impl Member {
    pub(crate) async fn join(core: &Arc<Core>, group: &str, topics: &[String], start: Start) -> Result<Self> {
        let begin = match start {
            Start::Beginning => "0",
            Start::Head => "$",
        };
        let mut known = Vec::with_capacity(topics.len());
        for topic in topics {
            names::check(topic)?;
            let partitions = core.partitions(topic, core.options.partitions).await?;
            core.make_group(topic, partitions, group, begin).await?;
            known.push((topic.clone(), partitions));
        }
        let desk = Arc::new(Desk {
            core: Arc::clone(core),
            member: Uuid::now_v7().to_string(),
            group: group.to_owned(),
            topics: known,
            holding: Holding::default(),
            changed: tokio::sync::Notify::new(),
            trouble: std::sync::Mutex::default(),
        });
        let stop = CancellationToken::new();
        let keeper = stop.clone().drop_guard();
        desk.renew().await?;
        core.tasks.spawn(Arc::clone(&desk).keep(stop));
        Ok(Self {
            desk,
            waiting: None,
            turn: 0,
            _keeper: keeper,
        })
    }

    /// Takes what is there. Nothing is awaited after the first messages: they cannot be lost to a caller that gives up.
    async fn fetch(&mut self, max: usize) -> Result<Vec<Message>> {
        self.turn = self.turn.wrapping_add(1);
        let count = self.desk.topics.len();
        for step in 0..count {
            let messages = self.desk.fetch((self.turn + step) % count, self.turn, max).await?;
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
        Ok(Vec::new())
    }

    /// Waits until there is news in a partition that is held.
    async fn wait(&mut self) -> Result<()> {
        const DOING: &str = "wait for news from Redis";
        let mut held = self.desk.holding.all();
        held.retain(|(_, held)| !held.is_leaving);
        if held.is_empty() {
            return std::future::pending().await; // until something is taken
        }
        if held.iter().any(|(_, held)| held.cursor != Cursor::New) {
            return Ok(());
        }
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT")
            .arg(1)
            .arg("BLOCK")
            .arg(BLOCK.as_millis().to_string())
            .arg("STREAMS");
        for (place, _) in &held {
            read.arg(self.desk.names_of(*place).1);
        }
        for (_, held) in &held {
            read.arg(held.seen.to_string());
        }
        let (core, limit) = (&self.desk.core, self.desk.core.options.timeout);
        let mut connection = match self.waiting.take() {
            Some(waiting) => waiting.0,
            None => connect(&core.client, DOING, limit, BLOCK + limit).await?,
        };
        let answer = read.query_async::<Value>(&mut connection).await;
        answer.map_err(|error| failed(DOING, error))?;
        self.waiting = Some(Waiting(connection));
        Ok(())
    }

    /// Marks by partition, and whether all of them are of entries that are handed out.
    fn sort(&self, marks: &[Mark]) -> (Sorted, bool) {
        let all = self.desk.holding.lock();
        let mut sorted = Sorted::new();
        let mut is_all = true;
        for mark in marks {
            let found = self.place(mark).and_then(|(place, id)| {
                let held = all.get(&place).filter(|held| held.out.contains(&id))?;
                Some((place, held, id))
            });
            match found {
                Some((place, held, id)) => {
                    sorted
                        .entry(place)
                        .or_insert_with(|| (held.clone(), Vec::new()))
                        .1
                        .push(id);
                }
                None => is_all = false,
            }
        }
        (sorted, is_all)
    }

    fn place(&self, mark: &Mark) -> Option<(Place, Id)> {
        let Mark::Id { topic, id } = mark else {
            return None;
        };
        let (partition, id) = id.split_once('/')?;
        let at = self.desk.topics.iter().position(|(name, _)| name == topic)?;
        Some(((at, partition.parse().ok()?), id.parse().ok()?))
    }

    /// Acknowledges entries of one partition; whether it was still held.
    async fn ack_of(&self, place: Place, held: &Held, ids: &[Id]) -> Result<bool> {
        let (topic, stream) = self.desk.names_of(place);
        let texts: Vec<String> = ids.iter().map(Id::to_string).collect();
        let call = Call::on(&script::ACK, &[self.desk.leases(topic), stream])
            .arg(&self.desk.group)
            .arg(place.1)
            .arg(&held.token)
            .arg(texts);
        let is_held = self.desk.core.link.call("acknowledge in Redis", call).await?;
        if is_held {
            self.desk.holding.settled(place, &held.token, ids);
        }
        Ok(is_held)
    }
}

#[async_trait]
impl Subscription for Member {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        let desk = Arc::clone(&self.desk);
        loop {
            let changed = desk.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            desk.check()?;
            let messages = self.fetch(max.max(1)).await?;
            if !messages.is_empty() {
                return Ok(messages);
            }
            tokio::select! {
                () = changed => {}
                news = self.wait() => news?,
            }
        }
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        let (sorted, mut is_whole) = self.sort(done);
        let acks = sorted.iter().map(|(place, (held, ids))| self.ack_of(*place, held, ids));
        for is_held in join_all(acks).await {
            is_whole &= is_held?;
        }
        if is_whole {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Conflict,
            "acknowledge in Redis: the partition was lost to another member, which gets the entries again",
        ))
    }

    /// Nobody else is told: they stay this member's, which hands them out again.
    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        let (sorted, _lost_anyway) = self.sort(back);
        for (place, (_, ids)) in sorted {
            self.desk.holding.given_back(place, &ids);
        }
        Ok(())
    }
}
