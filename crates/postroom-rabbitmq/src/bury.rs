//! Copies of dead letters, where RabbitMQ's own tools find them: a queue of each group's and topic's.

use std::sync::Arc;

use postroom::{Error, ErrorKind, Letter, Result};

use crate::confirm::Outcome;
use crate::outlet::Outlet;
use crate::parcel::{Parcel, short};
use crate::topology::{Names, declare_queue};

/// How much of an error is kept: all headers of a message share one frame.
const ERROR_CHARS_MAX: usize = 4_000;

/// Keeps a copy, durably.
pub(crate) async fn bury(outlet: &Outlet, names: &Names, letter: &Letter) -> Result<()> {
    let queue = names.dead(&letter.origin.topic, &letter.group);
    let parcel = parcel(letter, &queue)?;
    let channel = outlet.channel().await?;
    declare_queue(&channel, &short(&*queue)?, &[]).await?;
    let answer = outlet.send(&[parcel]).await.into_iter().next();
    let doing = format!("bury a dead letter in the queue {queue}");
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

fn parcel(letter: &Letter, queue: &str) -> Result<Parcel> {
    let error: String = letter.error.chars().take(ERROR_CHARS_MAX).collect();
    let extra = [
        ("postroom-origin-topic", letter.origin.topic.clone()),
        ("postroom-origin-place", letter.origin.place.clone()),
        ("postroom-group", letter.group.clone()),
        ("postroom-error", error),
        ("postroom-attempts", letter.attempts.to_string()),
    ];
    let parcel = Parcel::to_queue(queue, letter.content_type.as_deref(), &letter.attributes, &extra)?;
    Ok(Parcel {
        body: letter.body.clone(),
        ..parcel
    })
}
