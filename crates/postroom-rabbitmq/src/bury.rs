//! Copies of dead letters: one queue per group and topic, where RabbitMQ tools can read them.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicGetOptions};
use lapin::types::ShortString;
use postroom::{Error, ErrorKind, Letter, Mark, Message, Result, Subscription};

use crate::confirm::Outcome;
use crate::connect::Connector;
use crate::error::with_timeout;
use crate::message::{OutgoingMessage, short_string, to_message};
use crate::sender::MessageSender;
use crate::session::close;
use crate::topology::{Names, Source, declare_queue, delivery_limit, is_limit_refused};

/// A longer error text is truncated, because all headers of a message must fit into one frame.
const ERROR_CHARS_MAX: usize = 4_000;

/// Publishes a durable copy and waits for its confirm.
pub(crate) async fn bury(sender: &MessageSender, names: &Names, letter: &Letter) -> Result<()> {
    let queue = names.dead(&letter.origin.topic, &letter.group);
    let error: String = letter.error.chars().take(ERROR_CHARS_MAX).collect();
    let marks = Letter {
        error,
        ..letter.clone()
    }
    .marks();
    let message = OutgoingMessage::of_letter(letter, &queue, &marks)?;
    declare_dead(&short_string(&*queue)?, sender.connector()?).await?;
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

/// Declares the queue of a group's dead letters, with the largest delivery limit: copies that are looked at and given back count as
/// redelivered. Returns whether the queue has this limit; one of an older version has none.
pub(crate) async fn declare_dead(queue: &ShortString, connector: &Connector) -> Result<bool> {
    match declare_queue(&connector.channel().await?, queue, &[delivery_limit()]).await {
        Ok(()) => Ok(true),
        Err(error) if is_limit_refused(&error) => {
            declare_queue(&connector.channel().await?, queue, &[]).await?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The copies in the dead-letter queues of a group. RabbitMQ hands out the messages of a queue only from its beginning, so those
/// that were looked at are held until the end; closing the channel puts them back to their places.
#[derive(Debug)]
pub(crate) struct Copies {
    channel: Channel,
    /// The queues that may hold more.
    queues: VecDeque<Source>,
}

impl Copies {
    /// Opens these queues. Creates missing ones.
    pub(crate) async fn open(connector: &Connector, queues: Vec<Source>) -> Result<Self> {
        for Source { queue, .. } in &queues {
            if !declare_dead(queue, connector).await? {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "the queue {queue} was created by an older version and has no delivery limit, so RabbitMQ 4 would drop copies \
                         that are looked at often: delete the queue once, Postroom creates it again"
                    ),
                ));
            }
        }
        Ok(Self {
            channel: connector.channel().await?,
            queues: queues.into(),
        })
    }

    /// The next copy; `None` at the end.
    async fn get(&mut self) -> Result<Option<Message>> {
        while let Some(source) = self.queues.front() {
            let getting = self.channel.basic_get(source.queue.clone(), BasicGetOptions::default());
            match with_timeout(|| format!("read the queue {}", source.queue), getting).await? {
                Some(got) => {
                    let tag = got.delivery.delivery_tag;
                    return Ok(Some(to_message(got.delivery, tag, source)));
                }
                None => drop(self.queues.pop_front()),
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl Subscription for Copies {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        let mut copies = Vec::new();
        while copies.len() < max {
            match self.get().await? {
                Some(copy) => copies.push(copy),
                None => break,
            }
        }
        Ok(copies)
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        for mark in done {
            let Mark::Tag(tag) = mark else {
                return Err(Error::invalid("this mark is not from RabbitMQ"));
            };
            let acknowledging = self.channel.basic_ack(*tag, BasicAckOptions::default());
            with_timeout(|| "remove the copy of a dead letter".to_owned(), acknowledging).await?;
        }
        Ok(())
    }

    /// They are given back at the end: given back now, they would come again at once.
    async fn nack(&mut self, _back: &[Mark]) -> Result<()> {
        Ok(())
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        close(&self.channel);
    }
}
