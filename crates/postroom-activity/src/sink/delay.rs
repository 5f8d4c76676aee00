//! The delay of delivery: from an event's entry in the outbox, which is made in the transaction that stores the event, to the sink's
//! receipt. It is exported as the histogram `activity_sink_delay_seconds`.

use postroom::{DomainEvent as _, Entry, Receipt, clock};
use postroom_host::prometheus_client::metrics::family::Family;
use postroom_host::prometheus_client::metrics::histogram::Histogram;
use postroom_host::prometheus_client::registry::Registry;

use crate::event::ActivityStored;

/// The upper ends of the buckets, in seconds. 600 is the limit of the specification for 95 of 100 events.
const BUCKETS_S: [f64; 14] = [
    0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 21_600.0,
];

type Labels = [(&'static str, &'static str); 1];

/// The delays by sink.
#[derive(Clone, Debug)]
pub(crate) struct SinkDelays(Family<Labels, Histogram, fn() -> Histogram>);

impl Default for SinkDelays {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(BUCKETS_S)))
    }
}

impl SinkDelays {
    /// Measures an entry with its receipt. An event that an operator sends again is not measured: its age is no delay.
    pub(super) fn measure(&self, sink_type: &'static str, entry: &Entry, receipt: &Receipt) {
        if *receipt == Receipt::Delivered && entry.event.event_type == ActivityStored::TYPE {
            let delay = (clock::now() - entry.created_at).as_seconds_f64();
            let of_sink = self.0.get_or_create(&[("sink", sink_type)]);
            of_sink.observe(delay.max(0.0)); // the clocks of the database and of this process may differ
        }
    }

    pub(crate) fn register(self, registry: &mut Registry) {
        registry.register(
            "sink_delay_seconds",
            "Time from storing an event to the receipt of the sink",
            self.0,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postroom::Event;
    use postroom_host::prometheus_client::encoding::text::encode;

    use super::*;
    use crate::event::{ActivityEvent, ActivityRedispatched};

    #[test]
    fn the_delay_of_a_delivered_event_is_counted_in_its_bucket() {
        let delays = SinkDelays::default();
        let activity = ActivityEvent::new("review.created", "v1");
        let entry = |event: Event, age_s: u64| Entry {
            id: 1,
            event,
            created_at: clock::now() - Duration::from_secs(age_s),
        };
        let stored = || Event::of(&ActivityStored(activity.clone())).unwrap();
        delays.measure("posthog", &entry(stored(), 400), &Receipt::Delivered);
        delays.measure("posthog", &entry(stored(), 700), &Receipt::Delivered);
        delays.measure("posthog", &entry(stored(), 700), &Receipt::Refused("no".to_owned()));
        let again = ActivityRedispatched {
            sink_type: "posthog".to_owned(),
            event: activity.clone(),
        };
        delays.measure("posthog", &entry(Event::of(&again).unwrap(), 5), &Receipt::Delivered);
        let mut registry = Registry::with_prefix("activity");
        delays.register(&mut registry);
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        for line in [
            r#"activity_sink_delay_seconds_bucket{le="300.0",sink="posthog"} 0"#,
            r#"activity_sink_delay_seconds_bucket{le="600.0",sink="posthog"} 1"#,
            r#"activity_sink_delay_seconds_count{sink="posthog"} 2"#,
        ] {
            assert!(page.contains(line), "{line} is missing: {page}");
        }
    }
}
