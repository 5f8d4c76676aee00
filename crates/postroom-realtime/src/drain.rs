//! The end of a process: its connections end evenly, so that their clients come back evenly.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::Reason;
use crate::hub::Core;

/// This many a second may come back at any time. Fewer connections than that end faster than the window.
const PER_SECOND: f64 = 50.0;
const STEP: Duration = Duration::from_millis(50);
/// How long the last frames may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Ends all connections, and waits until their clients have read that.
pub(crate) async fn run(hub: &Arc<Core>) {
    hub.link.drains();
    let peers = hub.peers.all();
    let window = window(peers.len(), hub.settings.drain);
    let begun = Instant::now();
    let mut ended = 0;
    while ended < peers.len() {
        let due = due(peers.len(), begun.elapsed(), window);
        for peer in peers.get(ended..due).unwrap_or_default() {
            hub.end(peer, Reason::Drain);
        }
        ended = ended.max(due);
        sleep(STEP).await;
    }
    if timeout(PATIENCE, hub.presence.empty()).await.is_err() {
        let open = hub.presence.count();
        tracing::info!(
            hub = hub.settings.name,
            open,
            "some clients did not read the end of their connection"
        );
    }
}

/// Over what time so many connections end.
#[expect(clippy::cast_precision_loss, reason = "a number of connections")]
fn window(count: usize, longest: Duration) -> Duration {
    Duration::from_secs_f64(count as f64 / PER_SECOND).min(longest)
}

/// How many of them should have ended by now.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of connections"
)]
fn due(count: usize, elapsed: Duration, window: Duration) -> usize {
    match elapsed >= window {
        true => count,
        false => (count as f64 * elapsed.div_duration_f64(window)).ceil() as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn connections_end_evenly() {
        let count = 1_000;
        let window = window(count, 7 * SECOND);
        assert_eq!(window, 7 * SECOND);
        let ends: Vec<_> = (0..=7).map(|second| due(count, SECOND * second, window)).collect();
        for pair in ends.windows(2) {
            assert!((pair[1] - pair[0]).abs_diff(143) <= 1, "{ends:?}");
        }
        assert_eq!(ends[7], count);
    }

    #[test]
    fn few_connections_end_fast() {
        let check = |count: usize, expected: Duration| assert_eq!(window(count, 7 * SECOND), expected, "{count}");
        check(0, Duration::ZERO);
        check(1, SECOND / 50);
        check(100, 2 * SECOND);
        check(100_000, 7 * SECOND);
        assert_eq!(due(0, Duration::ZERO, Duration::ZERO), 0);
        assert_eq!(due(3, Duration::ZERO, Duration::ZERO), 3);
    }
}
