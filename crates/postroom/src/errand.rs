//! Errands: what a subscriber does outside any transaction, because it must ask somebody who may take long to answer.

use async_trait::async_trait;
use sea_orm::DatabaseConnection;
use tracing::Instrument;

use crate::cause::Cause;
use crate::destination::{Batch, Receipt};
use crate::error::Result;
use crate::event::Event;
use crate::outbox::Entry;
use crate::subscriber::{Subscriber, refusal};
use crate::trace::{self, Step};
use crate::upcast::upcast;

/// Errands of one subscriber that are under way at once, each on a lane of its own.
const AT_ONCE: usize = 10;

/// Does something for one event outside any transaction.
///
/// While it runs, nothing is locked and no connection is held. Ten entries are taken at a time, lanes side by side, and the next
/// ten when all of these have ended; so one that hangs holds up others until its time is out. What it writes, it writes in short
/// transactions of its own ([`crate::table::begin`]), each of which must hold by itself: nothing is undone when a
/// later step fails.
///
/// It runs at least once for each event. A process may die before it is written down that the errand was done, and one that
/// lost its lease may still be under way when the next one begins. So it writes down what it is about to do before it does it,
/// and whoever it asks must know a repetition by an id that stays the same. An error is retried by the subscriber's policy,
/// as with a [`crate::Handler`].
#[async_trait]
pub trait Errand: Send + Sync {
    /// Does it.
    async fn run(&self, db: &DatabaseConnection, event: &Event) -> Result<()>;
}

impl Subscriber {
    /// Runs errands for the first of these entries (at least one), lanes side by side, and answers them.
    pub(crate) async fn run_errands(
        &self,
        db: &DatabaseConnection,
        errand: &dyn Errand,
        entries: &[&Entry],
    ) -> Vec<Receipt> {
        let entries = entries.get(..AT_ONCE).unwrap_or(entries);
        let batch = Batch {
            entries,
            ordering: self.ordering,
        };
        let run = async |at: usize| match entries.get(at) {
            Some(entry) => self.run_errand(db, errand, entry).await,
            None => Receipt::Held,
        };
        batch.in_lanes(AT_ONCE, run).await
    }

    async fn run_errand(&self, db: &DatabaseConnection, errand: &dyn Errand, entry: &Entry) -> Receipt {
        let ran = async {
            let event = upcast(&self.upcasters, &entry.event)?;
            let span = trace::span(Step::Handle, &self.group, &event);
            let call = Cause::of(&event).scope(errand.run(db, &event));
            self.guard(call.instrument(span)).await
        };
        match ran.await {
            Ok(()) => Receipt::Delivered,
            Err(error) => refusal(&error),
        }
    }
}
