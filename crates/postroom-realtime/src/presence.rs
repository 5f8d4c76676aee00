//! Counts what is open: connections and WebSocket sessions, so that the end of the process can wait for them.

use std::sync::Arc;

use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct Presence(watch::Sender<usize>);

impl Presence {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Counts until it is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Present {
        self.0.send_modify(|count| *count += 1);
        Present(Arc::clone(self))
    }

    pub(crate) fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until nothing is open.
    pub(crate) async fn empty(&self) {
        let mut count = self.0.subscribe();
        // The sender lives as long as `self`, so it cannot fail.
        drop(count.wait_for(|count| *count == 0).await);
    }
}

/// Something that is open.
#[derive(Debug)]
pub(crate) struct Present(Arc<Presence>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
