//! How a test's subscribers are fed when not straight from the outbox: everything is published to one topic of a broker, and
//! each subscriber is a group that reads it.

use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Broker, Destination, Letter, Mode, Result, Route, Start, Subscription, To, Topic};
use uuid::Uuid;

use crate::broker_suite::Site;

/// A topic with one partition that nobody else uses.
#[derive(Clone, Debug)]
pub struct Feed {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) topic: String,
}

impl Feed {
    /// A feed on this broker.
    pub async fn on(site: &mut impl Site) -> Self {
        let name = format!("feed-{}", Uuid::now_v7());
        site.create(&name, 1).await;
        Self {
            broker: Arc::new(Apart {
                broker: site.broker(),
                prefix: name.clone(),
            }),
            topic: name,
        }
    }

    /// The route that publishes everything.
    pub(crate) fn publishing(&self) -> Route {
        let topic: Topic = self.topic.parse().unwrap_or_default();
        Route::new("publish", To::Destination(self.broker.publisher(topic, Mode::Binary)))
    }
}

/// A broker on which the groups of one test are apart from those of others with the same names.
#[derive(Debug)]
struct Apart {
    broker: Arc<dyn Broker>,
    prefix: String,
}

#[async_trait]
impl Broker for Apart {
    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        self.broker.publisher(topic, mode)
    }

    async fn subscribe(&self, group: &str, topics: &[String], start: Start) -> Result<Box<dyn Subscription>> {
        let group = format!("{}.{group}", self.prefix);
        self.broker.subscribe(&group, topics, start).await
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        self.broker.bury(letter).await
    }
}
