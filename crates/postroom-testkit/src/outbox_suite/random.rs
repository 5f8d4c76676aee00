//! The whole contract at once, under traffic nobody would write by hand.

#![expect(clippy::unwrap_used, reason = "a clause asserts by panicking")]

use std::time::Duration;

use postroom_proof::Workload;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{Fresh, Receiver};

const WRITING: Duration = Duration::from_secs(4);

/// Sixteen writers, two processes that pulse and read: nothing lost, invented, doubled or out of order for either.
pub async fn randomized_writers_are_read_exactly(fresh: Fresh) {
    let seed = rand::random();
    let workload = Workload {
        seed,
        ..Workload::default()
    };
    let writers = fresh.writers(workload.writers).await;
    workload.prepare(&writers).await.unwrap();
    let mut one = Receiver::new(fresh.store(), seed);
    let mut two = Receiver::new(fresh.second().await, seed.wrapping_add(1));
    let stop = CancellationToken::new();
    let (tally, first, second, ()) =
        tokio::join!(workload.run(&writers, &stop), one.run(&stop), two.run(&stop), async {
            sleep(WRITING).await;
            stop.cancel();
        });
    first.unwrap();
    second.unwrap();
    let truth = workload.truth(&writers).await.unwrap();
    for receiver in [&mut one, &mut two] {
        let findings = receiver.finish(&truth).await.unwrap();
        let wrong = receiver.history().explain(&truth, 5);
        assert!(findings.is_exact(), "seed {seed}, {tally:?}: {findings:?}: {wrong:#?}");
        assert!(findings.events > 50, "enough was written to tell: {findings:?}");
    }
}
