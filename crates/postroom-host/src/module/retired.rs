//! Routes that were switched off: a platform forgets them, so that the outbox does not keep for ever what they have not read.

use std::sync::Arc;

use postroom::operate::Carrier;
use postroom::{Filter, NullDestination, Route, Start, To};

use super::Module;

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
            carrier: Carrier {
                route: route.into(),
                filter: events,
            },
            again: again.into(),
        });
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

    /// What is left of the module when it is switched off: the routes that are to be forgotten, and a route without events, `NAME-off`.
    /// Retention removes what every route has passed, and nothing as long as there is none. `None` if the module has not said that
    /// its routes are retired.
    pub fn switched_off(self) -> Option<Self> {
        let again = self.when_off?;
        let mut on = self.configure_if_needed().ok()?;
        let (name, events) = placeholder(on.name);
        let subscribers = on.subscribers.drain(..).map(|one| (one.group, one.filter));
        let routes = on.routes.drain(..).map(|one| (one.name, one.filter));
        let worked: Vec<(String, Filter)> = subscribers.chain(routes).collect();
        let mut off = worked.into_iter().fold(Self::new(on.name), |off, (route, events)| {
            off.retired(route, events, again)
        });
        off.retired
            .extend(on.retired.into_iter().filter(|one| one.carrier.route != name));
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
            .retired("shop-mail", Filter::all(), "send again");
        assert_eq!(names(&on), ["shop-off", "shop-mail"]);
        let off = on.switched_off().unwrap();
        assert_eq!(names(&off), ["shop-sales", "shop-mail"]);
        assert_eq!(off.routes.len(), 1);
        assert_eq!((off.routes[0].name.as_str(), off.subscribers.len()), ("shop-off", 0));
        let another = Module::new("shop").subscriber(subscriber());
        assert!(another.switched_off().is_none(), "another process may run it");
    }
}
