//! The effects of handlers, in a transaction that is still open.

use sea_orm::DatabaseConnection;

use crate::destination::Receipt;
use crate::error::Result;
use crate::store::table;
use crate::store::tx::Tx;

/// Effects that are not committed yet. Dropping them rolls them back. Only `relay::settle` commits them, together with the
/// progress of the route.
#[derive(Debug)]
pub(crate) struct OpenEffects {
    tx: Tx,
}

/// The first entries that a subscriber has handled.
#[derive(Debug)]
pub(crate) struct Handled {
    /// One for each of them.
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) effects: OpenEffects,
}

impl OpenEffects {
    pub(super) fn new(tx: Tx) -> Self {
        Self { tx }
    }

    /// A transaction without effects, for progress alone.
    pub(crate) async fn without_effects(db: &DatabaseConnection) -> Result<Self> {
        Ok(Self::new(table::begin_own(db).await?))
    }

    /// The transaction that holds the effects.
    pub(crate) fn tx(&self) -> &Tx {
        &self.tx
    }

    /// Ends the transaction without effects.
    pub(crate) fn roll_back(self) {
        let Self { tx: _dropped } = self;
    }

    pub(crate) async fn commit(self) -> Result<()> {
        self.tx.commit().await
    }
}
