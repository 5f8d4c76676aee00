//! Counters of client ingest.

use postroom_host::prometheus_client::metrics::counter::Counter;
use postroom_host::prometheus_client::metrics::family::Family;
use postroom_host::prometheus_client::registry::Registry;

use super::Answer;

type Labels = [(&'static str, &'static str); 1];

/// Counts of requests and events, by their result.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    events: Family<Labels, Counter>,
    /// Requests above the rate limit.
    pub(super) limited: Counter,
    /// Requests that this instance has counted alone, because the shared rate limit could not be reached.
    pub(super) fallbacks: Counter,
}

impl Metrics {
    pub(super) fn count(&self, answer: &Answer) {
        let result = match answer {
            Answer::Ok { .. } => "ok",
            Answer::Duplicate => "duplicate",
            Answer::Dropped(_) => "drop",
            Answer::Retry => "retry",
        };
        self.events.get_or_create(&[("result", result)]).inc();
    }

    pub(super) fn register(self, registry: &mut Registry) {
        registry.register("ingest_events", "Client events by their answer", self.events);
        registry.register(
            "ingest_limited",
            "Requests of clients above the rate limit",
            self.limited,
        );
        registry.register(
            "ingest_limit_fallbacks",
            "Requests that this instance counted alone, because the shared rate limit could not be reached",
            self.fallbacks,
        );
    }
}
