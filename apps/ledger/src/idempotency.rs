//! One effect per idempotency key. The response is stored in the transaction of the effect, and a repeated request returns
//! the stored response. An attempt that loses a race is rolled back completely, with its event, and retried.

use std::time::{Duration, Instant};

use axum::body::to_bytes;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom::{Error, ErrorKind, Result};
use postroom_host::{Host, Problem};
use uuid::Uuid;

use crate::command::Command;
use crate::domain::Refusal;
use crate::posting::{Failure, Locking};
use crate::tables::request::{self, Answered};

const HEADER: &str = "idempotency-key";
const KEY_BYTES_MAX: usize = 200;
/// The namespace of the request ids.
const NAMESPACE: Uuid = Uuid::from_u128(0x5e1d_9c0a_77f4_4c53_9b7e_1f6f_0c2d_8a31);
/// Limits of the retries of one request, by number and by time: the client is waiting.
const ATTEMPTS_MAX: u32 = 20;
const TIME_MAX: Duration = Duration::from_secs(20);
/// After this many optimistic attempts, the next one locks the accounts first, so no concurrent posting can overtake it.
const OPTIMISTIC_ATTEMPTS: u32 = 4;
/// Backoff between two attempts. The upper limit doubles up to the maximum, and the wait is random below it, so competing
/// requests do not collide again.
const BACKOFF_FIRST: Duration = Duration::from_millis(4);
const BACKOFF_MAX: Duration = Duration::from_millis(256);
/// Larger than any response of this API.
const ANSWER_BYTES_MAX: usize = 1 << 16;

/// The `Idempotency-Key` header of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(Uuid);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let Some(key) = parts.headers.get(HEADER) else {
            let detail = "send a header Idempotency-Key that is new for each request, such as a UUID";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "missing_idempotency_key", detail));
        };
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let detail = format!("the header Idempotency-Key must have 1 to {KEY_BYTES_MAX} bytes");
            return Err(Problem::new(StatusCode::BAD_REQUEST, "bad_idempotency_key", detail));
        }
        Ok(Self(Uuid::new_v5(&NAMESPACE, key.as_bytes())))
    }
}

/// Executes the command once for this key and returns the response. A repeated request returns the stored response.
pub(crate) async fn once(host: &Host, Key(key): Key, command: &Command) -> Result<Response, Problem> {
    let text = serde_json::to_vec(command).map_err(Error::from)?;
    let fingerprint = Uuid::new_v5(&NAMESPACE, &text).to_string(); // short, for a request of any size
    let begun = Instant::now();
    for attempt in 0..ATTEMPTS_MAX {
        let locking = match attempt {
            ..OPTIMISTIC_ATTEMPTS => Locking::Optimistic,
            OPTIMISTIC_ATTEMPTS.. => Locking::Pessimistic,
        };
        match try_once(host, key, (command, &fingerprint), locking).await {
            Ok(answered) => return respond(&answered, &fingerprint),
            Err(Failure::Broken(error)) if !is_transient(&error) || begun.elapsed() > TIME_MAX => {
                return Err(error.into());
            }
            Err(_retryable) if begun.elapsed() > TIME_MAX => break,
            Err(_retryable) => tokio::time::sleep(backoff(attempt, rand::random())).await,
        }
    }
    let detail = "too many concurrent postings to this account; send the same request again";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "contended", detail))
}

/// True for a conflict (the same key or the same reversal was just committed), a deadlock and a broken connection. The next
/// attempt reads the committed state.
fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable)
}

fn backoff(attempt: u32, roll: f64) -> Duration {
    let longest = BACKOFF_FIRST.saturating_mul(1 << attempt.min(16)).min(BACKOFF_MAX);
    longest.mul_f64(roll)
}

async fn try_once(
    host: &Host,
    key: Uuid,
    (command, fingerprint): (&Command, &str),
    locking: Locking,
) -> Result<Answered, Failure> {
    let tx = host.begin().await?;
    if let Some(answered) = request::find(&tx, key).await? {
        tx.rollback().await?;
        return Ok(answered);
    }
    match command.execute(&tx, locking).await {
        Ok(outcome) => {
            let answered = answer(fingerprint, (StatusCode::CREATED, axum::Json(outcome))).await?;
            request::insert(&tx, key, &answered).await?;
            tx.commit().await?;
            Ok(answered)
        }
        Err(Failure::Refused(refusal)) => {
            tx.rollback().await?; // the changes made before the rule failed
            let tx = host.begin().await?;
            let answered = answer(fingerprint, problem(&refusal)).await?;
            request::insert(&tx, key, &answered).await?;
            tx.commit().await?;
            Ok(answered)
        }
        Err(other) => {
            tx.rollback().await?;
            Err(other)
        }
    }
}

/// Converts a refusal into an HTTP problem.
pub(crate) fn problem(refusal: &Refusal) -> Problem {
    let status = match refusal {
        Refusal::UnknownAccount | Refusal::UnknownTransaction => StatusCode::NOT_FOUND,
        Refusal::ReversedTwice => StatusCode::CONFLICT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Problem::new(status, refusal.code(), refusal.to_string())
}

/// Converts a response into a row to store.
async fn answer(command: &str, response: impl IntoResponse) -> Result<Answered> {
    let response = response.into_response();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), ANSWER_BYTES_MAX)
        .await
        .map_err(|source| Error::caused(ErrorKind::Failed, "write an answer", source))?;
    Ok(Answered {
        command: command.to_owned(),
        status,
        answer: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// Converts a stored row into a response. Rejects a key that was used for a different request.
fn respond(answered: &Answered, fingerprint: &str) -> Result<Response, Problem> {
    if answered.command != fingerprint {
        let detail = "this Idempotency-Key belongs to a different request; send a new key";
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "idempotency_key_reused",
            detail,
        ));
    }
    let status = StatusCode::from_u16(answered.status).map_err(|_odd| Problem::failed())?;
    let kind = match status.is_success() {
        true => "application/json",
        false => "application/problem+json",
    };
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))];
    Ok((status, kind, answered.answer.clone()).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_is_spread() {
        assert_eq!(backoff(0, 1.0), BACKOFF_FIRST);
        assert_eq!(backoff(2, 0.5), BACKOFF_FIRST * 2);
        assert_eq!(backoff(ATTEMPTS_MAX, 1.0), BACKOFF_MAX);
        assert_eq!(backoff(5, 0.0), Duration::ZERO);
    }
}
