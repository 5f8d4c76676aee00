//! Facts about the deployment that the sink remembers between batches. A restart forgets it, which costs a request or two.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::message::Protocol;

/// After this time an ability that was missing is tried again: the deployment may have been updated.
const RECHECK: Duration = Duration::from_secs(3_600);

#[derive(Debug, Default)]
pub(super) struct Memory {
    v1_absent_until: Option<Instant>,
    gzip_refused_until: Option<Instant>,
    /// The last request by v1, and how often it was sent.
    last: Option<(Uuid, u32)>,
    /// Whether the deployment understood the last requests, so that a refusal concerns an event and not the form of our requests.
    pub(super) is_form_known: bool,
}

impl Memory {
    pub(super) fn protocol(&self, now: Instant) -> Protocol {
        match self.v1_absent_until {
            Some(until) if now < until => Protocol::V0,
            _ => Protocol::V1,
        }
    }

    pub(super) fn v1_is_absent(&mut self, now: Instant) {
        self.v1_absent_until = Some(now + RECHECK);
    }

    pub(super) fn v1_may_be_back(&mut self) {
        self.v1_absent_until = None;
    }

    pub(super) fn is_compressed(&self, now: Instant) -> bool {
        self.gzip_refused_until.is_none_or(|until| now >= until)
    }

    pub(super) fn gzip_is_refused(&mut self, now: Instant) {
        self.gzip_refused_until = Some(now + RECHECK);
    }

    /// The number of this attempt to send a request: 1, and one more for each time in a row.
    pub(super) fn attempt(&mut self, request_id: Uuid) -> u32 {
        let before = self
            .last
            .filter(|(id, _)| *id == request_id)
            .map_or(0, |(_, count)| count);
        let attempt = before.saturating_add(1);
        self.last = Some((request_id, attempt));
        attempt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_ability_is_tried_again_after_an_hour() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let later = now + RECHECK;
        assert_eq!((memory.protocol(now), memory.is_compressed(now)), (Protocol::V1, true));
        memory.v1_is_absent(now);
        memory.gzip_is_refused(now);
        assert_eq!((memory.protocol(now), memory.is_compressed(now)), (Protocol::V0, false));
        assert_eq!(
            (memory.protocol(later), memory.is_compressed(later)),
            (Protocol::V1, true)
        );
        memory.v1_may_be_back();
        assert_eq!(memory.protocol(now), Protocol::V1);
    }

    #[test]
    fn attempts_of_the_same_request_are_counted() {
        let (mut memory, one, other) = (Memory::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        let attempts = [one, one, other, one].map(|id| memory.attempt(id));
        assert_eq!(attempts, [1, 2, 1, 1]);
    }
}
