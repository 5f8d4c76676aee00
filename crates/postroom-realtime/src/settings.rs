//! The numbers of a hub.

use std::time::Duration;

use postroom_shared::registry::Limits;

/// The settings of a hub. [`HubSettings::new`] has the times that fit proxies and browsers; tests use shorter ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubSettings {
    /// Its name: frames go over the channel `realtime:{name}` of the fan-out, its metrics begin with it, and its tickets open its
    /// streams alone. The same in all instances, and different from other hubs that share the state.
    pub name: String,
    /// How many connections a member may have over all instances. Without it, any number.
    pub limits: Option<Limits>,
    /// A connection ends after 80 to 100 % of this.
    pub lifetime: Duration,
    /// Each connection gets a ping this often, and its lease is renewed.
    pub ping_every: Duration,
    /// How often the newest numbers in the database are compared with what was sent.
    pub tail_check_every: Duration,
    /// A client that takes nothing for this long while its queue is full is disconnected.
    pub stall_max: Duration,
    /// When the shared state has not been reachable for this long, connections end.
    pub unavailable_after: Duration,
    /// Over what time the connections of a process that stops end, if they are many.
    pub drain: Duration,
}

impl HubSettings {
    /// A hub without a limit of connections per member.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            limits: None,
            lifetime: Duration::from_mins(30),
            ping_every: Duration::from_secs(20),
            tail_check_every: Duration::from_secs(10),
            stall_max: Duration::from_secs(10),
            unavailable_after: Duration::from_secs(5),
            drain: Duration::from_secs(7),
        }
    }

    /// Limits the connections of each member.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// The channel of its frames.
    pub(crate) fn channel(&self) -> String {
        format!("realtime:{}", self.name)
    }
}
