//! Request parts that all HTTP APIs of the module share.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use postroom::Tx;
use postroom_host::Problem;
use serde::Deserialize;
use uuid::Uuid;

use crate::refusal::check_id;

/// An id in the path, with the same limits as an id in a body, so that no query runs with an invalid id.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(id) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::invalid(rejection.body_text()))?;
        check_id("the id in the address", &id)?;
        Ok(Self(id))
    }
}

/// Maximum number of entries in one response.
const LIMIT: u64 = 100;

/// The requested page of a list: entries after an id, up to a limit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    /// Empty: from the beginning.
    #[serde(default)]
    pub(crate) after: String,
    limit: Option<u64>,
}

impl Part {
    pub(crate) fn limit(&self) -> u64 {
        self.limit.unwrap_or(LIMIT)
    }
}

/// Refuses a limit that is out of range: it would otherwise end a list early without a word.
fn check_limit(limit: Option<u64>) -> Result<(), Problem> {
    match limit.unwrap_or(LIMIT) {
        1..=LIMIT => Ok(()),
        limit => Err(Problem::invalid(format!("limit is {limit}; give 1 to {LIMIT}"))),
    }
}

/// How many entries of a list that has no pages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limit {
    limit: Option<u64>,
}

impl Limit {
    pub(crate) fn get(&self) -> u64 {
        self.limit.unwrap_or(LIMIT)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Limit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(limit) = Query::<Self>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::invalid(rejection.body_text()))?;
        check_limit(limit.limit)?;
        Ok(limit)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Part {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(part) = Query::<Self>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::invalid(rejection.body_text()))?;
        if !part.after.is_empty() {
            check_id("after", &part.after)?;
        }
        check_limit(part.limit)?;
        Ok(part)
    }
}

/// Commits the changes of a request. Without this call the transaction is rolled back.
pub(crate) async fn commit(tx: Tx) -> Result<(), Problem> {
    Ok(tx.commit().await?)
}

/// A new id. Later ids are greater.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}
