//! Topics: where the events of modules belong on a broker.

use postroom::{Filter, Form, Subscriber, Topic};

use crate::module::Module;

/// Which events there are, and where each belongs on a broker.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    events: Vec<(&'static str, Topic)>,
    /// Topics whose messages have a form of their own.
    forms: Vec<(Topic, Form)>,
    /// Events that a route of the caller publishes there already.
    published: Vec<(Topic, Filter)>,
}

impl Topics {
    /// Those of all these modules.
    pub fn of<'a>(modules: impl IntoIterator<Item = &'a Module>) -> Self {
        let mut topics = Self::default();
        for module in modules {
            let events = module.events.iter();
            topics
                .events
                .extend(events.map(|event| (event.name, module.topic.clone())));
            let form = module.form.iter();
            topics
                .forms
                .extend(form.map(|form| (module.topic.clone(), form.clone())));
        }
        topics
    }

    /// The form of messages in topics of this template, if it is no CloudEvent.
    pub(super) fn form(&self, topic: &Topic) -> Option<&Form> {
        self.forms.iter().find(|(of, _)| of == topic).map(|(_, form)| form)
    }

    /// The forms of the messages that a subscriber gets, each once.
    pub(super) fn forms_of(&self, filter: &Filter) -> Vec<&Form> {
        let read = self.events.iter().filter(|(event, _)| filter.matches(event));
        let mut topics: Vec<&Topic> = read.map(|(_, topic)| topic).collect();
        topics.sort_by_key(|topic| topic.to_string());
        topics.dedup();
        topics.into_iter().filter_map(|topic| self.form(topic)).collect()
    }

    /// The same, when another route publishes these events to such topics already: the platform does not publish them twice.
    #[must_use]
    pub(super) fn published_by(mut self, topic: Topic, events: Filter) -> Self {
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

    /// The groups of a module that a broker feeds, each with the topics of its events. Subscribers that read the outbox have none.
    pub fn groups(&self, module: &Module) -> Vec<(String, Vec<String>)> {
        let group = |one: &Subscriber| (one.group.clone(), self.matching(&one.filter));
        module.fed_subscribers().map(group).collect()
    }

    /// The groups of those subscribers that read any of these topics.
    pub(super) fn readers<'a>(
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
            ..self.clone()
        }
    }

    /// The events that a subscriber wants.
    pub(super) fn wanted(&self, is_wanted: impl Fn(&str) -> bool) -> Filter {
        Filter::any_of(
            self.events
                .iter()
                .map(|(event, _)| *event)
                .filter(|event| is_wanted(event)),
        )
    }

    /// Each template, with the events of a filter that belong there and that no route publishes yet.
    pub(super) fn unpublished(&self, wanted: &Filter) -> Vec<(Topic, Vec<&'static str>)> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
            ..Topics::default()
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
