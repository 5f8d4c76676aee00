//! Mistakes in what a platform was given, found before anything runs. Each message names the module, route or setting at fault.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use postroom::{Error, Result};
use tokio::net::TcpListener;

use super::feed::{Feed, UNNAMED};
use super::process::OWN;
use super::topics::Topics;
use super::{Outgoing, Platform};
use crate::access::Doors;
use crate::module::Module;
use crate::routes::Operation;
use crate::server::Serving;

/// The shortest lease: a process renews its leases several times before they run out.
const LEASE_MIN: Duration = Duration::from_secs(1);

pub(super) fn settings(platform: &Platform) -> Result<()> {
    if let Some(ttl) = platform.lease_ttl.filter(|ttl| *ttl < LEASE_MIN) {
        return Err(Error::invalid(format!(
            "lease_ttl is {ttl:?}; give at least {LEASE_MIN:?}"
        )));
    }
    if platform.alerts_every.is_zero() {
        return Err(Error::invalid(
            "alerts_every is zero; give the time between two looks at the rules",
        ));
    }
    platform
        .retention
        .as_ref()
        .map_or(Ok(()), |retention| retention.check())
}

/// Each module has a name of its own, and each feed a module.
pub(super) fn modules(modules: &[Module], feeds: &[(String, Feed)]) -> Result<()> {
    let mut names = HashMap::new();
    for module in modules {
        if module.name == OWN {
            return Err(Error::invalid(format!(
                "a module is named {OWN:?}; Postroom keeps its own migrations under this name, so choose another"
            )));
        }
        if let Some(mistake) = module.mistakes.first() {
            return Err(Error::invalid(format!("the module {:?}: {mistake}", module.name)));
        }
        if names.insert(module.name, None).is_some() {
            return Err(Error::invalid(format!(
                "two modules are named {:?}; give each its own name",
                module.name
            )));
        }
    }
    for (module, feed) in feeds {
        match names.get_mut(module.as_str()) {
            None => {
                let known: Vec<&str> = modules.iter().map(|module| module.name).collect();
                return Err(Error::invalid(format!(
                    "the broker {:?} feeds the module {module:?}, which does not exist; there is {known:?}",
                    feed.name
                )));
            }
            Some(taken @ None) => *taken = Some(feed),
            Some(Some(other)) => {
                return Err(Error::invalid(format!(
                    "the module {module:?} is fed by the broker {:?} and by the broker {:?}; one broker feeds a module",
                    other.name, feed.name
                )));
            }
        }
    }
    brokers(feeds)
}

/// A subscriber with a reader can get messages: it is not straight, and if a broker feeds its module, it has a topic there.
pub(super) fn readers(modules: &[Module], feeds: &[(String, Feed)]) -> Result<()> {
    let topics = Topics::of(modules);
    for module in modules {
        let is_fed = feeds.iter().any(|(name, _)| name == module.name);
        for subscriber in module.subscribers.iter().filter(|one| one.reader.is_some()) {
            let says = match topics.matching(&subscriber.filter).is_empty() {
                _ if subscriber.is_straight => {
                    "reads the outbox, where no such messages are; remove straight() or reads()"
                }
                true if is_fed => {
                    "listens to no event type that a module declares, so it has no topic; declare its type with Module::event"
                }
                _ => continue,
            };
            return Err(Error::invalid(format!(
                "the subscriber {:?} of the module {} has a reader for messages of a broker, but {says}",
                subscriber.group, module.name
            )));
        }
    }
    Ok(())
}

/// All messages of a topic have one form.
pub(super) fn forms(modules: &[Module]) -> Result<()> {
    for module in modules.iter().filter(|module| module.form.is_some()) {
        let same_topic = |other: &&Module| other.name != module.name && other.topic == module.topic;
        if let Some(other) = modules.iter().filter(|other| !other.events.is_empty()).find(same_topic) {
            return Err(Error::invalid(format!(
                "the modules {:?} and {:?} publish to the topic {}, and messages of {:?} have a form of their own; give it a topic of its \
                 own with Module::topic",
                module.name, other.name, module.topic, module.name
            )));
        }
    }
    Ok(())
}

/// Brokers of one name are one broker.
fn brokers(feeds: &[(String, Feed)]) -> Result<()> {
    for (module, feed) in feeds {
        let other = feeds
            .iter()
            .find(|(_, other)| other.name == feed.name && !other.is_same(feed));
        if let Some((other, _)) = other {
            return Err(Error::invalid(format!(
                "the modules {module:?} and {other:?} are fed by two brokers that are both named {:?}; give each a name with \
                 Feed::new",
                feed.name
            )));
        }
    }
    Ok(())
}

/// A route that publishes to a named broker beside a feed without a name: they may be the same broker, and everything would be
/// published twice.
pub(super) fn published(routes: &[Outgoing], feeds: &[(String, Feed)]) -> Result<()> {
    let Some((module, _)) = feeds.iter().find(|(_, feed)| feed.name == UNNAMED) else {
        return Ok(());
    };
    let is_unknown = |broker: &str| feeds.iter().all(|(_, feed)| feed.name != broker);
    for Outgoing { route, publishes } in routes {
        if let Some((broker, _)) = publishes.as_ref().filter(|(broker, _)| is_unknown(broker)) {
            return Err(Error::invalid(format!(
                "the route {:?} publishes to the broker {broker:?}, and the broker of the module {module:?} has no name; give it one \
                 with Feed::new",
                route.name
            )));
        }
    }
    Ok(())
}

/// The doors of a process. An address that other machines can reach needs locked ones. Without a word of the caller they are locked
/// also on a loopback address, if settings for other machines show that a proxy is there.
pub(super) fn doors(doors: Option<Doors>, listener: Option<&(TcpListener, Serving)>) -> Result<Doors> {
    let address = listener.and_then(|(tcp, _)| tcp.local_addr().ok());
    let is_for_others = listener.is_some_and(|(_, serving)| serving.is_for_others());
    match (doors, address) {
        (Some(doors), Some(address)) if !doors.is_locked() && !address.ip().is_loopback() => {
            Err(Error::invalid(format!(
                "other machines can reach {address}, and the doors are unlocked; use Doors::locked(), or listen on 127.0.0.1"
            )))
        }
        (Some(doors), _) => Ok(doors),
        (None, Some(address)) if address.ip().is_loopback() && !is_for_others => Ok(Doors::unlocked()),
        (None, _) => Ok(Doors::locked()),
    }
}

/// Each method at a path belongs to one module, and the parameters of a path have one name.
pub(super) fn operations(operations: &[(&'static str, Operation)]) -> Result<()> {
    let mut taken: HashMap<String, Vec<&(&'static str, Operation)>> = HashMap::new();
    for one in operations {
        let (module, operation) = one;
        let same_place = taken.entry(without_names(&operation.path)).or_default();
        let clash =
            |(_, other): &&&(&'static str, Operation)| other.method == operation.method || other.path != operation.path;
        if let Some((other_module, other)) = same_place.iter().find(clash) {
            return Err(Error::invalid(format!(
                "the HTTP route {} {} of {module} is the same as {} {} of {other_module}; begin paths with the module's name",
                operation.method, operation.path, other.method, other.path
            )));
        }
        same_place.push(one);
    }
    Ok(())
}

/// `/a/{id}/b` is `/a/{}/b`.
fn without_names(path: &str) -> String {
    let segment = |segment: &str| match segment.starts_with('{') {
        true => "{}".to_owned(),
        false => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// A route that is switched off would be forgotten, so it is no route of this process.
pub(super) fn retired(routes: &[Outgoing], modules: &[Module]) -> Result<()> {
    let own = routes.iter().map(|outgoing| outgoing.route.name.as_str());
    let brought = modules.iter().flat_map(|module| {
        let groups = module.subscribers.iter().map(|one| one.group.as_str());
        groups.chain(module.routes.iter().map(|one| one.name.as_str()))
    });
    let working: HashSet<&str> = own.chain(brought).collect();
    for module in modules {
        let mut retired = module.retired.iter().map(|one| one.carrier.route.as_str());
        if let Some(route) = retired.find(|route| working.contains(route)) {
            return Err(Error::invalid(format!(
                "the module {} says that the route {route:?} is switched off, and this process has a route of that name; give the route \
                 another name",
                module.name
            )));
        }
    }
    Ok(())
}

/// Progress is kept by name, and a subscriber is a route too.
pub(super) fn route_names(routes: &[Outgoing], modules: &[Module]) -> Result<()> {
    let own = routes
        .iter()
        .map(|outgoing| (outgoing.route.name.as_str(), "a route of the platform".to_owned()));
    let brought = modules.iter().flat_map(|module| {
        let groups = module
            .subscribers
            .iter()
            .map(|one| (one.group.as_str(), "a subscriber"));
        let routes = module.routes.iter().map(|one| (one.name.as_str(), "a route"));
        let of_module = |(name, what)| (name, format!("{what} of the module {}", module.name));
        groups.chain(routes).map(of_module)
    });
    let mut owners = HashMap::new();
    for (name, owner) in own.chain(brought) {
        if let Some(other) = owners.insert(name, owner.clone()) {
            return Err(Error::invalid(format!(
                "{name:?} is the name of {other} and of {owner}; progress is kept by name, so give each its own"
            )));
        }
    }
    Ok(())
}
