//! Where a bench publishes to: a topic of its own on a broker, removed in the end.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use postroom::{BATCH_MAX, Broker, DomainEvent as _, Filter, Join, Mode, Route, Start, To};
use uuid::Uuid;

use crate::paid::Paid;
use crate::plain::Plain;
use crate::receiver::{Confirmed, ROUTE};
use crate::tally::Tally;
use crate::trial_broker::TrialBroker;

/// Every topic of a bench begins so.
const TOPICS: &str = "postroom-bench-";

/// A topic, the broker that the relay uses and the client that does without one.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) topic: String,
    broker: Arc<dyn Broker>,
    pub(super) plain: Plain,
}

impl Stage {
    /// Makes the topic, with a group that keeps what is published where a broker keeps nothing by itself.
    pub(super) async fn open(broker: &TrialBroker, is_transactional: bool) -> Result<Self> {
        let topic = format!("{TOPICS}{}", Uuid::now_v7());
        let stage = Self {
            broker: match is_transactional {
                true => broker.transactional(&topic)?,
                false => broker.adapter(),
            },
            plain: broker.client(&topic).await?,
            topic,
        };
        match stage.make(broker).await {
            Ok(()) => Ok(stage),
            Err(error) => {
                stage.remove().await?;
                Err(error)
            }
        }
    }

    async fn make(&self, broker: &TrialBroker) -> Result<()> {
        broker.create_topic(&self.topic).await?;
        if self.plain.needs_group() {
            let joining = self
                .broker
                .subscribe(Join::new(&self.topic, std::slice::from_ref(&self.topic), Start::Head));
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
