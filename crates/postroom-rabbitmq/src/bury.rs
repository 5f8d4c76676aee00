//! Copies dead letters to one queue per group and topic, where RabbitMQ tools can read them.

use std::sync::Arc;

use postroom::{Error, ErrorKind, Letter, Result};

use crate::confirm::Outcome;
use crate::message::{OutgoingMessage, short_string};
use crate::sender::MessageSender;
use crate::topology::{Names, declare_queue};

/// A longer error text is truncated, because all headers of a message must fit into one frame.
const ERROR_CHARS_MAX: usize = 4_000;

/// Publishes a durable copy and waits for its confirm.
pub(crate) async fn bury(sender: &MessageSender, names: &Names, letter: &Letter) -> Result<()> {
    let queue = names.dead(&letter.origin.topic, &letter.group);
    let message = outgoing(letter, &queue)?;
    let channel = sender.channel().await?;
    declare_queue(&channel, &short_string(&*queue)?, &[]).await?;
    let answer = sender.send(&[message]).await.into_iter().next();
    let doing = format!("copy a dead letter to the queue {queue}");
    match answer {
        Some(Ok(Outcome::Stored)) => Ok(()),
        Some(Ok(outcome)) => Err(Error::new(ErrorKind::Failed, format!("{doing}: {outcome:?}"))),
        Some(Err(error)) => Err(caused(doing, error)),
        None => Err(Error::new(ErrorKind::Failed, doing)),
    }
}

fn caused(doing: String, error: Arc<Error>) -> Error {
    Error::caused(error.kind(), doing, error)
}

fn outgoing(letter: &Letter, queue: &str) -> Result<OutgoingMessage> {
    let error: String = letter.error.chars().take(ERROR_CHARS_MAX).collect();
    let extra = [
        ("postroom-origin-topic", letter.origin.topic.clone()),
        ("postroom-origin-place", letter.origin.place.clone()),
        ("postroom-group", letter.group.clone()),
        ("postroom-error", error),
        ("postroom-attempts", letter.attempts.to_string()),
    ];
    let message = OutgoingMessage::to_queue(queue, letter.content_type.as_deref(), &letter.attributes, &extra)?;
    Ok(OutgoingMessage {
        body: letter.body.clone(),
        ..message
    })
}
