//! Best-effort recording: for events that are worth less than the request that they report.
//!
//! [`Recorder::record`] never waits and never fails. The events that it takes wait in a queue in memory until a part of the module
//! stores them; a process that is killed loses them. While the queue is full, further events are dropped and counted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::{CancellationToken, Error, ErrorKind, Result};
use postroom_host::prometheus_client::metrics::counter::Counter;
use postroom_host::{Host, Module};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::event::ActivityEvent;
use crate::ingest::is_refused;
use crate::orchestrator::Orchestrator;
use crate::privacy::Admitted;
use crate::tables;

/// Events in memory.
const QUEUE_MAX: usize = 10_000;
/// Events in one transaction.
const BATCH_MAX: usize = 500;
/// How long a batch may take to be stored.
const STORE_MAX: Duration = Duration::from_secs(20);
/// The wait after a batch that could not be stored.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a process that stops tries to store what is left.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// Records activity events without waiting. Clones record into the same queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<ActivityEvent>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dropped: Counter,
    /// The other end, until the module takes it.
    waiting: Mutex<Option<mpsc::Receiver<ActivityEvent>>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::with_room_for(QUEUE_MAX)
    }
}

impl Recorder {
    /// A recorder whose queue holds at most this many events.
    pub fn with_room_for(events: usize) -> Self {
        let (queue, waiting) = mpsc::channel(events.max(1));
        Self {
            queue,
            shared: Arc::new(Shared {
                dropped: Counter::default(),
                waiting: Mutex::new(Some(waiting)),
            }),
        }
    }

    /// Takes an event, if there is room. It does not wait.
    pub fn record(&self, event: ActivityEvent) {
        if self.queue.try_send(event).is_err() {
            self.shared.dropped.inc();
        }
    }

    /// How many events were dropped since the process started.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.get()
    }

    /// Adds its count of dropped events to the metrics of the module.
    pub(crate) fn register(&self, module: Module) -> Module {
        let dropped = self.shared.dropped.clone();
        let says = "Recorded events that were dropped: the queue was full, or the process stopped";
        module.metrics(move |registry| registry.register("recorder_dropped_events", says, dropped))
    }

    /// Stores recorded events until `stop`, and then the rest.
    pub(crate) async fn run(self, orchestrator: Orchestrator, host: Host, stop: CancellationToken) -> Result<()> {
        let waiting = self
            .shared
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut waiting) = waiting else {
            return Err(Error::new(
                ErrorKind::Invalid,
                "two modules store the events of one recorder; give each its own",
            ));
        };
        let (mut recorded, mut batch) = (Vec::with_capacity(BATCH_MAX), Vec::with_capacity(BATCH_MAX));
        while stop
            .run_until_cancelled(waiting.recv_many(&mut recorded, BATCH_MAX))
            .await
            .is_some()
        {
            self.admit(&orchestrator, &mut recorded, &mut batch);
            while !self.store(&orchestrator, &host, &mut batch).await && !stop.is_cancelled() {
                stop.run_until_cancelled(sleep(PAUSE)).await;
            }
        }
        // Events that are recorded from now on are dropped and counted: nothing would store them.
        waiting.close();
        let flush = async {
            while !batch.is_empty() || waiting.recv_many(&mut recorded, BATCH_MAX).await > 0 {
                self.admit(&orchestrator, &mut recorded, &mut batch);
                if !self.store(&orchestrator, &host, &mut batch).await {
                    return;
                }
            }
        };
        let is_flushed = timeout(FLUSH_MAX, flush).await.is_ok();
        if !is_flushed || !batch.is_empty() {
            let left = batch.len() + recorded.len() + waiting.len();
            self.drop(left, "the process stops");
        }
        Ok(())
    }

    /// Admits recorded events, each of them once. Events that exceed a limit are dropped and counted.
    fn admit(&self, orchestrator: &Orchestrator, recorded: &mut Vec<ActivityEvent>, batch: &mut Vec<Admitted>) {
        for event in recorded.drain(..) {
            match orchestrator.admit(event) {
                Ok(admitted) => batch.push(admitted),
                Err(_beyond_a_limit) => {
                    self.shared.dropped.inc();
                }
            }
        }
    }

    /// Stores a batch; answers whether the batch is finished. If the store refuses it, each event is stored alone, so that one
    /// event costs no other: those that are refused for good are dropped and counted.
    async fn store(&self, orchestrator: &Orchestrator, host: &Host, batch: &mut Vec<Admitted>) -> bool {
        match try_store(orchestrator, host, batch).await {
            Ok(()) => batch.clear(),
            Err(error) if is_refused(&error) => {
                while let Some(event) = batch.last() {
                    match try_store(orchestrator, host, std::slice::from_ref(event)).await {
                        Ok(()) => {}
                        Err(error) if is_refused(&error) => self.drop(1, &error.report()),
                        Err(_unavailable) => return false,
                    }
                    batch.pop();
                }
            }
            Err(error) => tracing::warn!(
                error = error.report(),
                events = batch.len(),
                "recorded activity could not be stored; it is tried again"
            ),
        }
        batch.is_empty()
    }

    fn drop(&self, events: usize, why: &str) {
        if events > 0 {
            tracing::warn!(events, why, "recorded activity was dropped");
            self.shared.dropped.inc_by(events as u64);
        }
    }
}

/// One transaction.
async fn try_store(orchestrator: &Orchestrator, host: &Host, events: &[Admitted]) -> Result<()> {
    let store = async {
        let tx = host.begin().await?;
        // The server, not this process, ends a wait for a lock: a statement that is given up here would keep its connection.
        tables::limit_waits(&tx).await?;
        orchestrator.store_admitted(&tx, events).await?;
        tx.commit().await
    };
    let late = |late| Error::caused(ErrorKind::Unavailable, "store recorded activity", late);
    timeout(STORE_MAX, store).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts() {
        let recorder = Recorder::with_room_for(2);
        for _ in 0..5 {
            recorder.record(ActivityEvent::new("search.executed", "v1"));
        }
        assert_eq!(recorder.dropped(), 3);
    }
}
