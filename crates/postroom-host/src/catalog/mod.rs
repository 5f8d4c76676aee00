//! The catalogue of a host: every event of its modules, who listens to it, and the contract that others rely on.

mod asyncapi;
mod graph;
mod lock;

use postroom::{EventType, Subscriber};
use serde::Serialize;

use crate::module::Module;

pub use lock::{Lock, Verdict};

/// Every event of some modules.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Catalogue {
    /// In the order of their names.
    pub events: Vec<Listed>,
    /// Names that break their module's rule, and names that two modules use.
    #[serde(skip)]
    pub mistakes: Vec<String>,
}

/// An event, and who has to do with it.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// The event.
    #[serde(flatten)]
    pub event: EventType,
    /// Its version.
    pub version: u32,
    /// Its description.
    pub description: String,
    /// The module that emits it.
    pub publisher: &'static str,
    /// Where it belongs on a broker.
    pub topic: String,
    /// The groups that listen to it.
    pub subscribers: Vec<String>,
    /// Those of them that read it from the outbox, also when a broker feeds their module.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub straight: Vec<String>,
}

impl Listed {
    /// The groups that listen to it, for people.
    pub fn listeners(&self) -> Vec<String> {
        let name = |group: &String| match self.straight.contains(group) {
            true => format!("{group} (straight)"),
            false => group.clone(),
        };
        self.subscribers.iter().map(name).collect()
    }
}

impl Catalogue {
    /// The catalogue of these modules. Subscribers that were handed to a relay already are not seen.
    pub fn of(modules: &[Module]) -> Self {
        let mut events: Vec<Listed> = modules
            .iter()
            .flat_map(|module| module.events.iter().map(|event| listed(module, event, modules)))
            .collect();
        events.sort_by_key(|listed| listed.event.name);
        let mut mistakes = mistakes(modules);
        for pair in events.windows(2) {
            if let [one, other] = pair
                && one.event.name == other.event.name
            {
                let (name, first, second) = (one.event.name, one.publisher, other.publisher);
                mistakes.push(format!(
                    "{name:?} is an event of {first} and of {second}; give one another name"
                ));
            }
        }
        Self { events, mistakes }
    }

    /// The contract: AsyncAPI 3.
    pub fn asyncapi(&self) -> serde_json::Value {
        asyncapi::document(self)
    }

    /// A picture of events, their publishers and their subscribers.
    pub fn graph(&self) -> String {
        graph::svg(self)
    }

    /// The lock file, which is committed beside the code.
    pub fn lock(&self) -> Lock {
        Lock::of(self)
    }
}

fn listed(module: &Module, event: &EventType, modules: &[Module]) -> Listed {
    let subscribers = modules.iter().flat_map(|module| &module.subscribers);
    let listens = subscribers.filter(|subscriber| subscriber.filter.matches(event.name));
    let listens: Vec<&Subscriber> = listens.collect();
    let groups = |subscribers: &mut dyn Iterator<Item = &&Subscriber>| {
        subscribers.map(|subscriber| subscriber.group.clone()).collect()
    };
    Listed {
        version: event.version(),
        description: event.description().to_owned(),
        publisher: module.name,
        topic: module.topic.of(event.name),
        subscribers: groups(&mut listens.iter()),
        straight: groups(&mut listens.iter().filter(|subscriber| subscriber.is_straight)),
        event: event.clone(),
    }
}

fn mistakes(modules: &[Module]) -> Vec<String> {
    let check = |module: &Module| {
        let names = module.events.iter().map(|event| module.naming.check(event.name));
        names.filter_map(Result::err).collect::<Vec<String>>()
    };
    modules.iter().flat_map(check).collect()
}
