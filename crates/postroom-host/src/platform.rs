//! The composition root: the only place that puts a process together.
//!
//! The daemon, the stage of the tests and services that embed modules all use it. It takes what the caller has opened (a store,
//! brokers, a listener), joins modules and routes to one relay, and adds alerts, metrics and the HTTP server.

mod check;
mod feed;
mod process;
mod retention;
mod retirement;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use postroom::{BoxError, CancellationToken, Inspect, Relay, Result, Route, Topic};
use postroom_monitor::Metrics;
use postroom_shared::SharedState;
use tokio::net::TcpListener;

use crate::access::Doors;
use crate::alert::{Alerts, Messengers};
use crate::catalog::Catalogue;
use crate::host::Host;
use crate::module::{Module, Part};
use crate::server::{HttpListener, Server, Serving};

pub use feed::Feed;
pub(crate) use feed::publishing_route;
pub(crate) use process::OWN;
pub use process::Process;
pub use retention::Retention;
pub use topics::Topics;

/// A relay's default.
const LEASE: Duration = Duration::from_secs(10);
/// How often alert rules are looked at, unless the caller says otherwise.
const ALERTS_EVERY: Duration = Duration::from_secs(30);

/// Puts a process together and runs it.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use postroom::{CancellationToken, Inspect};
/// use postroom_host::{Module, Platform, Retention};
///
/// async fn run(store: Arc<dyn Inspect>, module: Module, stop: CancellationToken) -> Result<(), postroom::BoxError> {
///     let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
///     let process = Platform::new(store)
///         .retention(Retention::default())
///         .module(module)
///         .serve(listener)
///         .build()?;
///     process.migrate().await?;
///     Ok(process.run(stop).await?)
/// }
/// ```
#[derive(Debug)]
#[must_use = "a platform does nothing until it runs"]
pub struct Platform {
    store: Arc<dyn Inspect>,
    /// Absent: as long as a relay's default.
    lease_ttl: Option<Duration>,
    /// Absent: everything stays.
    retention: Option<Retention>,
    routes: Vec<Outgoing>,
    modules: Vec<Module>,
    /// Brokers, each with the name of a module that it feeds.
    feeds: Vec<(String, Feed)>,
    messengers: Messengers,
    alerts_every: Duration,
    shared: SharedState,
    parts: Vec<Part>,
    listener: Option<(TcpListener, Serving)>,
    /// Absent: unlocked if only this machine can reach the listener, otherwise locked.
    doors: Option<Doors>,
    /// Absent: as long as it takes.
    drain_max: Option<Duration>,
}

/// A route of the caller.
#[derive(Debug)]
struct Outgoing {
    route: Route,
    /// The broker and the topics that it publishes to, if the caller has said so.
    publishes: Option<(String, Topic)>,
}

impl Platform {
    /// A process with this store and nothing else. It releases scheduled events and runs replays.
    pub fn new(store: Arc<dyn Inspect>) -> Self {
        Self {
            store,
            lease_ttl: None,
            retention: None,
            routes: Vec::new(),
            modules: Vec::new(),
            feeds: Vec::new(),
            messengers: Messengers::new(),
            alerts_every: ALERTS_EVERY,
            shared: SharedState::local(),
            parts: Vec::new(),
            listener: None,
            doors: None,
            drain_max: None,
        }
    }

    /// How long other processes wait before they take over from a dead one; ten seconds by default, one at least.
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.lease_ttl = Some(ttl);
        self
    }

    /// Removes rows that are done with after these times. Without it, everything stays.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Adds a route to a destination.
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(Outgoing { route, publishes: None });
        self
    }

    /// Adds a route that publishes to topics of a broker; `broker` is the name that was given to [`Feed::new`]. If that broker feeds
    /// modules, the route waits for those of their groups that read these topics, and the platform does not publish its events a
    /// second time.
    pub fn publish(mut self, route: Route, broker: impl Into<String>, topic: Topic) -> Self {
        let publishes = Some((broker.into(), topic));
        self.routes.push(Outgoing { route, publishes });
        self
    }

    /// Adds a module.
    pub fn module(self, module: Module) -> Self {
        self.modules([module])
    }

    /// Adds modules.
    pub fn modules(mut self, modules: impl IntoIterator<Item = Module>) -> Self {
        self.modules.extend(modules);
        self
    }

    /// Feeds the subscribers of this module through a broker instead of straight from the outbox, except for those that are
    /// [`Subscriber::straight`](postroom::Subscriber::straight). Several modules may share a
    /// broker, and several brokers may feed a module each.
    pub fn feed(mut self, module: impl Into<String>, broker: impl Into<Feed>) -> Self {
        self.feeds.push((module.into(), broker.into()));
        self
    }

    /// Sets the messengers that send alerts. Rules whose channel has no messenger are shown, and not sent.
    pub fn messengers(mut self, messengers: Messengers) -> Self {
        self.messengers = messengers;
        self
    }

    /// How often alert rules are looked at; every 30 seconds by default.
    pub fn alerts_every(mut self, every: Duration) -> Self {
        self.alerts_every = every;
        self
    }

    /// Gives modules what all instances share ([`Host::shared`], [`Module::shared`]): on Redis, for example. Without it, each instance
    /// is alone.
    pub fn shared(mut self, shared: SharedState) -> Self {
        self.shared = shared;
        self
    }

    /// Adds a part that runs beside the relay until the token is cancelled, under the rules of [`Module::part`].
    pub fn part<F, Fut, E>(mut self, name: impl Into<String>, part: F) -> Self
    where
        F: FnOnce(Host, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.parts.push(Part::new(name, part));
        self
    }

    /// Serves HTTP here: health, metrics, alerts, the catalogue, events from outside and the modules' HTTP routes. Without it,
    /// the process has no HTTP server. It is plain HTTP; [`Platform::serve_with`] has TLS and other settings.
    pub fn serve(self, listener: TcpListener) -> Self {
        self.serve_with(listener, Serving::default())
    }

    /// Serves HTTP here with these settings. [`Platform::build`] reads the certificate, if there is one.
    pub fn serve_with(mut self, listener: TcpListener, serving: Serving) -> Self {
        self.listener = Some((listener, serving));
        self
    }

    /// How long work in progress may take to end after the stop; then it is abandoned, and [`Process::run`] fails. Without it,
    /// as long as it takes.
    pub fn drain_max(mut self, max: Duration) -> Self {
        self.drain_max = Some(max);
        self
    }

    /// Puts the process together and runs it until `stop`: [`Platform::build`] and [`Process::run`].
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        self.build()?.run(stop).await
    }

    /// Sets how callers of HTTP routes are checked. Without it, no token is needed if only this machine can reach the listener;
    /// otherwise, and for a server of your own, the doors are locked.
    pub fn doors(mut self, doors: Doors) -> Self {
        self.doors = Some(doors);
        self
    }

    /// Puts the process together. It connects to nothing and spawns nothing. An error names the module, route, setting or
    /// certificate at fault.
    pub fn build(mut self) -> Result<Process> {
        check::settings(&self)?;
        let doors = check::doors(self.doors.take(), self.listener.as_ref())?;
        let listener = self.listener.take();
        let listener = listener
            .map(|(tcp, serving)| HttpListener::new(tcp, serving))
            .transpose()?;
        let mut modules = self.configured_modules()?;
        check::modules(&modules, &self.feeds)?;
        check::route_names(&self.routes, &modules)?;
        check::retired(&self.routes, &modules)?;
        check::readers(&modules, &self.feeds)?;
        check::forms(&modules)?;
        check::published(&self.routes, &self.feeds)?;
        modules.iter_mut().for_each(Module::share_screen);
        let catalogue = Catalogue::of(&modules); // before the relay takes the subscribers
        let relay = self.join(self.relay(), &mut modules)?;
        let mut host = Host::new(Arc::clone(&self.store), &relay);
        host.shared = self.shared.clone();
        host.authenticator = Some(Arc::new(doors.authenticator(&*self.store)));
        for module in &modules {
            module.shared().fill(self.shared.clone());
        }
        let alerts = Alerts::new(&host, &mut modules, &self.messengers)?;
        let relay = alerts.jobs(self.alerts_every).into_iter().fold(relay, Relay::job);
        let lease = self.lease_ttl.unwrap_or(LEASE);
        let retirements = modules
            .iter_mut()
            .filter_map(|module| retirement::job(&host.store, module, lease));
        let relay = retirements.fold(relay, Relay::job);
        relay.check()?;
        let metrics = Metrics::new(self.store, &relay);
        for module in &mut modules {
            module.register(&metrics);
        }
        let parts = self.parts.into_iter();
        let parts = parts.chain(modules.iter_mut().flat_map(Module::take_parts)).collect();
        let database = host.store.db().get_database_backend();
        let tables = modules
            .iter()
            .map(|module| (module.name, module.migrations(database)))
            .collect();
        let server = Server::new(host.clone(), doors)
            .metrics(metrics.clone())
            .alerts(alerts)
            .catalogue(&catalogue);
        let server = modules.into_iter().fold(server, Server::mount);
        check::operations(&server.operations())?;
        Ok(Process {
            server,
            host,
            relay,
            metrics,
            listener,
            parts,
            tables,
            drain_max: self.drain_max,
        })
    }

    /// The modules; one that was not configured gets the defaults of its settings.
    fn configured_modules(&mut self) -> Result<Vec<Module>> {
        let modules = std::mem::take(&mut self.modules).into_iter();
        Ok(modules.map(Module::configure_if_needed).collect::<Result<_, _>>()?)
    }

    /// A relay with the settings of the process and without routes.
    fn relay(&self) -> Relay {
        let relay = Relay::new(Arc::clone(&self.store) as _);
        let relay = match self.lease_ttl {
            Some(ttl) => relay.lease_ttl(ttl),
            None => relay,
        };
        let jobs = self.retention.iter().flat_map(Retention::jobs);
        jobs.fold(relay, Relay::job)
    }

    /// Joins routes and modules to the relay: subscribers straight from the outbox, or through the broker that feeds them.
    fn join(&mut self, relay: Relay, modules: &mut [Module]) -> Result<Relay> {
        let topics = Topics::of(&*modules);
        let routes: Vec<Outgoing> = std::mem::take(&mut self.routes);
        let awaiting = routes.iter().map(|outgoing| Route {
            awaits: self.readers(outgoing, modules, &topics),
            ..outgoing.route.clone()
        });
        let mut relay = awaiting.fold(relay, Relay::route);
        for feed in self.brokers() {
            let topics = Topics::of(modules.iter().filter(|module| !self.is_elsewhere_only(module, feed)));
            let published = routes.iter().filter_map(|outgoing| {
                let (broker, topic) = outgoing.publishes.as_ref()?;
                (*broker == feed.name).then(|| (topic.clone(), outgoing.route.filter.clone()))
            });
            let topics = published.fold(topics.clone(), |topics, (topic, events)| {
                topics.published_by(topic, events)
            });
            let fed = modules.iter_mut().filter(|module| self.is_fed(module, &feed.name));
            relay = feed.join(relay, fed.collect(), &topics)?;
        }
        Ok(modules.iter_mut().fold(relay, |relay, module| module.join(relay)))
    }

    /// Each broker once, in the order in which they were given.
    fn brokers(&self) -> Vec<&Feed> {
        let mut brokers: Vec<&Feed> = Vec::new();
        for (_, feed) in &self.feeds {
            if brokers.iter().all(|known| known.name != feed.name) {
                brokers.push(feed);
            }
        }
        brokers
    }

    /// Whether another feed alone publishes the events of a module.
    fn is_elsewhere_only(&self, module: &Module, here: &Feed) -> bool {
        let mut feeds = self.feeds.iter();
        feeds.any(|(name, feed)| name == module.name && feed.is_exclusive && feed.name != here.name)
    }

    fn is_fed(&self, module: &Module, broker: &str) -> bool {
        let mut feeds = self.feeds.iter();
        feeds.any(|(name, feed)| name == module.name && feed.name == broker)
    }

    /// The groups of this process that read what a route publishes, and those that the caller has named.
    fn readers(&self, outgoing: &Outgoing, modules: &[Module], topics: &Topics) -> Vec<String> {
        let mut awaits = outgoing.route.awaits.clone();
        if let Some((broker, topic)) = &outgoing.publishes {
            let written = topics.all_in(topic).matching(&outgoing.route.filter);
            let fed = modules.iter().filter(|module| self.is_fed(module, broker));
            awaits.extend(topics.readers(fed.flat_map(Module::fed_subscribers), &written));
        }
        awaits
    }
}
