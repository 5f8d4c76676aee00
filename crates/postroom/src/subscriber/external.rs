//! External tasks: handlers that run outside a transaction because they call a slow external system.

use std::fmt;
use std::pin::Pin;

use sea_orm::DatabaseConnection;
use tracing::Instrument;

use crate::destination::{Batch, Receipt};
use crate::error::{BoxError, Result};
use crate::event::Event;
use crate::event::cause::Cause;
use crate::event::entry::Entry;
use crate::event::trace::{self, Step};
use crate::event::upcast::upcast;
use crate::store::table;
use crate::store::tx::Tx;
use crate::subscriber::handler::{AsyncFunction, boxed};
use crate::subscriber::{Subscriber, refusal};

/// Tasks of one subscriber that run at once, each on a lane of its own.
const AT_ONCE: usize = 10;

/// Does something for one event outside a transaction.
///
/// Any `async fn(&Database, &Event) -> Result<(), E>` is an external task. Implement the trait for a type that has state.
///
/// While it runs, it holds no lock and no connection. Ten events are taken at a time, different keys in parallel, and the next ten
/// when all of these have ended; so a task that hangs delays others until its timeout. It writes in short transactions of its own
/// ([`Database::begin`]). Each of them must be correct by itself: nothing is undone when a later step fails.
///
/// A task runs at least once for each event. A process may die before it records that the task has run, and a process that lost
/// its lease may still run the task while another process starts it again. So a task records what it is about to do before it does
/// it, and the external system must recognise a repetition by an id that stays the same. Errors are handled as with a
/// [`crate::Handler`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an external task",
    note = "write an `async fn(&Database, &Event) -> Result<(), E>`, where `E` is any error type and the future is `Send`"
)]
pub trait ExternalTask: Send + Sync {
    /// Runs the task.
    fn run(&self, db: &Database, event: &Event) -> impl Future<Output = Result<(), BoxError>> + Send;
}

impl<F> ExternalTask for F
where
    F: for<'a> AsyncFunction<'a, &'a Database, &'a Event>,
{
    async fn run(&self, db: &Database, event: &Event) -> Result<(), BoxError> {
        self.call(db, event).await.map_err(boxed)
    }
}

/// The store's database, for tasks that begin transactions of their own.
#[derive(Clone, Debug)]
pub struct Database(DatabaseConnection);

impl Database {
    /// Begins a transaction.
    pub async fn begin(&self) -> Result<Tx> {
        table::begin(&self.0).await
    }
}

impl From<DatabaseConnection> for Database {
    fn from(connection: DatabaseConnection) -> Self {
        Self(connection)
    }
}

/// Some external task, whatever its type.
pub struct BoxTask(Box<dyn CallTask>);

impl BoxTask {
    /// Hides the type of a task.
    pub fn new(task: impl ExternalTask + 'static) -> Self {
        Self(Box::new(task))
    }
}

impl ExternalTask for BoxTask {
    async fn run(&self, db: &Database, event: &Event) -> Result<(), BoxError> {
        self.0.call(db, event).await
    }
}

impl fmt::Debug for BoxTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxTask")
    }
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// [`ExternalTask`] without a type of its own.
trait CallTask: Send + Sync {
    fn call<'a>(&'a self, db: &'a Database, event: &'a Event) -> Running<'a>;
}

impl<T: ExternalTask> CallTask for T {
    fn call<'a>(&'a self, db: &'a Database, event: &'a Event) -> Running<'a> {
        Box::pin(self.run(db, event))
    }
}

impl Subscriber {
    /// Runs the task for the first of these entries (at least one), lanes side by side, and answers them.
    pub(crate) async fn run_tasks(&self, db: &Database, task: &BoxTask, entries: &[&Entry]) -> Vec<Receipt> {
        let entries = entries.get(..AT_ONCE).unwrap_or(entries);
        let batch = Batch {
            entries,
            ordering: self.ordering,
        };
        let run = async |at: usize| match entries.get(at) {
            Some(entry) => self.run_task(db, task, entry).await,
            None => Receipt::Held,
        };
        batch.in_lanes(AT_ONCE, run).await
    }

    async fn run_task(&self, db: &Database, task: &BoxTask, entry: &Entry) -> Receipt {
        let ran = async {
            let event = upcast(&self.upcasters, &entry.event)?;
            let span = trace::span(Step::Handle, &self.group, &event);
            let call = Cause::of(&event).scope(task.run(db, &event));
            self.guard(call.instrument(span)).await
        };
        match ran.await {
            Ok(()) => Receipt::Delivered,
            Err(error) => refusal(&error),
        }
    }
}
