//! Latencies in a bounded memory.

/// Parts of each doubling: a latency is known within 1/16.
const PARTS: u64 = 16;
const PART_BITS: u32 = PARTS.trailing_zeros();
const BUCKETS: usize = 1_024;

/// Latencies in microseconds, counted by size.
#[derive(Debug)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: 0,
        }
    }

    pub(super) fn add(&mut self, micros: u64) {
        if let Some(count) = self.counts.get_mut(bucket(micros)) {
            *count += 1;
            self.total += 1;
        }
    }

    /// The latency that this share of all does not exceed, in milliseconds.
    pub(super) fn percentile_ms(&self, share: f64) -> f64 {
        let wanted = share * self.total as f64;
        let mut sum = 0;
        for (at, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum > 0 && sum as f64 >= wanted {
                return upper(at) as f64 / 1_000.0;
            }
        }
        0.0
    }
}

fn bucket(micros: u64) -> usize {
    let doublings = micros.checked_ilog2().unwrap_or(0).saturating_sub(PART_BITS);
    let part = micros >> doublings; // below 2 * PARTS
    let at = u64::from(doublings) * PARTS + part;
    usize::try_from(at).unwrap_or(BUCKETS)
}

/// The largest latency of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let doublings = (bucket / PARTS).saturating_sub(1);
    let part = bucket - doublings * PARTS;
    ((part + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_known_within_a_sixteenth() {
        for micros in (0..5_000).chain((0..40).map(|power| (1 << power) + 3)) {
            let found = upper(bucket(micros));
            assert!(
                found >= micros && found <= micros + micros / 16 + 1,
                "{micros}: {found}"
            );
        }
    }

    #[test]
    fn percentiles_count_from_below() {
        let mut latencies = Latencies::new();
        assert!(latencies.percentile_ms(0.5).abs() < f64::EPSILON);
        (1..=100).for_each(|ms| latencies.add(ms * 1_000));
        let close = |share: f64, expected: f64| (latencies.percentile_ms(share) - expected).abs() <= expected / 15.0;
        assert!(
            close(0.5, 50.0) && close(0.99, 99.0) && close(1.0, 100.0),
            "{latencies:?}"
        );
    }
}
