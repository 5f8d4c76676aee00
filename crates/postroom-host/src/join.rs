//! Joining modules to a relay whose subscribers are fed by a broker.

use std::sync::Arc;

use postroom::{Broker, Filter, Mode, Relay, Retry, Route, Start, Subscriber, To, Topic};

use crate::module::Module;

/// Which events there are, and where each belongs on a broker.
#[derive(Clone, Debug, Default)]
pub struct Topics(Vec<(&'static str, Topic)>);

impl Topics {
    /// Those of all these modules.
    pub fn of<'a>(modules: impl IntoIterator<Item = &'a Module>) -> Self {
        let of_module = |module: &'a Module| module.events.iter().map(|event| (event.name, module.topic.clone()));
        Self(modules.into_iter().flat_map(of_module).collect())
    }

    /// The topics of those events that match, sorted.
    pub fn matching(&self, filter: &Filter) -> Vec<String> {
        let matching = self.0.iter().filter(|(event, _)| filter.matches(event));
        let mut topics: Vec<String> = matching.map(|(event, topic)| topic.of(event)).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    /// The same events, all in topics of this template.
    #[must_use]
    pub fn all_in(&self, topic: &Topic) -> Self {
        Self(self.0.iter().map(|(event, _)| (*event, topic.clone())).collect())
    }

    /// Each template, with the events that belong there and that somebody wants.
    fn published(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<(Topic, Vec<&'static str>)> {
        let mut published: Vec<(Topic, Vec<&'static str>)> = Vec::new();
        for (event, topic) in self.0.iter().filter(|(event, _)| is_wanted(event)) {
            match published.iter_mut().find(|(known, _)| known == topic) {
                Some((_, events)) => events.push(event),
                None => published.push((topic.clone(), vec![event])),
            }
        }
        published
    }
}

/// Joins modules to a relay: the events that any of their subscribers listens to are published to the broker, which is called
/// `name` here, by one route for each kind of topic, and each subscriber reads the topics of its events. What is in no topic
/// comes from the log.
pub fn join_through(
    mut relay: Relay,
    modules: Vec<&mut Module>,
    topics: &Topics,
    (name, broker): (&str, &Arc<dyn Broker>),
) -> Relay {
    let subscribers = || modules.iter().flat_map(|module| &module.subscribers);
    let is_fed = |subscriber: &&Subscriber| !topics.matching(&subscriber.filter).is_empty();
    let groups: Vec<String> = subscribers().filter(is_fed).map(|one| one.group.clone()).collect();
    let from_head = subscribers().all(|subscriber| subscriber.start == Start::Head);
    let published = topics.published(|event| subscribers().any(|subscriber| subscriber.filter.matches(event)));
    let brings = Filter::any_of(published.iter().flat_map(|(_, events)| events.iter().copied()));
    let retries: Vec<(Topic, Retry)> = modules
        .iter()
        .map(|one| (one.topic.clone(), one.retry.clone()))
        .collect();
    for module in modules {
        relay = feed(module, relay, broker, &brings, topics);
    }
    for (topic, events) in published {
        let route = match topic == Topic::default() {
            true => format!("to-{name}"),
            false => format!("to-{name}-{topic}"),
        };
        let retry = retries
            .iter()
            .find(|(of, _)| *of == topic)
            .map(|(_, retry)| retry.clone());
        relay = relay.route(Route {
            filter: Filter::any_of(events),
            retry: retry.unwrap_or_default(),
            awaits: groups.clone(),
            start: if from_head { Start::Head } else { Start::Beginning },
            ..Route::new(route, To::Destination(broker.publisher(topic, Mode::default())))
        });
    }
    relay
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
    use super::*;

    #[test]
    fn topics_follow_from_the_types_that_match() {
        let shop = |event| (event, Topic::default());
        let bank = |event| (event, "bank-events".parse().unwrap());
        let topics = Topics(vec![
            shop("shop.order.paid.v1"),
            shop("shop.order.sent.v1"),
            shop("shop.like.created.v1"),
            bank("Posted"),
        ]);
        let of = |pattern: &str| topics.matching(&Filter::any_of([pattern]));
        assert_eq!(of("shop.order.**"), ["order-events"]);
        assert_eq!(of("**"), ["bank-events", "like-events", "order-events"]);
        assert!(of("other.**").is_empty());
        let published = topics.published(|event| event != "shop.order.sent.v1");
        let events: Vec<usize> = published.iter().map(|(_, events)| events.len()).collect();
        assert_eq!(events, [2, 1]);
    }
}
