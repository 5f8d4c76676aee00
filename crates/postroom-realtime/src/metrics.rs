//! The metrics of a hub.

use postroom_host::prometheus_client::metrics::counter::Counter;
use postroom_host::prometheus_client::metrics::family::Family;
use postroom_host::prometheus_client::metrics::gauge::Gauge;
use postroom_host::prometheus_client::registry::Registry;

/// The counters of one hub.
#[derive(Debug, Default)]
pub(crate) struct HubMetrics {
    connections: Gauge,
    opened: Counter,
    refused: Family<Why, Counter>,
    ended: Family<Why, Counter>,
    received: Counter,
    malformed: Counter,
    delivered: Counter,
    gaps: Counter,
    repairs: Counter,
    repaired: Counter,
    repair_failures: Counter,
    listener_failures: Counter,
    swept: Counter,
}

/// The label of a reason.
type Why = [(&'static str, &'static str); 1];

impl HubMetrics {
    pub(crate) fn opened(&self) {
        self.opened.inc();
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&[("reason", reason)]).inc();
    }

    pub(crate) fn ended(&self, reason: &'static str) {
        self.ended.get_or_create(&[("reason", reason)]).inc();
    }

    pub(crate) fn connected(&self) {
        self.connections.inc();
    }

    pub(crate) fn disconnected(&self) {
        self.connections.dec();
    }

    pub(crate) fn received(&self) {
        self.received.inc();
    }

    pub(crate) fn malformed(&self) {
        self.malformed.inc();
    }

    pub(crate) fn delivered(&self, frames: u64) {
        self.delivered.inc_by(frames);
    }

    pub(crate) fn gap(&self) {
        self.gaps.inc();
    }

    pub(crate) fn repaired(&self, frames: usize) {
        self.repairs.inc();
        self.repaired.inc_by(frames as u64);
    }

    pub(crate) fn repair_failed(&self) {
        self.repair_failures.inc();
    }

    pub(crate) fn listener_failed(&self) {
        self.listener_failures.inc();
    }

    pub(crate) fn swept(&self, connections: u64) {
        self.swept.inc_by(connections);
    }

    /// Adds them to the page; their names begin with that of the hub.
    pub(crate) fn register(&self, hub: &str, registry: &mut Registry) {
        let prefix = hub.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register("opened", "Connections that were opened", self.opened.clone());
        registry.register("refused", "Connections that were refused", self.refused.clone());
        registry.register("ended", "Connections that ended", self.ended.clone());
        registry.register("received", "Frames that came from the fan-out", self.received.clone());
        registry.register("malformed", "Messages that are no frames", self.malformed.clone());
        registry.register(
            "delivered",
            "Frames that were queued for connections",
            self.delivered.clone(),
        );
        registry.register("gaps", "Frames that came before an earlier one", self.gaps.clone());
        registry.register("repairs", "Reads of missed frames", self.repairs.clone());
        registry.register("repaired", "Frames that these reads brought", self.repaired.clone());
        registry.register(
            "repair_failures",
            "Such reads that failed",
            self.repair_failures.clone(),
        );
        registry.register(
            "listener_failures",
            "How often the hub had to listen again",
            self.listener_failures.clone(),
        );
        registry.register("swept", "Connections of others that were swept", self.swept.clone());
    }
}
