//! Why no connection was opened.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom::{Error, ErrorKind};
use postroom_host::Problem;

/// Why no connection was opened. It is an HTTP response.
#[derive(Debug)]
pub enum Refused {
    /// This tab, connection or ticket was evicted: 204, which ends the reconnects of an `EventSource`.
    Evicted,
    /// The state that instances share cannot be reached, or the process stops: 503 with `Retry-After`.
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// The journal failed.
    Failed(Error),
}

impl Refused {
    /// Its name in metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Unavailable { .. } => "unavailable",
            Self::Failed(_) => "failed",
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Evicted => StatusCode::NO_CONTENT.into_response(),
            Self::Unavailable { retry_after } => unavailable(retry_after),
            Self::Failed(error) if error.kind() == ErrorKind::Unavailable => {
                let mut response = Problem::from(error).into_response();
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
                response
            }
            Self::Failed(error) => Problem::from(error).into_response(),
        }
    }
}

/// After an error of the database.
const RETRY_AFTER_S: u64 = 5;

fn unavailable(retry_after: Duration) -> Response {
    let detail = "streams cannot be opened now; everything else answers. Try again later";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
    let seconds = HeaderValue::from(retry_after.as_secs().max(1));
    ([(header::RETRY_AFTER, seconds)], problem).into_response()
}
