//! How a test's subscribers are fed when not straight from the outbox: everything is published to one topic of a broker, and
//! each subscriber is a group that reads it.

#![expect(clippy::panic, reason = "a test harness: a test without its broker has failed")]

use std::sync::Arc;

use postroom::{Broker, Mode, Namespaced, Route, To, Topic};
use uuid::Uuid;

use crate::broker_suite::Site;

const TOPIC: &str = "all";

/// A topic with one partition that nobody else uses.
#[derive(Clone, Debug)]
pub struct Feed {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) topic: String,
}

impl Feed {
    /// A feed on this broker.
    pub async fn on(site: &mut impl Site) -> Self {
        let prefix = format!("feed-{}-", Uuid::now_v7());
        site.create(&format!("{prefix}{TOPIC}"), 1).await;
        let broker = Namespaced::new(site.broker(), prefix).unwrap_or_else(|error| panic!("{}", error.report()));
        Self {
            broker: Arc::new(broker),
            topic: TOPIC.to_owned(),
        }
    }

    /// The route that publishes everything, once these groups are there to get it.
    pub(crate) fn publishing(&self, groups: Vec<String>) -> Route {
        let topic: Topic = self.topic.parse().unwrap_or_default();
        Route {
            awaits: groups,
            ..Route::new("publish", To::Destination(self.broker.publisher(topic, Mode::Binary)))
        }
    }
}
