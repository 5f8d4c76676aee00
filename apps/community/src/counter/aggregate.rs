//! The worker `aggregate`: adds each change to the tally. It is best effort. A change that is not added is shown with the next
//! flush, so nothing is retried and nothing becomes a dead letter, except an event that is none.

use std::time::Duration;

use postroom::{BatchHandler, BoxError, Event, Result, Tx, clock};
use postroom_shared::Slot;
use postroom_shared::tally::{Change, KEPT};
use tokio::time::timeout;

use super::{Counts, tallied};
use crate::events::CommentCountDelta;

/// How long the tally may take to answer. The transaction of the subscriber is open meanwhile.
const TALLY_MAX: Duration = Duration::from_millis(500);

/// The worker.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) shared: Slot,
    pub(crate) counts: Counts,
}

impl BatchHandler for Aggregate {
    async fn handle(&self, _tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        let changes = events.iter().filter(|event| is_new(event)).map(|event| change(event));
        let changes: Vec<Change> = changes.collect::<Result<_>>()?;
        if changes.is_empty() {
            return Ok(());
        }
        let says = match self.shared.get() {
            Ok(shared) => match timeout(TALLY_MAX, shared.tally.add(&changes)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error.report(),
                Err(_elapsed) => "the tally did not answer".to_owned(),
            },
            Err(error) => error.report(),
        };
        self.counts.not_tallied(changes.len());
        tracing::warn!(
            changes = changes.len(),
            error = says,
            "changes of comment counts are shown with the next flush"
        );
        Ok(())
    }
}

/// The tally forgets what is older: a change that comes so late is in its post already, and would be counted twice.
fn is_new(event: &Event) -> bool {
    clock::now() - event.occurred_at < KEPT / 2
}

fn change(event: &Event) -> Result<Change> {
    let delta: CommentCountDelta = event.decode()?;
    Ok(tallied(delta.post_id, &event.id.to_string(), delta.delta))
}
