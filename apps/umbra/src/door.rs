//! What all doors have in common.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use postroom::Tx;
use postroom_host::Problem;
use serde::Deserialize;
use uuid::Uuid;

use crate::refusal::check_id;

/// An id in an address: of what one in a body is made of, so that no database is asked for anything else.
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

/// Most entries of a listing in one answer.
const LIMIT: u64 = 100;

/// Which part of a listing: what comes after an id, and at most so many.
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
        self.limit.unwrap_or(LIMIT).clamp(1, LIMIT)
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
        Ok(part)
    }
}

/// Commits what a request did. Unless it gets here, it did nothing.
pub(crate) async fn commit(tx: Tx) -> Result<(), Problem> {
    Ok(tx.commit().await?)
}

/// A new id; later ones are greater.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}
