//! What the driver's errors mean to us, and how long a step may take.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use postroom::{Error, ErrorKind, Result};
use tokio::time::timeout;

/// A step that RabbitMQ has not answered by then has failed.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Takes a step on a connection, in time.
pub(crate) async fn step<T>(doing: impl Fn() -> String, step: impl Future<Output = lapin::Result<T>>) -> Result<T> {
    match timeout(ANSWER_MAX, step).await {
        Ok(answer) => answer.map_err(|error| fault(doing(), error)),
        Err(_late) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("{}: RabbitMQ has not answered in {ANSWER_MAX:?}", doing()),
        )),
    }
}

/// An error of the driver's, with its kind.
pub(crate) fn fault(doing: String, error: lapin::Error) -> Error {
    Error::caused(kind(&error), doing, cause(error))
}

/// The error inside the driver's, which would say the same again.
pub(crate) fn cause(error: lapin::Error) -> Box<dyn StdError + Send + Sync> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(said) => Box::new(said.clone()),
        lapin::ErrorKind::IOError(source) => Box::new(Arc::clone(source)),
        _ => Box::new(error),
    }
}

/// What closes one channel says something about what was asked; everything else is a connection that is gone.
fn kind(error: &lapin::Error) -> ErrorKind {
    let lapin::ErrorKind::ProtocolError(said) = error.kind() else {
        return ErrorKind::Unavailable;
    };
    match said.kind() {
        AMQPErrorKind::Hard(_) => ErrorKind::Unavailable,
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => ErrorKind::NotFound,
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED | AMQPSoftError::RESOURCELOCKED) => ErrorKind::Conflict,
        AMQPErrorKind::Soft(_) => ErrorKind::Failed,
    }
}
