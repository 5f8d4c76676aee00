//! Joining modules to a relay whose subscribers are fed by a broker.

use std::sync::Arc;

use postroom::{Broker, Destination, Filter, Relay, Route, Start, Subscriber, To, Topic};

use crate::module::Module;

/// Which events there are, and where each belongs on a broker.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    events: Vec<(&'static str, Topic)>,
    /// What is published there already.
    published: Vec<(Topic, Filter)>,
}

impl Topics {
    /// Those of all these modules.
    pub fn of<'a>(modules: impl IntoIterator<Item = &'a Module>) -> Self {
        let of_module = |module: &'a Module| module.events.iter().map(|event| (event.name, module.topic.clone()));
        Self {
            events: modules.into_iter().flat_map(of_module).collect(),
            published: Vec::new(),
        }
    }

    /// The same, when a route of somebody's own publishes these events to such topics already: nobody else does then.
    #[must_use]
    pub fn published_by(mut self, topic: Topic, events: Filter) -> Self {
        self.published.push((topic, events));
        self
    }

    /// The topics of those events that match, sorted.
    pub fn matching(&self, filter: &Filter) -> Vec<String> {
        let matching = self.events.iter().filter(|(event, _)| filter.matches(event));
        let mut topics: Vec<String> = matching.map(|(event, topic)| topic.of(event)).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    /// The groups of those subscribers that read any of these topics.
    pub fn readers<'a>(
        &self,
        subscribers: impl IntoIterator<Item = &'a Subscriber>,
        written: &[String],
    ) -> Vec<String> {
        let reads = |one: &&Subscriber| self.matching(&one.filter).iter().any(|topic| written.contains(topic));
        let readers = subscribers.into_iter().filter(reads);
        readers.map(|one| one.group.clone()).collect()
    }

    /// The same events, all in topics of this template.
    #[must_use]
    pub fn all_in(&self, topic: &Topic) -> Self {
        Self {
            events: self.events.iter().map(|(event, _)| (*event, topic.clone())).collect(),
            published: self.published.clone(),
        }
    }

    /// The events that somebody wants.
    fn wanted(&self, is_wanted: impl Fn(&str) -> bool) -> Filter {
        Filter::any_of(
            self.events
                .iter()
                .map(|(event, _)| *event)
                .filter(|event| is_wanted(event)),
        )
    }

    /// Each template, with the events of a filter that belong there and that nobody publishes yet.
    fn unpublished(&self, wanted: &Filter) -> Vec<(Topic, Vec<&'static str>)> {
        let is_published = |event: &str, topic: &Topic| {
            let mut published = self.published.iter();
            published.any(|(to, events)| to.of(event) == topic.of(event) && events.matches(event))
        };
        let mut unpublished: Vec<(Topic, Vec<&'static str>)> = Vec::new();
        let events = self.events.iter().filter(|(event, _)| wanted.matches(event));
        for (event, topic) in events.filter(|(event, topic)| !is_published(event, topic)) {
            match unpublished.iter_mut().find(|(known, _)| known == topic) {
                Some((_, events)) => events.push(event),
                None => unpublished.push((topic.clone(), vec![event])),
            }
        }
        unpublished
    }
}

/// Joins modules to a relay: the events that any of their subscribers listens to are published to the broker, which is called
/// `name` here, by one route for each kind of topic, and each subscriber reads the topics of its events. What is in no topic
/// comes from the log. `publisher` opens where a route of this name publishes.
pub fn join_through<E>(
    mut relay: Relay,
    modules: Vec<&mut Module>,
    topics: &Topics,
    (name, broker): (&str, &Arc<dyn Broker>),
    publisher: impl Fn(&str, Topic) -> Result<Arc<dyn Destination>, E>,
) -> Result<Relay, E> {
    let subscribers: Vec<&Subscriber> = modules.iter().flat_map(|module| &module.subscribers).collect();
    let brings = topics.wanted(|event| subscribers.iter().any(|subscriber| subscriber.filter.matches(event)));
    let mut routes = Vec::new();
    for (topic, events) in topics.unpublished(&brings) {
        let route = match topic == Topic::default() {
            true => format!("to-{name}"),
            false => format!("to-{name}-{topic}"),
        };
        let to = To::Destination(publisher(&route, topic.clone())?);
        routes.push(publishing(
            Route::new(route, to),
            &topic,
            events,
            (topics, &subscribers),
        ));
    }
    for module in modules {
        relay = feed(module, relay, broker, &brings, topics);
    }
    Ok(routes.into_iter().fold(relay, Relay::route))
}

/// A route that publishes these events. It waits for the groups that read its topics, and for no other: one that cannot join
/// holds up nobody else's events.
fn publishing(
    route: Route,
    topic: &Topic,
    events: Vec<&'static str>,
    (topics, subscribers): (&Topics, &[&Subscriber]),
) -> Route {
    let written: Vec<String> = events.iter().map(|event| topic.of(event)).collect();
    let from_head = subscribers.iter().all(|subscriber| subscriber.start == Start::Head);
    Route {
        filter: Filter::any_of(events),
        awaits: topics.readers(subscribers.iter().copied(), &written),
        start: if from_head { Start::Head } else { Start::Beginning },
        ..route
    }
}

fn feed(module: &mut Module, relay: Relay, broker: &Arc<dyn Broker>, brings: &Filter, topics: &Topics) -> Relay {
    let relay =
        module
            .subscribers
            .drain(..)
            .fold(relay, |relay, subscriber| match topics.matching(&subscriber.filter) {
                none if none.is_empty() => relay.subscriber(subscriber),
                topics => relay.route(subscriber.fed_by(Arc::clone(broker), topics, brings.clone())),
            });
    module.join(relay)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use postroom::{Batch, Event, Receipt, Tx};

    use super::*;

    async fn ignore(_tx: &mut Tx, _event: &Event) -> postroom::Result<()> {
        Ok(())
    }

    /// Takes nothing.
    #[derive(Debug)]
    struct Nowhere;

    #[async_trait]
    impl Destination for Nowhere {
        async fn deliver(&self, _batch: &Batch<'_>) -> Vec<Receipt> {
            Vec::new()
        }
    }

    #[test]
    fn a_route_waits_for_those_who_read_its_topics() {
        let bank: Topic = "bank-events".parse().unwrap();
        let topics = Topics {
            events: vec![("shop.order.paid.v1", Topic::default()), ("Posted", bank.clone())],
            published: Vec::new(),
        };
        let group = |name: &str, pattern: &str| Subscriber::matching(name, [pattern], ignore);
        let groups = [
            group("sales", "shop.**"),
            group("balances", "Posted"),
            group("audit", "**"),
        ];
        let groups: Vec<&Subscriber> = groups.iter().collect();
        let awaits = |topic: &Topic, event| {
            let route = Route::new("to-x", To::Destination(Arc::new(Nowhere)));
            publishing(route, topic, vec![event], (&topics, &groups)).awaits
        };
        assert_eq!(awaits(&Topic::default(), "shop.order.paid.v1"), ["sales", "audit"]);
        assert_eq!(awaits(&bank, "Posted"), ["balances", "audit"]);
    }

    #[test]
    fn topics_follow_from_the_types_that_match() {
        let shop = |event| (event, Topic::default());
        let bank = |event| (event, "bank-events".parse().unwrap());
        let topics = Topics {
            events: vec![
                shop("shop.order.paid.v1"),
                shop("shop.order.sent.v1"),
                shop("shop.like.created.v1"),
                bank("Posted"),
            ],
            published: Vec::new(),
        };
        let of = |pattern: &str| topics.matching(&Filter::any_of([pattern]));
        assert_eq!(of("shop.order.**"), ["order-events"]);
        assert_eq!(of("**"), ["bank-events", "like-events", "order-events"]);
        assert!(of("other.**").is_empty());
        let wanted = topics.wanted(|event| event != "shop.order.sent.v1");
        let unpublished = |topics: &Topics| -> Vec<usize> {
            let unpublished = topics.unpublished(&wanted);
            unpublished.iter().map(|(_, events)| events.len()).collect()
        };
        assert_eq!(unpublished(&topics), [2, 1]);
        let orders = Filter::any_of(["shop.order.**"]);
        let elsewhere = topics
            .clone()
            .published_by("for-others".parse().unwrap(), orders.clone());
        assert_eq!(unpublished(&elsewhere), [2, 1], "in another topic");
        let by_name = topics
            .clone()
            .published_by("order-events".parse().unwrap(), orders.clone());
        assert_eq!(unpublished(&by_name), [1, 1], "the same topic by its name");
        assert_eq!(unpublished(&topics.published_by(Topic::default(), orders)), [1, 1]);
    }
}
