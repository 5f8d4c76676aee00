//! Where a bench publishes to: a topic of its own on a broker, removed in the end.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use postroom::{BATCH_MAX, Batch, Broker, Destination, DomainEvent as _, Filter, Mode, Receipt, Route, Start, To};
use uuid::Uuid;

use crate::paid::Paid;
use crate::plain::Plain;
use crate::receiver::ROUTE;
use crate::tally::Tally;

/// Every topic of a bench begins so.
const TOPICS: &str = "postroom-bench-";

/// The broker that a bench publishes to. The program implements it: it knows addresses and configuration.
#[async_trait]
pub trait TargetBroker: fmt::Debug + Send + Sync {
    /// Opens the broker for a relay that publishes to this topic.
    fn open(&self, topic: &str) -> Result<Arc<dyn Broker>>;

    /// Creates the topic, on a broker that does not create topics when they are used.
    async fn create_topic(&self, topic: &str) -> Result<()>;

    /// Opens the broker's own client for the topic.
    async fn client(&self, topic: &str) -> Result<Plain>;
}

/// A topic, the broker that the relay uses and the client that does without one.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) topic: String,
    broker: Arc<dyn Broker>,
    pub(super) plain: Plain,
}

impl Stage {
    /// Makes the topic, with a group that keeps what is published where a broker keeps nothing by itself.
    pub(super) async fn open(target: &dyn TargetBroker) -> Result<Self> {
        let topic = format!("{TOPICS}{}", Uuid::now_v7());
        let stage = Self {
            broker: target.open(&topic)?,
            plain: target.client(&topic).await?,
            topic,
        };
        match stage.make(target).await {
            Ok(()) => Ok(stage),
            Err(error) => {
                stage.remove().await?;
                Err(error)
            }
        }
    }

    async fn make(&self, target: &dyn TargetBroker) -> Result<()> {
        target.create_topic(&self.topic).await?;
        if self.plain.needs_group() {
            let joining = self
                .broker
                .subscribe(&self.topic, std::slice::from_ref(&self.topic), Start::Head);
            drop(joining.await.context("make a queue")?);
        }
        Ok(())
    }

    /// A route that starts at the head, publishes to the topic and tells the tally what was confirmed.
    pub(super) fn route(&self, tally: &Arc<Tally>) -> Result<Route> {
        let confirmed = Confirmed {
            to: self.broker.publisher(self.topic.parse()?, Mode::default()),
            tally: Arc::clone(tally),
        };
        Ok(Route {
            filter: Filter::any_of([Paid::TYPE]),
            start: Start::Head,
            batch: BATCH_MAX,
            ..Route::new(ROUTE, To::Destination(Arc::new(confirmed)))
        })
    }

    /// Makes sure that the broker has what it has confirmed: so many messages at least.
    pub(super) async fn check(&self, expected: usize) -> Result<()> {
        let found = self.plain.count().await.context("count the messages")?;
        ensure!(
            found >= u64::try_from(expected)?,
            "the broker has {found} messages of {expected}"
        );
        Ok(())
    }

    pub(super) async fn remove(&self) -> Result<()> {
        let removed = self.plain.remove().await;
        removed.with_context(|| format!("remove the topic {}", self.topic))
    }
}

/// A destination whose receipts are counted when they come.
#[derive(Debug)]
struct Confirmed {
    to: Arc<dyn Destination>,
    tally: Arc<Tally>,
}

#[async_trait]
impl Destination for Confirmed {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let receipts = self.to.deliver(batch).await;
        let answered = batch.entries.iter().zip(&receipts);
        let delivered = answered.filter(|(_, receipt)| **receipt == Receipt::Delivered);
        let ids: Vec<Uuid> = delivered.map(|(entry, _)| entry.event.id).collect();
        self.tally.arrive(ids.into_iter());
        receipts
    }
}
