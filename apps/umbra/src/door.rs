//! What all doors have in common.

use postroom::Error;
use postroom_host::Problem;
use sea_orm::DatabaseTransaction;
use uuid::Uuid;

/// Commits what a request did. Unless it gets here, it did nothing.
pub(crate) async fn commit(tx: DatabaseTransaction) -> Result<(), Problem> {
    Ok(tx.commit().await.map_err(Error::from)?)
}

/// A new id; later ones are greater.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}
