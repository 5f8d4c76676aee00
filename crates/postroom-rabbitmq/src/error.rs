//! Maps errors of the driver to errors of Postroom, and limits the time of its calls.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use postroom::{Error, ErrorKind, Result};
use tokio::time::timeout;

/// Timeout of a call to RabbitMQ.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Awaits a driver call with a timeout.
pub(crate) async fn with_timeout<T>(
    doing: impl Fn() -> String,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T> {
    match timeout(RESPONSE_TIMEOUT, call).await {
        Ok(answer) => answer.map_err(|error| failed(doing(), error)),
        Err(_late) => Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "{}: timeout: RabbitMQ did not respond within {RESPONSE_TIMEOUT:?}",
                doing()
            ),
        )),
    }
}

/// An error with the failed operation and the driver's error as its cause.
pub(crate) fn failed(doing: String, error: lapin::Error) -> Error {
    Error::caused(kind(&error), doing, cause(error))
}

/// The error inside the driver's error, because the outer text only repeats it.
pub(crate) fn cause(error: lapin::Error) -> Box<dyn StdError + Send + Sync> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(protocol_error) => Box::new(protocol_error.clone()),
        lapin::ErrorKind::IOError(source) => Box::new(Arc::clone(source)),
        _ => Box::new(error),
    }
}

/// A soft error closes the channel and concerns the request. Every other error means that the connection is lost.
fn kind(error: &lapin::Error) -> ErrorKind {
    let lapin::ErrorKind::ProtocolError(protocol_error) = error.kind() else {
        return ErrorKind::Unavailable;
    };
    match protocol_error.kind() {
        AMQPErrorKind::Hard(_) => ErrorKind::Unavailable,
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => ErrorKind::NotFound,
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED | AMQPSoftError::RESOURCELOCKED) => ErrorKind::Conflict,
        AMQPErrorKind::Soft(_) => ErrorKind::Failed,
    }
}
