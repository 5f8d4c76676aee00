//! A broker that feeds the subscribers of modules, and how they join the relay through it.

use std::fmt;
use std::sync::Arc;

use postroom::{
    BoxError, Broker, Dead, Destination, Error, ErrorKind, Filter, Form, Mode, Relay, Result, Route, Start, Subscriber,
    To, Topic,
};

use super::topics::Topics;
use crate::module::Module;

/// The name of a broker that was given none.
pub(super) const UNNAMED: &str = "broker";

/// Opens where a route of this name publishes to topics of this template, in this mode.
type Publish = Arc<dyn Fn(&str, Topic, Mode) -> Result<Arc<dyn Destination>, BoxError> + Send + Sync>;

/// A broker that feeds subscribers. Its name is part of the names of the routes that the platform adds to publish events there
/// (`to-kafka`), and progress is kept under those: do not change it later.
///
/// ```
/// # fn example(store: std::sync::Arc<dyn postroom::Inspect>, kafka: std::sync::Arc<dyn postroom::Broker>) {
/// use postroom_host::{Feed, Module, Platform};
///
/// let kafka = Feed::new("kafka", kafka);
/// let platform = Platform::new(store)
///     .module(Module::new("orders"))
///     .module(Module::new("ledger"))
///     .feed("orders", kafka.clone())
///     .feed("ledger", kafka);
/// # }
/// ```
#[derive(Clone)]
pub struct Feed {
    pub(super) name: String,
    pub(super) broker: Arc<dyn Broker>,
    publish: Publish,
    /// No other feed publishes the events of its modules.
    pub(super) is_exclusive: bool,
}

impl Feed {
    /// A broker under a name.
    pub fn new(name: impl Into<String>, broker: Arc<dyn Broker>) -> Self {
        let publisher = Arc::clone(&broker);
        Self {
            name: name.into(),
            broker,
            publish: Arc::new(move |_route, topic, mode| Ok(publisher.publisher(topic, mode))),
            is_exclusive: false,
        }
    }

    /// Sets how a route publishes there, by the route's name. By default, with [`Broker::publisher`]. The mode is binary, unless a module
    /// has a form of its own ([`Module::form`]).
    #[must_use]
    pub fn publisher<E: Into<BoxError>>(
        mut self,
        open: impl Fn(&str, Topic, Mode) -> Result<Arc<dyn Destination>, E> + Send + Sync + 'static,
    ) -> Self {
        self.publish = Arc::new(move |route, topic, mode| open(route, topic, mode).map_err(Into::into));
        self
    }

    /// Says that no other feed publishes the events of the modules that this one feeds: their topic is known to other programs in the
    /// form that it has here. Subscribers of other modules read these events straight from the outbox.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }

    /// Whether the other one is the same broker.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.broker, &other.broker)
    }

    /// Joins modules to a relay. For each kind of topic, one route publishes the events that any of their subscribers listens
    /// to. Each subscriber reads the topics of its events; events that are in no topic come from the log. Straight subscribers are
    /// fed from the log alone, and nothing is published for them.
    pub(super) fn join(&self, mut relay: Relay, modules: Vec<&mut Module>, topics: &Topics) -> Result<Relay> {
        let subscribers: Vec<&Subscriber> = modules.iter().flat_map(|module| module.fed_subscribers()).collect();
        let brings = topics.wanted(|event| subscribers.iter().any(|subscriber| subscriber.filter.matches(event)));
        let mut routes = Vec::new();
        for (topic, events) in topics.unpublished(&brings) {
            let route = self.publishing(&topic, topics)?;
            routes.push(for_readers(route, &topic, events, (topics, &subscribers)));
        }
        for module in modules {
            relay = self.join_one(relay, module, &brings, topics)?;
        }
        Ok(routes.into_iter().fold(relay, Relay::route))
    }

    /// A route that publishes to topics of this template.
    fn publishing(&self, topic: &Topic, topics: &Topics) -> Result<Route> {
        let name = publishing_route(&self.name, topic);
        let mode = topics.form(topic).map(Form::mode).unwrap_or_default();
        match (self.publish)(&name, topic.clone(), mode) {
            Ok(destination) => Ok(Route::new(name, To::Destination(destination))),
            Err(source) => {
                let doing = format!("open the publisher of the route {name:?}");
                Err(Error::caused(ErrorKind::Failed, doing, source))
            }
        }
    }

    fn join_one(&self, mut relay: Relay, module: &mut Module, brings: &Filter, topics: &Topics) -> Result<Relay> {
        for subscriber in module.subscribers.drain(..) {
            relay = match topics.matching(&subscriber.filter) {
                none if none.is_empty() || subscriber.is_straight => relay.subscriber(subscriber),
                read => {
                    let subscriber = with_form(subscriber, topics)?;
                    relay.route(subscriber.fed_by(Arc::clone(&self.broker), read, brings.clone()))
                }
            };
        }
        Ok(relay)
    }
}

/// The subscriber with the form of the messages that it gets, unless it has a reader of its own.
fn with_form(subscriber: Subscriber, topics: &Topics) -> Result<Subscriber> {
    match topics.forms_of(&subscriber.filter).as_slice() {
        [] => Ok(subscriber),
        _ if subscriber.reader.is_some() => Ok(subscriber),
        [form] => Ok(subscriber.form(form)),
        _ => Err(Error::invalid(format!(
            "the subscriber {:?} listens to events of several modules whose messages have forms of their own; give it a reader for all of \
             them, or make a subscriber for each",
            subscriber.group
        ))),
    }
}

/// The name of the route by which a feed publishes to topics of this template.
pub(crate) fn publishing_route(feed: &str, topic: &Topic) -> String {
    match *topic == Topic::default() {
        true => format!("to-{feed}"),
        false => format!("to-{feed}-{topic}"),
    }
}

/// The route, publishing these events. It waits for the groups that read its topics, and for no other: a group that cannot join
/// must not delay the events of others. If a subscriber holds the key of its dead letters, so does the route: otherwise the topic
/// would have later events of the key before the failed one. If one records what it handles, the route records what it publishes.
fn for_readers(
    route: Route,
    topic: &Topic,
    events: Vec<&'static str>,
    (topics, subscribers): (&Topics, &[&Subscriber]),
) -> Route {
    let written: Vec<String> = events.iter().map(|event| topic.of(event)).collect();
    let from_head = subscribers.iter().all(|subscriber| subscriber.start == Start::Head);
    let mut readers = subscribers
        .iter()
        .filter(|one| events.iter().any(|event| one.filter.matches(event)));
    let records = readers.clone().any(|reader| reader.records);
    let dead = match readers.any(|reader| reader.dead == Dead::Hold) {
        true => Dead::Hold,
        false => route.dead,
    };
    Route {
        filter: Filter::any_of(events),
        awaits: topics.readers(subscribers.iter().copied(), &written),
        start: if from_head { Start::Head } else { Start::Beginning },
        dead,
        records,
        ..route
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("name", &self.name)
            .field("broker", &self.broker)
            .finish_non_exhaustive()
    }
}

/// A broker under the name `broker`, for a process with one.
impl From<Arc<dyn Broker>> for Feed {
    fn from(broker: Arc<dyn Broker>) -> Self {
        Self::new(UNNAMED, broker)
    }
}

/// A broker under the name `broker`, for a process with one.
impl<B: Broker + 'static> From<Arc<B>> for Feed {
    fn from(broker: Arc<B>) -> Self {
        Self::new(UNNAMED, broker)
    }
}
