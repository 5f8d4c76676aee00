//! A module: everything that an application or a product feature brings to a process.

mod part;
mod queue;
mod retired;
mod settings;

use std::fmt;
use std::sync::Arc;

use postroom::operate::Carrier;
use postroom::{
    BoxError, CancellationToken, DomainEvent, EventType, Form, Inspect, Job, Migration, Naming, Relay, Result, Route,
    Screen, Subscriber, Topic, migration,
};
use postroom_monitor::Metrics;
use postroom_monitor::prometheus_client::registry::Registry;
use postroom_shared::Slot;
use schemars::JsonSchema;
use sea_orm::DbBackend;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use self::settings::Declared;
use crate::alert::{Finding, Rule, Watch};
use crate::host::{Host, carrier};
use crate::routes::Routes;

pub(crate) use part::Part;
pub use queue::{Queue, QueueNames};
pub use retired::Retired;
pub use settings::{Misconfigured, Mistake};

/// Everything that one application brings, under one name. A [`crate::Platform`] runs it.
///
/// ```
/// # mod http {
/// #     pub(crate) fn routes() -> postroom_host::Routes { postroom_host::Routes::new(postroom_host::Access::Service) }
/// # }
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
///     .http(http::routes());
/// assert_eq!(module.subscribers.len(), 1);
/// ```
#[derive(Debug)]
pub struct Module {
    /// Its name: its migrations and its settings are kept under it.
    pub name: &'static str,
    tables: Tables,
    /// The events that it emits.
    pub events: Vec<EventType>,
    /// How they are named.
    pub naming: Naming,
    /// Where they belong on a broker.
    pub topic: Topic,
    /// How a broker feeds it, if other programs know its topic by name.
    pub queue: Option<Queue>,
    /// The form of its events on a broker, if they are no CloudEvents there.
    pub form: Option<Form>,
    /// Its subscribers.
    pub subscribers: Vec<Subscriber>,
    /// Its routes to destinations.
    pub routes: Vec<Route>,
    /// Its HTTP routes, with their full paths and what they ask of their callers.
    pub http: Vec<Routes>,
    /// Work that one process at a time does periodically.
    pub jobs: Vec<Job>,
    /// Its alert rules.
    pub alerts: Vec<Watch>,
    /// Cleans what comes from outside.
    pub screen: Option<Arc<dyn Screen>>,
    parts: Vec<Part>,
    /// Gets what the instances share when a platform is built.
    shared: Slot,
    metrics: Vec<Register>,
    /// Environment variables by which its settings are known elsewhere, each with its key.
    pub variables: Vec<(&'static str, &'static str)>,
    /// Routes that it has with other settings.
    pub(crate) retired: Vec<Retired>,
    /// Routes that it may have had with other settings, retired when it is switched off.
    former: Vec<Retired>,
    /// How an operator gets what its routes have not delivered, if they are retired when it is switched off.
    when_off: Option<&'static str>,
    /// Why no platform can run it.
    pub(crate) mistakes: Vec<String>,
    /// Settings that have the right type and cannot be used.
    unusable: Vec<Mistake>,
    /// Settings that it has declared and not been given yet.
    settings: Option<Declared>,
}

/// The migrations of a module.
#[derive(Debug)]
enum Tables {
    Everywhere(Vec<Migration>),
    PerDatabase(fn(DbBackend) -> Vec<Migration>),
}

/// Registers metrics.
struct Register(Box<dyn FnOnce(&mut Registry) + Send + Sync>);

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Register")
    }
}

impl Module {
    /// A module with nothing in it.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            tables: Tables::Everywhere(Vec::new()),
            events: Vec::new(),
            naming: Naming::default(),
            topic: Topic::default(),
            queue: None,
            form: None,
            subscribers: Vec::new(),
            routes: Vec::new(),
            http: Vec::new(),
            jobs: Vec::new(),
            alerts: Vec::new(),
            screen: None,
            parts: Vec::new(),
            shared: Slot::default(),
            metrics: Vec::new(),
            variables: Vec::new(),
            retired: Vec::new(),
            former: Vec::new(),
            when_off: None,
            mistakes: Vec::new(),
            unusable: Vec::new(),
            settings: None,
        }
    }

    /// Sets its tables: migrations numbered from 1, in SQL that PostgreSQL, MySQL and SQLite all take.
    #[must_use]
    pub fn tables(mut self, tables: impl IntoIterator<Item = Migration>) -> Self {
        self.tables = Tables::Everywhere(tables.into_iter().collect());
        self
    }

    /// Sets its tables, in SQL of each database: for column types and views that differ. Every database needs the same numbers and
    /// names.
    #[must_use]
    pub fn tables_on(mut self, tables: fn(DbBackend) -> Vec<Migration>) -> Self {
        self.tables = Tables::PerDatabase(tables);
        self
    }

    /// Its migrations for a database.
    pub fn migrations(&self, database: DbBackend) -> Vec<Migration> {
        match &self.tables {
            Tables::Everywhere(tables) => tables.clone(),
            Tables::PerDatabase(tables) => tables(database),
        }
    }

    /// Adds an event that the module emits.
    #[must_use]
    pub fn event<E: DomainEvent + JsonSchema>(mut self) -> Self {
        self.events.push(EventType::of::<E>());
        self
    }

    /// Sets how its events are named, if not `{company}.{domain}.{action}.v{version}`.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    /// Sets where its events belong on a broker, if not in `{domain}-events`.
    #[must_use]
    pub fn topic(mut self, topic: Topic) -> Self {
        self.topic = topic;
        self
    }

    /// Says that other programs know its topic by name, and what its settings say about the queue.
    #[must_use]
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Sets the form that its events have on a broker, if other programs know them by another one than CloudEvents. Everything that the
    /// platform publishes to the module's topic has this form, and every subscriber of that topic reads it.
    #[must_use]
    pub fn form(mut self, form: Form) -> Self {
        self.form = Some(form);
        self
    }

    /// Adds a subscriber.
    #[must_use]
    pub fn subscriber(mut self, subscriber: Subscriber) -> Self {
        self.subscribers.push(subscriber);
        self
    }

    /// Adds a route that delivers events to a destination, for example to a webhook of a partner. Its name must be unique in the
    /// store; begin it with the module's name.
    #[must_use]
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Adds HTTP routes. Paths are not prefixed: begin them with the module's name unless a contract says otherwise.
    #[must_use]
    pub fn http(mut self, routes: Routes) -> Self {
        self.http.push(routes);
        self
    }

    /// Adds a part: work that every process does all the time, beside the relay. For work that one process at a time does
    /// periodically, use [`Module::job`].
    ///
    /// A part runs until the token is cancelled; it then finishes what it has begun and returns `Ok(())`. A part that ends
    /// before, with an error, by a panic or with `Ok(())`, ends the process: all other parts stop and the process fails with
    /// that error. Nothing starts a part again, so a part retries by itself what can be retried.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use postroom::CancellationToken;
    /// use postroom_host::{Host, Module};
    ///
    /// async fn read_mails(host: Host, stop: CancellationToken) -> postroom::Result<()> {
    ///     while !stop.is_cancelled() {
    ///         let tx = host.begin().await?;
    ///         // … emit an event for each mail …
    ///         tx.commit().await?;
    ///         stop.run_until_cancelled(tokio::time::sleep(Duration::from_secs(10))).await;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let module = Module::new("shop").part("mailbox", read_mails);
    /// ```
    #[must_use]
    pub fn part<F, Fut, E>(mut self, name: &str, part: F) -> Self
    where
        F: FnOnce(Host, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.parts
            .push(Part::new(format!("{name} of the module {}", self.name), part));
        self
    }

    /// The place of what the instances of the service share. [`crate::Platform::build`] fills it; so something that is made with the
    /// module, and used when the process runs, can have it. HTTP handlers and parts find the same in [`Host::shared`].
    pub fn shared(&self) -> Slot {
        self.shared.clone()
    }

    /// Adds metrics to the page at `/metrics`. Their names begin with the module's name.
    ///
    /// ```
    /// use postroom_host::Module;
    /// use postroom_host::prometheus_client::metrics::counter::Counter;
    ///
    /// let mails: Counter = Counter::default(); // count in a clone of it
    /// let module = Module::new("shop").metrics({
    ///     let mails = mails.clone();
    ///     move |registry| registry.register("mails", "Mails that were sent", mails) // shop_mails_total
    /// });
    /// ```
    #[must_use]
    pub fn metrics(mut self, register: impl FnOnce(&mut Registry) + Send + Sync + 'static) -> Self {
        self.metrics.push(Register(Box::new(register)));
        self
    }

    /// Declares settings, and what they add to or change in the module. The daemon reads them from the section
    /// `[modules.<name>]` of its configuration; [`Module::configure`] takes them from elsewhere. A platform whose module was given
    /// none uses those of an empty section, so give each field a default. A key that the type does not know is an error. A module
    /// has one type of settings: a second call replaces the first.
    ///
    /// ```
    /// use postroom::{Delays, Retry, Subscriber};
    /// use postroom_host::Module;
    ///
    /// #[derive(serde::Deserialize)]
    /// #[serde(default)]
    /// struct Settings {
    ///     attempts_max: u32,
    /// }
    ///
    /// impl Default for Settings {
    ///     fn default() -> Self {
    ///         Self { attempts_max: 10 }
    ///     }
    /// }
    ///
    /// # async fn count_sale(_: &mut postroom::Tx, _: &postroom::Event) -> postroom::Result<()> { Ok(()) }
    /// let module = Module::new("shop").settings(|module, settings: Settings| {
    ///     let retry = Retry { attempts_max: Some(settings.attempts_max), ..Retry::default() };
    ///     module.subscriber(Subscriber::matching("sales", ["shop.**"], count_sale).retry(retry))
    /// });
    /// # let section = serde_json::json!({ "attempt_max": 3 }).as_object().unwrap().clone();
    /// let error = module.configure(section).unwrap_err(); // [modules.shop] attempt_max = 3
    /// assert_eq!(error.mistakes[0].key, "attempt_max");
    /// ```
    #[must_use]
    pub fn settings<S, F>(mut self, apply: F) -> Self
    where
        S: DeserializeOwned,
        F: FnOnce(Self, S) -> Self + Send + Sync + 'static,
    {
        self.settings = Some(Declared::new(apply));
        self
    }

    /// Names environment variables by which its settings are known elsewhere, each with the key in its section, for example
    /// `("ANALYTICS_POSTHOG_HOST", "posthog.host")`. The daemon reads them; its own `POSTROOM__MODULES__…` wins.
    #[must_use]
    pub fn variables(mut self, variables: impl IntoIterator<Item = (&'static str, &'static str)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Whether it has declared settings that it was not given yet.
    pub fn wants_settings(&self) -> bool {
        self.settings.is_some()
    }

    /// Gives it its settings. A module that has declared none takes an empty section only.
    pub fn configure(mut self, section: Map<String, Value>) -> Result<Self, Misconfigured> {
        match self.settings.take() {
            Some(declared) => declared.apply(self, section)?.checked(),
            None if section.is_empty() => Ok(self),
            None => Err(Misconfigured {
                module: self.name,
                mistakes: section.into_iter().map(|(key, _)| Mistake::unknown(key)).collect(),
            }),
        }
    }

    /// Reports a mistake in how the module was put together. [`crate::Platform::build`] fails with it.
    #[must_use]
    pub fn mistake(mut self, says: impl Into<String>) -> Self {
        self.mistakes.push(says.into());
        self
    }

    /// Reports a setting that has the right type and cannot be used. [`Module::configure`] fails with it.
    #[must_use]
    pub fn unusable(mut self, key: impl Into<String>, says: impl Into<String>) -> Self {
        self.unusable.push(Mistake {
            key: key.into(),
            says: says.into(),
        });
        self
    }

    fn checked(mut self) -> Result<Self, Misconfigured> {
        match std::mem::take(&mut self.unusable) {
            none if none.is_empty() => Ok(self),
            mistakes => Err(Misconfigured {
                module: self.name,
                mistakes,
            }),
        }
    }

    /// Adds a job.
    #[must_use]
    pub fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds alert rules, and one function that returns a finding for each rule, in the same order.
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

    /// Cleans what comes from outside, before anything is stored. Events of the module's types that come by `POST /api/v1/events` are
    /// cleaned before they are recorded; if the screen refuses one, nothing of the request is recorded. The module's subscribers use
    /// it for what comes from a broker, unless they have a screen of their own ([`Subscriber::screen`]). Events that the module
    /// emits are not cleaned.
    #[must_use]
    pub fn screen(mut self, screen: Arc<dyn Screen>) -> Self {
        self.screen = Some(screen);
        self
    }

    /// Brings its tables up to date; answers what was applied. [`crate::Process::migrate`] does this for all modules.
    pub async fn migrate(&self, store: &dyn Inspect) -> Result<Vec<Migration>> {
        let migrations = self.migrations(store.db().get_database_backend());
        migration::up(store.db(), self.name, &migrations).await
    }

    /// What its subscribers and routes carry, for questions about a store that another process works.
    pub fn into_carriers(self) -> Vec<Carrier> {
        let subscribers = self.subscribers.into_iter().map(Subscriber::into_route);
        let routes = subscribers.chain(self.routes);
        routes.map(|route| carrier(&route)).collect()
    }

    /// The defaults of its settings, if it still wants some.
    pub(crate) fn configure_if_needed(self) -> Result<Self, Misconfigured> {
        match self.wants_settings() {
            true => self.configure(Map::new()),
            false => Ok(self),
        }
    }

    /// Hands its subscribers, routes and jobs to a relay.
    pub(crate) fn join(&mut self, relay: Relay) -> Relay {
        let relay = self.subscribers.drain(..).fold(relay, Relay::subscriber);
        let relay = self.routes.drain(..).fold(relay, Relay::route);
        self.jobs.drain(..).fold(relay, Relay::job)
    }

    /// The subscribers that a broker feeds, if the module has one.
    pub(crate) fn fed_subscribers(&self) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.iter().filter(|subscriber| !subscriber.is_straight)
    }

    /// Gives its screen to the subscribers without one.
    pub(crate) fn share_screen(&mut self) {
        for subscriber in &mut self.subscribers {
            let screen = subscriber.screen.take();
            subscriber.screen = screen.or_else(|| self.screen.clone());
        }
    }

    /// Adds its metrics to the page, under its name.
    pub(crate) fn register(&mut self, metrics: &Metrics) {
        let prefix = self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        for Register(register) in self.metrics.drain(..) {
            metrics.register(&prefix, register);
        }
    }

    pub(crate) fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }
}
