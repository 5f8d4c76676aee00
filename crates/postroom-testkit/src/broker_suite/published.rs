//! A broker's publisher, seen as a destination, for the suite of destinations.

use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Destination, Event, Mode, Start, Subscription};
use uuid::Uuid;

use super::{PATIENCE, QUIET, Site, join, marks, publisher};
use crate::destination_suite;

/// A broker's publisher, seen as a destination: what has arrived is what a group receives.
#[derive(Debug)]
pub struct Published<S> {
    site: S,
    prefix: String,
    subscription: Option<Box<dyn Subscription>>,
    arrived: Vec<Event>,
}

impl<S: Site> Published<S> {
    /// On topics that nobody else uses.
    pub async fn on(mut site: S) -> Self {
        let prefix = format!("suite-{}", Uuid::now_v7());
        site.create(&format!("{prefix}-noted"), 3).await;
        site.create_refusing(&format!("{prefix}-refused")).await;
        let subscription = join(&site, &prefix, &format!("{prefix}-noted"), Start::Beginning).await;
        Self {
            site,
            prefix,
            subscription: Some(subscription),
            arrived: Vec::new(),
        }
    }

    async fn receive(&mut self) -> postroom::Result<()> {
        let mut subscription = match self.subscription.take() {
            Some(subscription) => subscription,
            None => {
                join(
                    &self.site,
                    &self.prefix,
                    &format!("{}-noted", self.prefix),
                    Start::Beginning,
                )
                .await
            }
        };
        let messages = subscription.next(500).await?;
        subscription.ack(&marks(&messages)).await?;
        self.subscription = Some(subscription);
        for message in messages {
            self.arrived.push(message.event()?);
        }
        Ok(())
    }
}

#[async_trait]
impl<S: Site + Sync> destination_suite::Site for Published<S> {
    fn destination(&self) -> Arc<dyn Destination> {
        publisher(&self.site, &format!("{}-{{domain}}", self.prefix), Mode::Binary)
    }

    fn refused(&self, key: &str) -> Event {
        let payload = serde_json::value::RawValue::NULL.to_owned();
        Event::new("suite.refused.v1", "suite", key, payload).expect("an event")
    }

    async fn arrived(&mut self, count: usize) -> Vec<Event> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            // More than expected would be a mistake too: wait a little for it.
            let until = if self.arrived.len() < count {
                deadline
            } else {
                tokio::time::Instant::now() + QUIET
            };
            match tokio::time::timeout_at(until, self.receive()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(error = error.report(), "receiving again"),
                Err(_quiet) => return self.arrived.clone(),
            }
        }
    }

    async fn stop(&mut self) {
        self.site.stop().await;
    }

    async fn start(&mut self) {
        self.site.start().await;
    }
}
