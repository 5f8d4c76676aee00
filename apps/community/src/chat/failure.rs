//! Why a request failed, and which failures are tried again.

use std::time::Duration;

use axum::http::StatusCode;
use postroom::{Error, ErrorKind};
use postroom_host::Problem;
use sea_orm::DbErr;

use super::domain::Refusal;

/// Attempts of one request. A concurrent resend, a deadlock or a broken connection ends one; the next sees what was committed.
const ATTEMPTS_MAX: u32 = 5;
const BACKOFF: Duration = Duration::from_millis(20);

/// The reason why a request was not executed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It breaks a rule.
    Refused(Refusal),
    /// The store failed.
    Broken(Error),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

impl From<DbErr> for Failure {
    fn from(error: DbErr) -> Self {
        Self::Broken(error.into())
    }
}

impl Failure {
    /// Whether the next attempt may succeed.
    fn is_transient(&self) -> bool {
        let transient = |error: &Error| matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable);
        matches!(self, Self::Broken(error) if transient(error))
    }
}

/// The attempts of one request.
#[derive(Debug, Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// Whether to try again; if so, after a short wait.
    pub(crate) async fn again<T>(&mut self, ended: &Result<T, Failure>) -> bool {
        self.0 += 1;
        let again = matches!(ended, Err(failure) if failure.is_transient()) && self.0 < ATTEMPTS_MAX;
        if again {
            tokio::time::sleep(BACKOFF * self.0).await;
        }
        again
    }
}

/// Runs a transaction, and again if it lost a race.
macro_rules! attempt {
    ($run:expr) => {{
        let mut attempts = crate::chat::failure::Attempts::default();
        loop {
            let ended = $run.await;
            if !attempts.again(&ended).await {
                break ended;
            }
        }
    }};
}
pub(crate) use attempt;

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::Invalid(_) | Refusal::ClientMsgIdReused => StatusCode::UNPROCESSABLE_ENTITY,
            Refusal::UnknownRoom | Refusal::UnknownMessage => StatusCode::NOT_FOUND,
            Refusal::NotYourMessage | Refusal::NotOwner => StatusCode::FORBIDDEN,
            Refusal::RoomFull | Refusal::Deleted => StatusCode::CONFLICT,
        };
        Self::new(status, refusal.code(), refusal.to_string())
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Broken(error) => error.into(),
        }
    }
}
