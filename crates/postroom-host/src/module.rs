//! A module: what an application or a product feature brings to a host.

use axum::Router;
use postroom::{DomainEvent, EventType, Inspect, Job, Migration, Naming, Relay, Result, Subscriber, Topic, migration};
use schemars::JsonSchema;

use crate::alert::{Finding, Rule, Watch};
use crate::host::Host;

/// Everything one application brings, under one name.
///
/// ```
/// # mod http { pub(crate) fn routes() -> axum::Router<postroom_host::Host> { axum::Router::new() } }
/// # #[derive(serde::Serialize, schemars::JsonSchema)]
/// # struct OrderPaid { order_id: String }
/// # impl postroom::DomainEvent for OrderPaid {
/// #     const TYPE: &'static str = "shop.order.paid.v1";
/// #     const AGGREGATE_TYPE: &'static str = "order";
/// #     fn aggregate_id(&self) -> String { self.order_id.clone() }
/// # }
/// # async fn count_sale(_: &mut postroom::Tx, _: &postroom::Event) -> postroom::Result<()> { Ok(()) }
/// use postroom::Subscriber;
/// use postroom_host::Module;
///
/// let module = Module::new("commerce")
///     .event::<OrderPaid>()
///     .subscriber(Subscriber::matching("product-sales", ["shop.order.*.v1"], count_sale))
///     .routes(http::routes());
/// assert_eq!(module.subscribers.len(), 1);
/// ```
#[derive(Debug)]
pub struct Module {
    /// Its name: its migrations are kept under it.
    pub name: &'static str,
    /// Its tables, in plain SQL that every database takes.
    pub tables: Vec<Migration>,
    /// The events it emits.
    pub events: Vec<EventType>,
    /// How they are named.
    pub naming: Naming,
    /// Where they belong on a broker.
    pub topic: Topic,
    /// Who listens to what.
    pub subscribers: Vec<Subscriber>,
    /// Its HTTP routes, with their full paths.
    pub routes: Router<Host>,
    /// What it does now and then.
    pub jobs: Vec<Job>,
    /// When somebody should know.
    pub alerts: Vec<Watch>,
}

impl Module {
    /// A module with nothing in it.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            tables: Vec::new(),
            events: Vec::new(),
            naming: Naming::default(),
            topic: Topic::default(),
            subscribers: Vec::new(),
            routes: Router::new(),
            jobs: Vec::new(),
            alerts: Vec::new(),
        }
    }

    /// Adds tables: migrations numbered from 1, in SQL that PostgreSQL, MySQL and SQLite all take.
    #[must_use]
    pub fn tables(mut self, tables: impl IntoIterator<Item = Migration>) -> Self {
        self.tables.extend(tables);
        self
    }

    /// Adds an event that the module emits.
    #[must_use]
    pub fn event<E: DomainEvent + JsonSchema>(mut self) -> Self {
        self.events.push(EventType::of::<E>());
        self
    }

    /// Says how its events are named, if not `{company}.{domain}.{action}.v{version}`.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    /// Says where its events belong on a broker, if not in `{domain}-events`.
    #[must_use]
    pub fn topic(mut self, topic: Topic) -> Self {
        self.topic = topic;
        self
    }

    /// Adds a subscriber.
    #[must_use]
    pub fn subscriber(mut self, subscriber: Subscriber) -> Self {
        self.subscribers.push(subscriber);
        self
    }

    /// Adds HTTP routes. Paths are not prefixed: begin them with the module's name unless a contract says otherwise.
    #[must_use]
    pub fn routes(mut self, routes: Router<Host>) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Adds a job.
    #[must_use]
    pub fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds alert rules, and the look that judges all of them: one finding for each, in the same order.
    ///
    /// ```
    /// use postroom::alert::Channel;
    /// use postroom::{Result, operate};
    /// use postroom_host::{Finding, Host, Module, Rule};
    ///
    /// const RULES: [Rule; 1] = [Rule {
    ///     name: "shop_events_failed",
    ///     channel: Channel::Slack,
    ///     says: "events of the shop were given up",
    ///     next: "postroom dead list",
    /// }];
    ///
    /// async fn look(host: Host) -> Result<[Finding; 1]> {
    ///     let types = ["shop.order.paid.v1"];
    ///     let failures = operate::failures(&*host.store, &types, &host.carriers(&types)).await?;
    ///     Ok([Finding::above(failures.dead as f64, 0.0)])
    /// }
    ///
    /// let module = Module::new("shop").alerts(RULES, look);
    /// assert_eq!(module.alerts.len(), 1);
    /// ```
    #[must_use]
    pub fn alerts<const N: usize, F, Fut>(mut self, rules: [Rule; N], look: F) -> Self
    where
        F: Fn(Host) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<[Finding; N]>> + Send + 'static,
    {
        self.alerts.push(Watch::new(rules, look));
        self
    }

    /// Brings the module's tables up to date; answers what was applied.
    pub async fn migrate(&self, store: &dyn Inspect) -> Result<Vec<Migration>> {
        migration::up(store.db(), self.name, &self.tables).await
    }

    /// Hands the subscribers and jobs to a relay; what is left is for [`crate::Server::mount`].
    pub fn join(&mut self, relay: Relay) -> Relay {
        let relay = self.subscribers.drain(..).fold(relay, Relay::subscriber);
        self.jobs.drain(..).fold(relay, Relay::job)
    }
}
