//! One effect per idempotency key. The answer to a request is kept in the transaction of its effect; whoever sends the same
//! request again gets the same answer. An attempt that was overtaken is rolled back whole, its event with it, and made again.

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
/// Ids of requests are made in this namespace.
const NAMESPACE: Uuid = Uuid::from_u128(0x5e1d_9c0a_77f4_4c53_9b7e_1f6f_0c2d_8a31);
/// How often a request is tried, and how long: a client waits.
const ATTEMPTS_MAX: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(20);
/// Who was overtaken this often locks first: then nobody overtakes.
const OPTIMISTIC_ATTEMPTS: u32 = 4;
/// Between two attempts, at most: doubled each time up to the longest, and spread over all of it, so that those who met once
/// do not meet again.
const PAUSE_FIRST: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(256);
/// Larger than any answer of ours.
const ANSWER_BYTES_MAX: usize = 1 << 16;

/// The request's `Idempotency-Key`.
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

/// Does what is asked, once for this key, and answers; or answers what was answered before.
pub(crate) async fn once(host: &Host, Key(key): Key, command: &Command) -> Result<Response, Problem> {
    let text = serde_json::to_vec(command).map_err(Error::from)?;
    let wanted = Uuid::new_v5(&NAMESPACE, &text).to_string(); // however long the request is
    let begun = Instant::now();
    for attempt in 0..ATTEMPTS_MAX {
        let locking = match attempt {
            ..OPTIMISTIC_ATTEMPTS => Locking::Optimistic,
            OPTIMISTIC_ATTEMPTS.. => Locking::First,
        };
        match try_once(host, key, (command, &wanted), locking).await {
            Ok(answered) => return respond(&answered, &wanted),
            Err(Failure::Broken(error)) if !is_passing(&error) || begun.elapsed() > PATIENCE => {
                return Err(error.into());
            }
            Err(_overtaken) if begun.elapsed() > PATIENCE => break,
            Err(_overtaken) => tokio::time::sleep(pause(attempt, rand::random())).await,
        }
    }
    let detail = "others posted to the account all the time; send the same request again";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "contended", detail))
}

/// A conflict (the same key, or the same reversal, just committed), a deadlock, a connection that broke: the next attempt finds
/// out what became of it.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable)
}

fn pause(attempt: u32, roll: f64) -> Duration {
    let longest = PAUSE_FIRST.saturating_mul(1 << attempt.min(16)).min(PAUSE_MAX);
    longest.mul_f64(roll)
}

async fn try_once(
    host: &Host,
    key: Uuid,
    (command, wanted): (&Command, &str),
    locking: Locking,
) -> Result<Answered, Failure> {
    let tx = host.begin().await?;
    if let Some(answered) = request::find(&tx, key).await? {
        tx.rollback().await?;
        return Ok(answered);
    }
    match command.execute(&tx, locking).await {
        Ok(outcome) => {
            let answered = answer(wanted, (StatusCode::CREATED, axum::Json(outcome))).await?;
            request::insert(&tx, key, &answered).await?;
            tx.commit().await?;
            Ok(answered)
        }
        Err(Failure::Refused(refusal)) => {
            tx.rollback().await?; // what was done before the rule was met
            let tx = host.begin().await?;
            let answered = answer(wanted, problem(&refusal)).await?;
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

/// A refusal over HTTP.
pub(crate) fn problem(refusal: &Refusal) -> Problem {
    let status = match refusal {
        Refusal::UnknownAccount | Refusal::UnknownTransaction => StatusCode::NOT_FOUND,
        Refusal::ReversedTwice => StatusCode::CONFLICT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Problem::new(status, refusal.code(), refusal.to_string())
}

/// A response, as it is kept.
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

/// What was kept, as a response; unless it was kept for another request.
fn respond(answered: &Answered, wanted: &str) -> Result<Response, Problem> {
    if answered.command != wanted {
        let detail = "this Idempotency-Key belongs to another request; take a new one";
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
    fn pauses_grow_and_are_spread() {
        assert_eq!(pause(0, 1.0), PAUSE_FIRST);
        assert_eq!(pause(2, 0.5), PAUSE_FIRST * 2);
        assert_eq!(pause(ATTEMPTS_MAX, 1.0), PAUSE_MAX);
        assert_eq!(pause(5, 0.0), Duration::ZERO);
    }
}
