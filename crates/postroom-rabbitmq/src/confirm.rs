//! What RabbitMQ says to messages that were sent together on one channel.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation};
use postroom::{Error, ErrorKind, Result};
use tokio::time::{Instant, timeout_at};

use crate::fault::{ANSWER_MAX, fault};
use crate::parcel::Parcel;

/// The driver answers messages that were confirmed together in any order, but without a pause: after this it has.
const TOGETHER: Duration = Duration::from_millis(100);

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is in every queue it belongs into.
    Stored,
    /// There is no queue for it.
    Returned,
    /// A queue did not take it.
    Declined,
    /// A queue has not answered in time; others have.
    Late,
}

/// One error may be the answer to many messages.
pub(crate) type Answer = Result<Outcome, Arc<Error>>;

/// The answers to messages, by their place; none to those that were not answered in time.
pub(crate) struct Confirms {
    answers: Vec<Option<Answer>>,
    /// A returned message comes with the confirm of *some* message of the channel, so it is recognised by its id.
    returned: HashSet<String>,
}

impl Confirms {
    /// Sends messages, nothing else being sent on the channel, and waits for their answers.
    pub(crate) async fn of(channel: &Channel, parcels: &[Parcel]) -> Self {
        let mut confirms = Self {
            answers: vec![None; parcels.len()],
            returned: HashSet::new(),
        };
        let send = async |(at, parcel)| (at, confirm(channel, parcel).await);
        let mut sending: FuturesUnordered<_> = parcels.iter().enumerate().map(send).collect();
        let deadline = Instant::now() + ANSWER_MAX;
        while let Ok(Some((at, confirmation))) = timeout_at(deadline, sending.next()).await {
            let answer = confirms.note(confirmation);
            if let Some(slot) = confirms.answers.get_mut(at) {
                *slot = Some(answer);
            }
        }
        // One of those that were answered may have been returned with another that is about to be.
        while let Ok(Some((_, confirmation))) = timeout_at(deadline + TOGETHER, sending.next()).await {
            let _too_late = confirms.note(confirmation);
        }
        confirms
    }

    /// Every message was confirmed, so that the channel can be used again.
    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(|answer| matches!(answer, Some(Ok(_))))
    }

    /// No message was answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.iter().all(Option::is_none)
    }

    /// The outcome of each message.
    pub(crate) fn outcomes(self, parcels: &[Parcel]) -> Vec<Answer> {
        let outcome = |(parcel, answer): (&Parcel, Option<Answer>)| match answer {
            Some(Ok(_)) if self.returned.contains(parcel.id().unwrap_or_default()) => Ok(Outcome::Returned),
            Some(answer) => answer,
            None => Ok(Outcome::Late),
        };
        parcels.iter().zip(self.answers).map(outcome).collect()
    }

    fn note(&mut self, confirmation: lapin::Result<Confirmation>) -> Answer {
        let (outcome, returned) = match confirmation {
            Ok(Confirmation::Ack(returned)) => (Outcome::Stored, returned),
            Ok(Confirmation::Nack(returned)) => (Outcome::Declined, returned),
            Ok(Confirmation::NotRequested) => return Err(Arc::new(unconfirmed())),
            Err(error) => return Err(Arc::new(fault("publish to RabbitMQ".to_owned(), error))),
        };
        if let Some(message) = returned {
            let id = message.properties.message_id().as_ref().map(ToString::to_string);
            self.returned.insert(id.unwrap_or_default());
        }
        Ok(outcome)
    }
}

/// Nothing is awaited between its number on the channel and its frames: calls by one task keep both in step.
async fn confirm(channel: &Channel, parcel: &Parcel) -> lapin::Result<Confirmation> {
    let mandatory = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let publishing = channel.basic_publish(
        parcel.exchange.clone(),
        parcel.routing_key.clone(),
        mandatory,
        &parcel.body,
        parcel.properties.clone(),
    );
    publishing.await?.await
}

fn unconfirmed() -> Error {
    Error::new(ErrorKind::Failed, "publish to RabbitMQ on a channel without confirms")
}
