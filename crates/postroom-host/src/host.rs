//! The process as HTTP handlers, alert rules and parts of a module see it.

use std::net::IpAddr;
use std::sync::Arc;

use postroom::operate::Carrier;
use postroom::{Health, Inspect, Relay, Result, Route, To, Tx, table};
use postroom_access::Member;
use postroom_monitor::{Readiness, ReadinessReport};
use postroom_shared::SharedState;

use crate::access::Authenticator;
use crate::problem::Problem;

/// The process a module runs in: its store, how its relay is doing, and what its routes carry. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Host {
    /// The store.
    pub store: Arc<dyn Inspect>,
    /// How the relay of this process is doing.
    pub health: Arc<Health>,
    /// The state that the instances of the service share. Each instance has its own, unless the platform was given one.
    pub shared: SharedState,
    readiness: Readiness,
    /// Checks tokens. Only the host of a platform has one.
    pub(crate) authenticator: Option<Arc<Authenticator>>,
    routes: Arc<[Carrier]>,
    /// From which type to which the subscribers of the relay turn events.
    pub(crate) upcasts: Arc<[(String, String)]>,
}

impl Host {
    /// A process with this store and this relay, which has all its routes.
    pub fn new(store: Arc<dyn Inspect>, relay: &Relay) -> Self {
        Self {
            readiness: Readiness::new(Arc::clone(&store), relay),
            authenticator: None,
            store,
            health: relay.health(),
            shared: SharedState::local(),
            routes: relay.routes().iter().map(carrier).collect(),
            upcasts: relay.routes().iter().flat_map(upcasts).collect(),
        }
    }

    /// The routes that carry events of these types, whatever they are called: to subscribers, to brokers, to other destinations.
    pub fn carriers(&self, types: &[&str]) -> Vec<Carrier> {
        let carries = |route: &&Carrier| types.iter().any(|event| route.filter.matches(event));
        self.routes.iter().filter(carries).cloned().collect()
    }

    /// The member whose token this is. For tokens that do not come in the header `authorization`, which the server checks: in a
    /// message of a WebSocket, for example. Refused tokens count against the client's address as those in headers do.
    pub async fn member(&self, token: &str, client: Option<IpAddr>) -> Result<Arc<Member>, Problem> {
        match &self.authenticator {
            Some(authenticator) => authenticator.member(token, client).await,
            None => Err(Problem::failed()),
        }
    }

    /// Whether entries move in this process, and if not, why.
    pub async fn readiness(&self) -> ReadinessReport {
        self.readiness.check().await
    }

    /// The same without the reasons. It asks the database for nothing.
    pub(crate) fn is_ready(&self) -> bool {
        self.health.troubles().is_empty()
    }

    /// Begins a transaction: write what changed, `emit` what happened, commit both.
    pub async fn begin(&self) -> Result<Tx> {
        table::begin(self.store.db()).await
    }
}

/// What a route carries.
pub(crate) fn carrier(route: &Route) -> Carrier {
    Carrier {
        ordering: route.ordering,
        ..Carrier::new(&route.name, route.filter.clone())
    }
}

fn upcasts(route: &Route) -> Vec<(String, String)> {
    match &route.to {
        To::Subscriber(subscriber) => {
            let pair = |upcaster: &postroom::Upcaster| (upcaster.from().to_owned(), upcaster.to().to_owned());
            subscriber.upcasters.iter().map(pair).collect()
        }
        To::Destination(_) => Vec::new(),
    }
}
