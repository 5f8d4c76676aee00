//! Tells senders that history has their messages.
//!
//! The truth is in the table of entries that are not stored yet. The part of the module looks there for all senders of the process
//! with one statement; so it needs no message from the worker, and nothing is lost when a process restarts: a client that comes back
//! sends its messages again, and is told what became of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom::{CancellationToken, Inspect, Result};
use postroom_realtime::{ConnectionHandle, Frame};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::tables::{by_room, unstored};

/// Messages in one look.
const LOOK_MAX: usize = 500;
/// Between two looks: the first while messages are being stored, the second while none of those that are waited for was.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Messages whose senders wait to be told. Cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored(Arc<State>);

#[derive(Debug, Default)]
struct State {
    waiting: Mutex<VecDeque<Waiting>>,
    came: Notify,
}

/// A message whose sender waits.
#[derive(Clone, Debug)]
struct Waiting {
    room_id: i64,
    seq: i64,
    sender: ConnectionHandle,
}

impl Waiting {
    /// Tells the sender.
    fn tell(&self) {
        let stored = json!({ "event": "stored", "roomId": self.room_id, "seq": self.seq });
        self.sender.show(Frame::reply(stored.to_string()));
    }
}

impl Stored {
    /// Tells this sender when history has an entry.
    pub(crate) fn watch(&self, (room_id, seq): (i64, i64), sender: ConnectionHandle) {
        let waiting = Waiting { room_id, seq, sender };
        self.waiting().push_back(waiting);
        self.0.came.notify_one();
    }

    /// Works until the stop.
    pub(crate) async fn run(self, store: Arc<dyn Inspect>, stop: CancellationToken) -> Result<()> {
        let mut pause = PAUSE.0;
        while !stop.is_cancelled() {
            if self.waiting().is_empty() {
                stop.run_until_cancelled(self.0.came.notified()).await;
                pause = PAUSE.0;
            }
            stop.run_until_cancelled(sleep(pause)).await;
            pause = match self.look(&*store).await {
                Ok(told) if told > 0 => PAUSE.0,
                Ok(_) => (2 * pause).min(PAUSE.1),
                Err(error) => {
                    tracing::warn!(error = error.report(), "senders were not told what is stored");
                    PAUSE.1
                }
            };
        }
        Ok(())
    }

    /// Looks at the messages that have waited longest; answers how many were stored.
    async fn look(&self, store: &dyn Inspect) -> Result<usize> {
        let asked = self.first();
        let seqs = by_room(asked.iter().map(|waiting| (waiting.room_id, waiting.seq)));
        let outcome = unstored::among(store.db(), &seqs).await;
        let left = match &outcome {
            Ok(left) => asked
                .iter()
                .filter(|one| left.contains(&(one.room_id, one.seq)))
                .cloned()
                .collect(),
            Err(_) => asked.clone(),
        };
        let told = asked.len() - left.len();
        let is_left = |one: &&Waiting| {
            left.iter()
                .any(|left| (left.room_id, left.seq) == (one.room_id, one.seq))
        };
        asked.iter().filter(|one| !is_left(one)).for_each(Waiting::tell);
        self.waiting().extend(left); // behind the others: each is looked at in turn
        outcome.map(|_| told)
    }

    /// Takes those that have waited longest, without those whose connections have ended.
    fn first(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting();
        waiting.retain(|one| one.sender.is_open());
        let count = waiting.len().min(LOOK_MAX);
        waiting.drain(..count).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
