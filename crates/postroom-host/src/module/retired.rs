//! Routes that were switched off: a platform forgets them, so that the outbox does not keep for ever what they have not read.

use std::collections::HashSet;
use std::sync::Arc;

use postroom::operate::Carrier;
use postroom::{Filter, NullDestination, Route, Start, To, Topic};

use super::Module;
use crate::platform::publishing_route;

/// A route that was switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Its name, and which events it has carried.
    pub carrier: Carrier,
    /// How an operator gets what it has not delivered.
    pub again: String,
}

impl Module {
    /// Declares a route that the module has with other settings, and does not have with these: it was switched off. The platform
    /// forgets it when no process has worked it for twice the time of a lease, and logs what it has not delivered, with `again`:
    /// how an operator gets it. Until then, retention would keep all of that for ever. A route that is switched on again begins
    /// as a new one ([`Route::start`]).
    #[must_use]
    pub fn retired(mut self, route: impl Into<String>, events: Filter, again: impl Into<String>) -> Self {
        self.retired.push(Retired {
            carrier: Carrier::new(route, events),
            again: again.into(),
        });
        self
    }

    /// Declares a route that the module may have had with other settings. It is retired only when the module is switched off as a whole:
    /// without these settings in this process, another one may still have the route.
    #[must_use]
    pub fn retired_when_off(mut self, route: impl Into<String>, events: Filter, again: impl Into<String>) -> Self {
        let former = Self::new(self.name).retired(route, events, again);
        self.former.extend(former.retired);
        self
    }

    /// Says that all routes of the module are retired when it is switched off ([`Module::switched_off`]). Without this, they stay
    /// until an operator forgets them, because another process may run the module.
    #[must_use]
    pub fn retires_when_off(mut self, again: &'static str) -> Self {
        let (route, events) = placeholder(self.name);
        self.when_off = Some(again);
        self.retired(route, events, "it had no events")
    }

    /// The rest of the module when it is switched off: the routes that are to be forgotten, and a route without events, `NAME-off`.
    /// Retention removes what every route has passed, and nothing as long as there is none. `feeds` are the names of feeds that may
    /// have published the events of the module: their routes to a topic that only this module has are forgotten too. `None` if the
    /// module has not said that its routes are retired.
    pub fn switched_off<'a>(self, feeds: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let again = self.when_off?;
        let mut on = self.configure_if_needed().ok()?;
        let (name, events) = placeholder(on.name);
        let subscribers = on.subscribers.drain(..).map(|one| (one.group, one.filter));
        let routes = on.routes.drain(..).map(|one| (one.name, one.filter));
        let worked: Vec<(String, Filter)> = subscribers.chain(routes).collect();
        let worked_names: HashSet<String> = worked.iter().map(|(route, _)| route.clone()).collect();
        let off = worked.into_iter().fold(Self::new(on.name), |off, (route, events)| {
            off.retired(route, events, again)
        });
        let has_own_topic = on.topic != Topic::default();
        let published = Filter::any_of(on.events.iter().map(|event| event.name));
        let publishing = feeds.into_iter().filter(|_| has_own_topic);
        let mut off = publishing.fold(off, |off, feed| {
            off.retired(publishing_route(feed, &on.topic), published.clone(), again)
        });
        let is_known = |one: &Retired| worked_names.contains(&one.carrier.route) || one.carrier.route == name;
        let others = on.retired.into_iter().chain(on.former);
        off.retired.extend(others.filter(|one| !is_known(one)));
        // Events of the module that other programs post are still refused or cleaned.
        (off.events, off.screen) = (on.events, on.screen);
        Some(off.route(Route {
            filter: events,
            start: Start::Head,
            ..Route::new(name, To::Destination(Arc::new(NullDestination)))
        }))
    }
}

/// The route of a module that is switched off: its name, and a filter that no event matches.
fn placeholder(module: &str) -> (String, Filter) {
    (format!("{module}-off"), Filter::any_of([format!("{module}.off")]))
}

#[cfg(test)]
mod tests {
    use postroom::Subscriber;

    use super::*;

    async fn count(_: &mut postroom::Tx, _: &postroom::Event) -> postroom::Result<()> {
        Ok(())
    }

    fn names(module: &Module) -> Vec<&str> {
        module.retired.iter().map(|one| one.carrier.route.as_str()).collect()
    }

    #[test]
    fn a_module_that_is_switched_off_retires_its_routes_and_keeps_one_without_events() {
        let subscriber = || Subscriber::matching("shop-sales", ["shop.**"], count);
        let on = Module::new("shop")
            .retires_when_off("ask the shop")
            .subscriber(subscriber())
            .retired("shop-mail", Filter::all(), "send again")
            .retired_when_off("shop-sms", Filter::all(), "send again")
            .retired_when_off("shop-sales", Filter::all(), "it has it now");
        assert_eq!(names(&on), ["shop-off", "shop-mail"]);
        let off = on.switched_off([]).unwrap();
        assert_eq!(names(&off), ["shop-sales", "shop-mail", "shop-sms"]);
        assert_eq!(off.routes.len(), 1);
        assert_eq!((off.routes[0].name.as_str(), off.subscribers.len()), ("shop-off", 0));
        let with_topic = Module::new("shop").retires_when_off("ask the shop");
        let with_topic = with_topic.topic("domain.shop".parse().unwrap());
        let off = with_topic.switched_off(["kafka", "redis-shop"]).unwrap();
        assert_eq!(names(&off), ["to-kafka-domain.shop", "to-redis-shop-domain.shop"]);
        let another = Module::new("shop").subscriber(subscriber());
        assert!(another.switched_off([]).is_none(), "another process may run it");
    }
}
