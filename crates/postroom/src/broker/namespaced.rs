//! A broker that several systems share: each sees its own topics and groups.

use std::sync::Arc;

use async_trait::async_trait;

use crate::broker::{Broker, Join, Letter, Risk, Subscription};
use crate::destination::Destination;
use crate::error::Result;
use crate::event::envelope::Mode;
use crate::event::topic::Topic;

/// Puts a prefix before every topic and every group.
#[derive(Clone, Debug)]
pub struct Namespaced {
    broker: Arc<dyn Broker>,
    prefix: String,
}

impl Namespaced {
    /// The broker behind a prefix, which may hold what a topic may hold.
    pub fn new(broker: Arc<dyn Broker>, prefix: impl Into<String>) -> Result<Self> {
        let prefix = prefix.into();
        format!("{prefix}x").parse::<Topic>()?;
        Ok(Self { broker, prefix })
    }

    fn own(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn owns(&self, names: &[String]) -> Vec<String> {
        names.iter().map(|name| self.own(name)).collect()
    }
}

#[async_trait]
impl Broker for Namespaced {
    fn name(&self) -> String {
        format!("{}#{}", self.broker.name(), self.prefix)
    }

    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        self.broker.publisher(topic.prefixed(&self.prefix), mode)
    }

    async fn subscribe(&self, join: Join<'_>) -> Result<Box<dyn Subscription>> {
        let (group, topics) = (self.own(join.group), self.owns(join.topics));
        let join = Join {
            group: &group,
            topics: &topics,
            ..join
        };
        self.broker.subscribe(join).await
    }

    /// A message's origin has the prefix already.
    async fn bury(&self, letter: &Letter) -> Result<()> {
        let group = self.own(&letter.group);
        self.broker
            .bury(&Letter {
                group,
                ..letter.clone()
            })
            .await
    }

    async fn buried(&self, group: &str, topics: &[String]) -> Result<Box<dyn Subscription>> {
        self.broker.buried(&self.own(group), &self.owns(topics)).await
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        self.broker.waiting(&self.own(group), &self.owns(topics)).await
    }

    async fn risks(&self, group: &str, topics: &[String]) -> Result<Vec<Risk>> {
        self.broker.risks(&self.own(group), &self.owns(topics)).await
    }
}
