//! Errors over HTTP: problem+json (RFC 9457) with a stable code, and nothing of a driver's text.

use std::fmt;

use axum::extract::rejection::{BytesRejection, JsonRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom::{Error, ErrorKind, Fault};
use serde::Serialize;

/// An error, as a client sees it. Clients branch on `code`, people read `detail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
}

impl Problem {
    /// A problem with a stable code.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
        }
    }

    /// The code for clients.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The explanation of the error, for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The request breaks a rule; the same request fails again.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// A fault of ours; the log says more.
    pub fn failed() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "failed",
            "the request failed; the server's log says why",
        )
    }
}

/// For people: the text of a log line if there is no client to answer.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

impl From<Error> for Problem {
    /// If the client can correct the error, it gets our own words. Other errors go to the log, because their chain holds the
    /// driver's text.
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::invalid(error.doing()),
            ErrorKind::NotFound => Self::not_found(error.doing()),
            ErrorKind::Conflict => Self::new(StatusCode::CONFLICT, "conflict", "it is there already"),
            ErrorKind::Unsupported => Self::new(StatusCode::NOT_IMPLEMENTED, "unsupported", error.doing()),
            ErrorKind::Unavailable => {
                tracing::warn!(error = error.report(), "request could not be served");
                let detail = match Fault::of(&error) {
                    Fault::DiskFull => {
                        "the database's disk is full and nothing was recorded; try again when there is room"
                    }
                    _ => "the store cannot be reached now; try again later",
                };
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            }
            ErrorKind::Deposed | ErrorKind::Failed => {
                tracing::error!(error = error.report(), "request failed");
                Self::failed()
            }
        }
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Self {
        let code = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => "too_large",
            _ => "malformed",
        };
        Self::new(rejection.status(), code, rejection.body_text())
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let code = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => "too_large",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "media_type",
            StatusCode::UNPROCESSABLE_ENTITY => "invalid",
            _ => "malformed",
        };
        Self::new(rejection.status(), code, rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Document<'a> {
            title: &'a str,
            status: u16,
            code: &'a str,
            detail: &'a str,
        }
        let document = Document {
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
        };
        let mut response = (self.status, axum::Json(document)).into_response();
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postroom::Condition;

    #[test]
    fn a_clients_mistake_is_told_and_a_drivers_text_is_not() {
        let check = |error: Error, code: &str, detail: &str| {
            let problem = Problem::from(error);
            assert_eq!(problem.code, code);
            assert_eq!(problem.detail, detail);
        };
        let driver = || std::io::Error::other("relation \"secret\" does not exist");
        check(Error::invalid("quantity is 0"), "invalid", "quantity is 0");
        check(
            Error::caused(ErrorKind::Invalid, "write a row", driver()),
            "invalid",
            "write a row",
        );
        check(
            Error::caused(ErrorKind::Failed, "write a row", driver()),
            "failed",
            "the request failed; the server's log says why",
        );
        check(
            Error::caused(ErrorKind::Unavailable, "write a row", driver()),
            "unavailable",
            "the store cannot be reached now; try again later",
        );
        check(
            Error::caused(ErrorKind::Unavailable, "write a row", driver()).meaning(Condition::DiskFull),
            "unavailable",
            "the database's disk is full and nothing was recorded; try again when there is room",
        );
    }
}
