//! A member of a consumer group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use lapin::message::Delivery;
use postroom::{Error, ErrorKind, Mark, Message, Result, Subscription};

use crate::connect::Connector;
use crate::message::to_message;
use crate::session::Session;
use crate::topology::{Source, Stale};

/// A mark contains RabbitMQ's delivery tag in these bits and the number of the session above them.
const TAG_BITS: u32 = 48;

/// Consumes a group's queues. Returning one message returns all unacknowledged messages, because later messages of its key may
/// already be received. RabbitMQ delivers them again in order, to this or another member.
pub(crate) struct Member {
    connector: Arc<Connector>,
    sources: Vec<Source>,
    /// Bindings that the group had and does not want any more. They are removed with the first session: only then the group is fed by
    /// what it wants now.
    stale: Vec<Stale>,
    /// None until the first call of `next`, and after returning messages. A member that requests nothing must hold no messages,
    /// because RabbitMQ counts redeliveries.
    session: Option<Session>,
    /// A session that is being opened. It continues in the next call if a call of `next` is dropped.
    opening: Option<BoxFuture<'static, Result<Session>>>,
    /// Number of the current session.
    number: u16,
    /// Received messages that `next` has not returned, by tag, which keeps the order of each queue.
    buffered: BTreeMap<u64, Message>,
}

impl Member {
    pub(crate) fn new(connector: Arc<Connector>, sources: Vec<Source>, stale: Vec<Stale>) -> Self {
        Self {
            connector,
            sources,
            stale,
            session: None,
            opening: None,
            number: 0,
            buffered: BTreeMap::new(),
        }
    }

    /// Waits until the buffer has a message.
    async fn receive(&mut self) -> Result<()> {
        if self.session.is_none() {
            self.open().await?;
        }
        let Some(session) = &mut self.session else {
            return Err(session_closed());
        };
        let mut received = Vec::new();
        if self.buffered.is_empty() {
            received.push(session.next().await?);
        }
        while let Some(delivery) = session.ready() {
            received.push(delivery?);
        }
        for (at, delivery) in received {
            self.buffer(at, delivery);
        }
        Ok(())
    }

    async fn open(&mut self) -> Result<()> {
        let (connector, sources, stale) = (&self.connector, &self.sources, &self.stale);
        let opening = self.opening.get_or_insert_with(|| {
            let (connector, sources, stale) = (Arc::clone(connector), sources.clone(), stale.clone());
            async move { Session::open(&connector, &sources, &stale).await }.boxed()
        });
        let opened = opening.await;
        self.opening = None;
        self.session = Some(opened?);
        self.stale.clear();
        self.number = self.number.wrapping_add(1);
        Ok(())
    }

    fn buffer(&mut self, at: usize, delivery: Delivery) {
        if let Some(source) = self.sources.get(at) {
            let tag = (u64::from(self.number) << TAG_BITS) | delivery.delivery_tag;
            self.buffered.insert(tag, to_message(delivery, tag, source));
        }
    }

    /// Delivery tags of these marks; an error if one is from another session.
    fn tags(&self, marks: &[Mark]) -> Result<BTreeSet<u64>> {
        let tag = |mark: &Mark| match mark {
            Mark::Tag(tag) if tag >> TAG_BITS == u64::from(self.number) => Ok(tag & ((1 << TAG_BITS) - 1)),
            Mark::Tag(_) => Err(session_closed()),
            Mark::Offset { .. } | Mark::Id { .. } => Err(Error::invalid("this mark is not from RabbitMQ")),
        };
        marks.iter().map(tag).collect()
    }
}

#[async_trait]
impl Subscription for Member {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        if let Err(error) = self.receive().await {
            // Buffered messages of the failed session cannot be acknowledged any more.
            self.buffered.clear();
            self.session = None;
            return Err(error);
        }
        let count = max.max(1).min(self.buffered.len());
        Ok((0..count)
            .filter_map(|_| self.buffered.pop_first())
            .map(|(_, message)| message)
            .collect())
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        let tags = self.tags(done)?;
        let session = self.session.as_mut().ok_or_else(session_closed)?;
        session.ack(&tags).await
    }

    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        let is_here = self.tags(back).is_ok_and(|tags| !tags.is_empty());
        if !is_here {
            return Ok(()); // no marks, or marks of an earlier session
        }
        self.buffered.clear();
        match self.session.take() {
            Some(session) => session.close().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("connector", &self.connector)
            .field("sources", &self.sources)
            .field("buffered", &self.buffered.len())
            .finish_non_exhaustive()
    }
}

fn session_closed() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "these messages were returned, or their connection was lost; RabbitMQ delivers them again",
    )
}
