//! The effects of handlers, in a transaction that is still open.

use sea_orm::DatabaseConnection;

use crate::destination::Receipt;
use crate::error::Result;
use crate::store::table;
use crate::store::tx::Tx;

/// Effects that are not committed yet. Dropping them rolls them back. Only the relay's `settle` commits them, together with the
/// progress of the route.
#[derive(Debug)]
pub(crate) struct OpenEffects {
    /// The answers to the first of the entries.
    pub(crate) receipts: Vec<Receipt>,
    tx: Tx,
}

impl OpenEffects {
    pub(super) fn new(receipts: Vec<Receipt>, tx: Tx) -> Self {
        Self { receipts, tx }
    }

    /// A transaction without effects, for progress alone.
    pub(crate) async fn none(db: &DatabaseConnection) -> Result<Self> {
        Ok(Self::new(Vec::new(), table::begin_own(db).await?))
    }

    /// The transaction that holds the effects.
    pub(crate) fn tx(&self) -> &Tx {
        &self.tx
    }

    pub(crate) async fn commit(self) -> Result<()> {
        self.tx.commit().await
    }
}
