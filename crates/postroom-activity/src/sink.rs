//! Sinks: where stored activity events go. A new sink is one implementation of [`ActivitySink`].
//!
//! Each sink has a route of its own, so batches, retries, dead letters, outages and replay are the relay's. A sink only sends one
//! batch and says what became of each event.

mod delay;
pub(crate) mod known;
mod posthog;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, Destination, DomainEvent as _, Entry, Receipt};

use crate::event::{ActivityEvent, ActivityRedispatched, ActivityStored};

pub(crate) use delay::SinkDelays;
pub use posthog::{PosthogCounts, PosthogSettings, PosthogSink};
pub use webhook::WebhookSink;

/// A system outside that takes activity events.
#[async_trait]
pub trait ActivitySink: std::fmt::Debug + Send + Sync {
    /// Its name, for example `posthog`: lower-case letters, digits and hyphens. Its route is `activity-posthog`, and progress is kept
    /// under it.
    fn sink_type(&self) -> &'static str;

    /// Sends events, at most as many as the batch of its route. Returns one answer per event, in their order. Every network step
    /// has a timeout. An event that is sent again has the same id and the same time.
    async fn sink_batch(&self, events: &[ActivityEvent]) -> Vec<SinkAnswer>;
}

/// The answer of a sink to one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkAnswer {
    /// The sink has it.
    Taken,
    /// The sink refused this event now; it is tried again until the retries of the route are used up.
    Refused(String),
    /// The sink will never take this event: it becomes a dead letter at once.
    Rejected(String),
    /// The sink cannot take any event now. The attempt does not count; the route waits before it tries again.
    Unavailable {
        /// The reason, for operators. No data of users.
        says: String,
        /// How long the sink wants to be left alone.
        after: Option<Duration>,
    },
}

/// The name of the route to a sink.
pub(crate) fn route_name(sink_type: &str) -> String {
    format!("activity-{sink_type}")
}

/// The end of a sink's route.
#[derive(Debug)]
pub(crate) struct SinkDestination {
    sink: Arc<dyn ActivitySink>,
    delays: SinkDelays,
}

impl SinkDestination {
    pub(crate) fn new(sink: Arc<dyn ActivitySink>, delays: SinkDelays) -> Self {
        Self { sink, delays }
    }

    fn read(&self, entry: &Entry) -> Content {
        let event = &entry.event;
        let read = match event.event_type.as_str() {
            ActivityStored::TYPE => event.decode().map(|ActivityStored(event)| Some(event)),
            _ => event.decode().map(|again: ActivityRedispatched| {
                let is_ours = again.sink_type == self.sink.sink_type();
                is_ours.then_some(again.event)
            }),
        };
        match read {
            Ok(Some(event)) => Content::Event(Box::new(event)),
            Ok(None) => Content::Answer(Receipt::Delivered), // of a version that had one type for all sinks
            Err(error) => Content::Answer(Receipt::Rejected(error.report())),
        }
    }
}

/// The content of an entry, or its receipt if the sink need not be asked.
enum Content {
    Event(Box<ActivityEvent>),
    Answer(Receipt),
}

#[async_trait]
impl Destination for SinkDestination {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let (mut receipts, mut events, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, entry) in batch.entries.iter().enumerate() {
            match self.read(entry) {
                Content::Answer(receipt) => receipts.push(receipt),
                Content::Event(event) => {
                    receipts.push(Receipt::unavailable("the sink gave no answer for this event"));
                    events.push(*event);
                    places.push(place);
                }
            }
        }
        if !events.is_empty() {
            let answers = self.sink.sink_batch(&events).await;
            for (place, answer) in places.into_iter().zip(answers) {
                if let Some((receipt, entry)) = receipts.get_mut(place).zip(batch.entries.get(place)) {
                    *receipt = answer.into();
                    self.delays.measure(self.sink.sink_type(), entry, receipt);
                }
            }
        }
        receipts
    }
}

impl From<SinkAnswer> for Receipt {
    fn from(answer: SinkAnswer) -> Self {
        match answer {
            SinkAnswer::Taken => Self::Delivered,
            SinkAnswer::Refused(says) => Self::Refused(says),
            SinkAnswer::Rejected(says) => Self::Rejected(says),
            SinkAnswer::Unavailable { says, after } => Self::Unavailable { says, after },
        }
    }
}
