//! What every HTTP handler of a module gets to work with.

use std::sync::Arc;

use postroom::{Inspect, Result, Vitals, table};
use sea_orm::DatabaseTransaction;

/// The process a module runs in: its store and how its relay is doing. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Host {
    /// The store.
    pub store: Arc<dyn Inspect>,
    /// How the relay of this process is doing.
    pub vitals: Arc<Vitals>,
}

impl Host {
    /// Begins a transaction: write what changed, `emit` what happened, commit both.
    pub async fn begin(&self) -> Result<DatabaseTransaction> {
        table::begin(self.store.db()).await
    }
}
