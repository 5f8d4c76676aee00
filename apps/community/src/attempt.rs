//! Transactions of requests that lose a race and are run again.

use std::time::Duration;

use axum::http::StatusCode;
use postroom::{Error, ErrorKind};
use postroom_host::Problem;
use sea_orm::DbErr;
use tokio::time::{Instant, sleep};

use crate::domain::Refusal;

/// Attempts of one request. A deadlock, a concurrent request or a broken connection ends one; the next sees what was committed.
const ATTEMPTS_MAX: u32 = 5;
/// A client waits: after this time no new attempt begins.
const TIME_MAX: Duration = Duration::from_secs(3);
const BACKOFF: Duration = Duration::from_millis(10);

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

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::Unknown(_) => StatusCode::NOT_FOUND,
            Refusal::NotYourComment => StatusCode::FORBIDDEN,
            Refusal::VoteClosed => StatusCode::CONFLICT,
            Refusal::Invalid(_) | Refusal::OwnFollow => StatusCode::UNPROCESSABLE_ENTITY,
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

/// The attempts of one request.
#[derive(Debug)]
pub(crate) struct Attempts {
    made: u32,
    begun: Instant,
}

impl Attempts {
    pub(crate) fn begin() -> Self {
        Self {
            made: 1,
            begun: Instant::now(),
        }
    }

    /// Whether to try again after this failure; it waits until then.
    pub(crate) async fn again(&mut self, failure: &Failure) -> bool {
        if !is_transient(failure) || self.made >= ATTEMPTS_MAX || self.begun.elapsed() > TIME_MAX {
            return false;
        }
        sleep(BACKOFF * self.made).await;
        self.made += 1;
        true
    }
}

fn is_transient(failure: &Failure) -> bool {
    matches!(failure, Failure::Broken(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_lost_a_race_is_tried_again_and_one_that_breaks_a_rule_is_not() {
        let mut attempts = Attempts::begin();
        assert!(!attempts.again(&Refusal::VoteClosed.into()).await);
        assert!(!attempts.again(&Error::invalid("no").into()).await);
        let deadlock = Failure::Broken(Error::new(ErrorKind::Unavailable, "deadlock"));
        for _ in 1..ATTEMPTS_MAX {
            assert!(attempts.again(&deadlock).await);
        }
        assert!(!attempts.again(&deadlock).await, "{attempts:?}");
        let mut slow = Attempts::begin();
        sleep(TIME_MAX * 2).await;
        assert!(!slow.again(&deadlock).await, "the client has waited long enough");
    }
}
