//! What every HTTP handler and alert rule of a module gets to work with.

use std::sync::Arc;

use postroom::inspect::Carrier;
use postroom::{Inspect, Relay, Result, Vitals, table};
use sea_orm::DatabaseTransaction;

/// The process a module runs in: its store, how its relay is doing, and what its routes carry. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Host {
    /// The store.
    pub store: Arc<dyn Inspect>,
    /// How the relay of this process is doing.
    pub vitals: Arc<Vitals>,
    routes: Arc<[Carrier]>,
}

impl Host {
    /// A process with this store and this relay, which has all its routes.
    pub fn new(store: Arc<dyn Inspect>, relay: &Relay) -> Self {
        let carrier = |route: &postroom::Route| Carrier {
            route: route.name.clone(),
            filter: route.filter.clone(),
        };
        Self {
            store,
            vitals: relay.vitals(),
            routes: relay.routes().iter().map(carrier).collect(),
        }
    }

    /// The routes that carry events of these types, whatever they are called: to subscribers, to brokers, to other destinations.
    pub fn carriers(&self, types: &[&str]) -> Vec<Carrier> {
        let carries = |route: &&Carrier| types.iter().any(|event| route.filter.matches(event));
        self.routes.iter().filter(carries).cloned().collect()
    }

    /// Begins a transaction: write what changed, `emit` what happened, commit both.
    pub async fn begin(&self) -> Result<DatabaseTransaction> {
        table::begin(self.store.db()).await
    }
}
