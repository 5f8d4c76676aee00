//! What all doors have in common.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use postroom::Error;
use postroom_host::Problem;
use sea_orm::DatabaseTransaction;
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

/// Commits what a request did. Unless it gets here, it did nothing.
pub(crate) async fn commit(tx: DatabaseTransaction) -> Result<(), Problem> {
    Ok(tx.commit().await.map_err(Error::from)?)
}

/// A new id; later ones are greater.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}
