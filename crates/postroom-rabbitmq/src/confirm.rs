//! Publisher confirms of messages that were sent together on one channel.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation};
use postroom::{Error, ErrorKind, Result};
use tokio::time::{Instant, timeout_at};

use crate::error::{RESPONSE_TIMEOUT, failed};
use crate::message::OutgoingMessage;

/// After a timeout, waits this long for confirms that the driver is about to report: they may carry a returned message.
const RETURN_GRACE: Duration = Duration::from_millis(100);

/// The outcome of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All queues bound to its routing key have stored it.
    Stored,
    /// No queue is bound to its routing key.
    Returned,
    /// A queue refused it.
    Nacked,
    /// No confirm before the timeout, although other messages were confirmed.
    TimedOut,
}

/// The answer to one message. Many messages may share an error.
pub(crate) type Answer = Result<Outcome, Arc<Error>>;

/// The answers to messages, by index; `None` for a message without a confirm before the timeout.
pub(crate) struct Confirms {
    answers: Vec<Option<Answer>>,
    /// Ids of returned messages. The driver attaches a returned message to the confirm of *any* message of the channel.
    returned: HashSet<String>,
}

impl Confirms {
    /// Sends messages and waits for their confirms. The caller must send nothing else on the channel meanwhile.
    pub(crate) async fn of(channel: &Channel, messages: &[OutgoingMessage]) -> Self {
        let mut confirms = Self {
            answers: vec![None; messages.len()],
            returned: HashSet::new(),
        };
        let send = async |(at, message)| (at, confirm(channel, message).await);
        let mut sending: FuturesUnordered<_> = messages.iter().enumerate().map(send).collect();
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        while let Ok(Some((at, confirmation))) = timeout_at(deadline, sending.next()).await {
            let answer = confirms.record(confirmation);
            if let Some(slot) = confirms.answers.get_mut(at) {
                *slot = Some(answer);
            }
        }
        // A late confirm may carry a returned message whose own confirm has arrived already.
        while let Ok(Some((_, confirmation))) = timeout_at(deadline + RETURN_GRACE, sending.next()).await {
            let _too_late = confirms.record(confirmation);
        }
        confirms
    }

    /// Whether every message was confirmed: then the channel can be reused.
    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(|answer| matches!(answer, Some(Ok(_))))
    }

    /// Whether no message has an answer.
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.iter().all(Option::is_none)
    }

    /// The outcome of each message.
    pub(crate) fn outcomes(self, messages: &[OutgoingMessage]) -> Vec<Answer> {
        let outcome = |(message, answer): (&OutgoingMessage, Option<Answer>)| match answer {
            Some(Ok(_)) if self.returned.contains(message.id().unwrap_or_default()) => Ok(Outcome::Returned),
            Some(answer) => answer,
            None => Ok(Outcome::TimedOut),
        };
        messages.iter().zip(self.answers).map(outcome).collect()
    }

    fn record(&mut self, confirmation: lapin::Result<Confirmation>) -> Answer {
        let (outcome, returned) = match confirmation {
            Ok(Confirmation::Ack(returned)) => (Outcome::Stored, returned),
            Ok(Confirmation::Nack(returned)) => (Outcome::Nacked, returned),
            Ok(Confirmation::NotRequested) => return Err(Arc::new(unconfirmed())),
            Err(error) => return Err(Arc::new(failed("publish to RabbitMQ".to_owned(), error))),
        };
        if let Some(message) = returned {
            let id = message.properties.message_id().as_ref().map(ToString::to_string);
            self.returned.insert(id.unwrap_or_default());
        }
        Ok(outcome)
    }
}

/// Publishes one message and waits for its confirm. The driver numbers the message and writes its frames without an await in
/// between, so calls of one task keep numbers and frames in the same order.
async fn confirm(channel: &Channel, message: &OutgoingMessage) -> lapin::Result<Confirmation> {
    let mandatory = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let publishing = channel.basic_publish(
        message.exchange.clone(),
        message.routing_key.clone(),
        mandatory,
        &message.body,
        message.properties.clone(),
    );
    publishing.await?.await
}

fn unconfirmed() -> Error {
    Error::new(ErrorKind::Failed, "publish to RabbitMQ on a channel without confirms")
}
