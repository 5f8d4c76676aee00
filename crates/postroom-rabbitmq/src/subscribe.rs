//! A member of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use lapin::message::Delivery;
use postroom::{Error, ErrorKind, Mark, Message, Result, Subscription};

use crate::connect::Link;
use crate::parcel::read;
use crate::session::Session;
use crate::topology::Source;

/// A mark is a tag of RabbitMQ's in these bits, and above them which of our sessions it is from.
const TAG_BITS: u32 = 48;

/// Consumes a group's queues. What is given back takes everything unacknowledged with it, because what follows it on its key
/// may be here already; it all comes again, in order, here or at another member.
pub(crate) struct Member {
    link: Arc<Link>,
    sources: Vec<Source>,
    /// None until something is asked for, and after giving back: a member that takes nothing has nothing to give back, and
    /// RabbitMQ counts what comes back.
    session: Option<Session>,
    /// Goes on where it was when the future that waited for it is dropped.
    opening: Option<BoxFuture<'static, Result<Session>>>,
    /// How many sessions there were.
    number: u16,
    /// Received and not handed out, by tag: the order of each queue.
    ready: BTreeMap<u64, Message>,
}

impl Member {
    pub(crate) fn new(link: Arc<Link>, sources: Vec<Source>) -> Self {
        Self {
            link,
            sources,
            session: None,
            opening: None,
            number: 0,
            ready: BTreeMap::new(),
        }
    }

    /// Waits until something is ready.
    async fn receive(&mut self) -> Result<()> {
        if self.session.is_none() {
            self.open().await?;
        }
        let Some(session) = &mut self.session else {
            return Err(gone());
        };
        let mut arrived = Vec::new();
        if self.ready.is_empty() {
            arrived.push(session.next().await?);
        }
        while let Some(arrival) = session.ready() {
            arrived.push(arrival?);
        }
        for (at, delivery) in arrived {
            self.keep(at, delivery);
        }
        Ok(())
    }

    async fn open(&mut self) -> Result<()> {
        let (link, sources) = (&self.link, &self.sources);
        let opening = self.opening.get_or_insert_with(|| {
            let (link, sources) = (Arc::clone(link), sources.clone());
            async move { Session::open(&link, &sources).await }.boxed()
        });
        let opened = opening.await;
        self.opening = None;
        self.session = Some(opened?);
        self.number = self.number.wrapping_add(1);
        Ok(())
    }

    fn keep(&mut self, at: usize, delivery: Delivery) {
        if let Some(source) = self.sources.get(at) {
            let tag = (u64::from(self.number) << TAG_BITS) | delivery.delivery_tag;
            self.ready.insert(tag, read(delivery, tag, source));
        }
    }

    /// The tags of messages of the session that is open.
    fn tags(&self, marks: &[Mark]) -> Result<BTreeSet<u64>> {
        let tag = |mark: &Mark| match mark {
            Mark::Tag(tag) if tag >> TAG_BITS == u64::from(self.number) => Ok(tag & ((1 << TAG_BITS) - 1)),
            Mark::Tag(_) => Err(gone()),
            Mark::Offset { .. } | Mark::Id { .. } => Err(Error::invalid("this mark is not from RabbitMQ")),
        };
        marks.iter().map(tag).collect()
    }
}

#[async_trait]
impl Subscription for Member {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        if let Err(error) = self.receive().await {
            // What is ready cannot be acknowledged any more.
            self.ready.clear();
            self.session = None;
            return Err(error);
        }
        let count = max.max(1).min(self.ready.len());
        Ok((0..count)
            .filter_map(|_| self.ready.pop_first())
            .map(|(_, message)| message)
            .collect())
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        let tags = self.tags(done)?;
        let session = self.session.as_mut().ok_or_else(gone)?;
        session.ack(&tags).await
    }

    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        let is_here = self.tags(back).is_ok_and(|tags| !tags.is_empty());
        if !is_here {
            return Ok(()); // nothing, or what is back already
        }
        self.ready.clear();
        match self.session.take() {
            Some(session) => session.close().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("link", &self.link)
            .field("sources", &self.sources)
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}

fn gone() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "these messages were given back, or their connection is gone; they come again",
    )
}
