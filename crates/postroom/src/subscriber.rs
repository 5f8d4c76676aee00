//! A subscriber: a named handler with one effect per event.
//!
//! Events are handled in chunks inside one transaction, together with their inbox rows and the route's progress. When an
//! event fails, the chunk is rolled back and the part before it is run again, so that no effect is lost or repeated.

pub(crate) mod effects;
pub(crate) mod external;
pub(crate) mod form;
pub(crate) mod handler;
pub(crate) mod reader;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr};
use serde::de::DeserializeOwned;
use tracing::Instrument;

use crate::broker::Message;
use crate::destination::Receipt;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::event::cause::Cause;
use crate::event::entry::Entry;
use crate::event::envelope::Envelope;
use crate::event::screen::Screen;
use crate::event::trace::{self, Step};
use crate::event::upcast::{Upcaster, upcast};
use crate::event::writer::Writer;
use crate::event::{DomainEvent, Event};
use crate::policy::filter::Filter;
use crate::policy::ordering::Ordering;
use crate::policy::retry::Retry;
use crate::policy::{Dead, Start};
use crate::store::inbox;
use crate::store::outbox::with_timeout_of;
use crate::store::table::{self, Limits};
use crate::store::tx::Tx;
use crate::subscriber::effects::{Handled, OpenEffects};
use crate::subscriber::external::{BoxTask, Database, ExternalTask};
use crate::subscriber::form::Form;
use crate::subscriber::handler::{AsyncFunction, BatchHandler, BoxBatchHandler, BoxHandler, Handler, Typed};
use crate::subscriber::reader::Reader;

/// Events taken from a broker at once, unless told.
const BATCH: usize = 500;
/// Most events in one transaction.
const CHUNK: usize = 100;
/// A chunk that has worked this long is committed: slow handlers commit event by event, fast ones a hundred at once.
const CHUNK_TIME: Duration = Duration::from_millis(50);
/// How long a step of the platform's own may take inside a handler's transaction; the server ends a lock wait before.
const STEP_MAX: Duration = Duration::from_secs(15);
/// How long a handler's statement waits for a lock, at most. The chunk is run again then.
const LOCK_MAX: Duration = Duration::from_secs(10);
/// How often a chunk is run again at once when the database chose it as the victim of a deadlock.
const RERUNS: u32 = 3;

/// How a redelivered event is kept from having a second effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idempotency {
    /// A row `{group}:{event_id}` in `event_handled`, in the handler's transaction.
    #[default]
    Inbox,
    /// The handler's writes are upserts; only repeats within one chunk are dropped. A chunk is the events of one transaction, at most 100.
    Upsert,
    /// Handling twice is the same as once by nature.
    Natural,
}

/// The handler.
#[derive(Debug)]
pub enum Handling {
    /// One at a time.
    Each(BoxHandler),
    /// Several at once.
    Batch(BoxBatchHandler),
    /// One event at a time per key (see [`Ordering`]), outside a transaction.
    External(BoxTask),
}

/// A named handler and how it is fed.
#[derive(Debug)]
pub struct Subscriber {
    /// Its name, which is also the name of its route and of its consumer group: progress, inbox rows and dead letters are kept under
    /// it.
    pub group: String,
    /// Which events it wants.
    pub filter: Filter,
    /// Convert old event versions to the newest one. The handler gets only the newest.
    pub upcasters: Vec<Upcaster>,
    /// How repeats are kept from having an effect.
    pub idempotency: Idempotency,
    /// The retries of events on which it fails.
    pub retry: Retry,
    /// The effect of a dead letter on its key.
    pub dead: Dead,
    /// Which events wait when an event fails.
    pub ordering: Ordering,
    /// Where it begins in the log when it is new.
    pub start: Start,
    /// Where a new consumer group starts in the topics of a broker; `start` is the position in the outbox. Default: the head. The relay publishes only after the group has joined,
    /// so the group misses none of its events.
    pub joins_at: Start,
    /// Most events taken from a broker at once; 500 by default. One transaction handles at most 100 of them.
    pub batch: usize,
    /// How long one call may take.
    pub timeout: Duration,
    /// The number of shards, which are processed in parallel.
    pub shards: u32,
    /// How long events that come while it has nothing to do wait for company. It counts straight from the outbox; a broker has its
    /// own.
    pub linger: Duration,
    /// Whether it keeps when it handled each event, also if its idempotency needs no inbox.
    pub records: bool,
    /// Whether it reads the outbox although a broker feeds its module.
    pub is_straight: bool,
    /// Reads messages of a broker that are no CloudEvents. Without it, such a message is a dead letter.
    pub reader: Option<Reader>,
    /// Writes the broker's copies of its dead letters. Without it, a copy is a CloudEvent, unless its message was another one.
    pub writer: Option<Writer>,
    /// Cleans what comes from a broker, before anything is stored or copied.
    pub screen: Option<Arc<dyn Screen>>,
    /// The handler of its events.
    pub handling: Handling,
}

impl Subscriber {
    /// A subscriber of one type of event. The handler gets the event decoded; an event that cannot be decoded is rejected.
    pub fn on<E>(group: impl Into<String>, handler: impl for<'a> AsyncFunction<'a, &'a mut Tx, E> + 'static) -> Self
    where
        E: DomainEvent + DeserializeOwned + Send + 'static,
    {
        Self::matching(group, [E::TYPE], Typed::new(handler))
    }

    /// A subscriber of events whose type matches one of these patterns.
    pub fn matching(
        group: impl Into<String>,
        patterns: impl IntoIterator<Item = impl Into<String>>,
        handler: impl Handler + 'static,
    ) -> Self {
        Self::with(group, patterns, Handling::Each(BoxHandler::new(handler)))
    }

    /// A subscriber that takes several events at once.
    pub fn in_batches(
        group: impl Into<String>,
        patterns: impl IntoIterator<Item = impl Into<String>>,
        handler: impl BatchHandler + 'static,
    ) -> Self {
        Self::with(group, patterns, Handling::Batch(BoxBatchHandler::new(handler)))
    }

    /// A subscriber that runs a task outside a transaction for each event. No inbox keeps a task from running again, so its
    /// idempotency is [`Idempotency::Natural`].
    pub fn external(
        group: impl Into<String>,
        patterns: impl IntoIterator<Item = impl Into<String>>,
        task: impl ExternalTask + 'static,
    ) -> Self {
        Self::with(group, patterns, Handling::External(BoxTask::new(task))).idempotency(Idempotency::Natural)
    }

    fn with(
        group: impl Into<String>,
        patterns: impl IntoIterator<Item = impl Into<String>>,
        handling: Handling,
    ) -> Self {
        Self {
            group: group.into(),
            filter: Filter::any_of(patterns),
            upcasters: Vec::new(),
            idempotency: Idempotency::default(),
            retry: Retry::default(),
            dead: Dead::default(),
            ordering: Ordering::default(),
            start: Start::default(),
            joins_at: Start::Head,
            batch: BATCH,
            timeout: Duration::from_secs(30),
            shards: 1,
            linger: Duration::ZERO,
            records: false,
            is_straight: false,
            reader: None,
            writer: None,
            screen: None,
            handling,
        }
    }

    /// How repeats are kept from having an effect; the inbox by default.
    #[must_use]
    pub fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.idempotency = idempotency;
        self
    }

    /// Sets the retries of events on which it fails.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The effect of a dead letter on its key.
    #[must_use]
    pub fn dead(mut self, dead: Dead) -> Self {
        self.dead = dead;
        self
    }

    /// Which events wait when an event fails; those of the same key by default.
    #[must_use]
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = ordering;
        self
    }

    /// Where it begins in the log when it is new.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// How long one call may take; 30 seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of shards, which are processed in parallel; one by default.
    #[must_use]
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Lets events that come while it has nothing to do wait this long for company: one transaction handles more of them, which costs
    /// the database and the application less. Default: no wait.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Keeps when it handled each event, also if its idempotency needs no inbox: one row in the inbox for each event. Operators see
    /// the time in [`timeline`](crate::operate::timeline). A subscriber that a broker feeds always does so.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.records = true;
        self
    }

    /// Feeds it straight from the outbox, also when a broker feeds the other subscribers of its module. Nothing is published to the
    /// broker only because it listens. For a subscriber that turns events of other modules into events of its own module.
    #[must_use]
    pub fn straight(mut self) -> Self {
        self.is_straight = true;
        self
    }

    /// Converts an old event version to the newest one. The handler gets only the newest.
    #[must_use]
    pub fn upcaster(mut self, upcaster: Upcaster) -> Self {
        self.upcasters.push(upcaster);
        self
    }

    /// Reads messages of a broker that are no CloudEvents: those without the attribute `specversion` and without a media type of
    /// CloudEvents. The reader makes a CloudEvent of a message, or answers `None` for a message to ignore. An error makes the message
    /// a dead letter with the error's text as the reason, so the text must not repeat what must not be stored.
    ///
    /// `source` and `id` together identify the event. A message without a `source` has its topic as source. One without an `id`
    /// is identified by its place, for example stream and entry id; a message of RabbitMQ has a place of its own only if the
    /// sender sets `message_id`. The event's type must be one that the subscriber listens to; others are ignored.
    ///
    /// A new group begins with the oldest message that the broker has, because no outbox has the messages of other programs; set
    /// `joins_at` afterwards to change this.
    ///
    /// ```
    /// use postroom::{Envelope, Error, Message, Result, Subscriber, parse_payload};
    ///
    /// /// `XADD domain.user.activity * eventId e-1 eventName review.created memberId 42 properties '{"reviewId":1}'`
    /// fn read_activity(message: &Message) -> Result<Option<Envelope>> {
    ///     let field = |name: &str| {
    ///         let missing = || Error::invalid(format!("the field {name} is missing or not UTF-8"));
    ///         message.fields.text(name).ok_or_else(missing)
    ///     };
    ///     let data = parse_payload(field("properties")?)?;
    ///     let activity = Envelope::new("activity.recorded.v1", data)
    ///         .attribute("subject", field("memberId")?)
    ///         .attribute("eventname", field("eventName")?);
    ///     Ok(Some(match message.fields.text("eventId") {
    ///         Some(id) => activity.attribute("id", id),
    ///         None => activity,
    ///     }))
    /// }
    ///
    /// # async fn store(_: &mut postroom::Tx, _: &postroom::Event) -> Result<()> { Ok(()) }
    /// let subscriber = Subscriber::matching("activity-store", ["activity.recorded.v1"], store).reads(read_activity);
    /// ```
    #[must_use]
    pub fn reads<F, E>(mut self, read: F) -> Self
    where
        F: Fn(&Message) -> Result<Option<Envelope>, E> + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        self.reader = Some(Reader::new(read));
        self.joins_at = Start::Beginning;
        self
    }

    /// Reads messages of a broker in this form, and writes the broker's copies of its dead letters in it. CloudEvents are read as
    /// such. Unlike [`Subscriber::reads`], this leaves `joins_at` as it is.
    #[must_use]
    pub fn form(mut self, form: &Form) -> Self {
        self.reader = Some(form.reader.clone());
        self.writer = Some(form.writer.clone());
        self
    }

    /// Cleans what comes from a broker, before anything is stored or copied. Events that the subscriber listens to are cleaned
    /// before the handler gets them, also events that this process has published; the raw copy of a message that is no event is
    /// cleaned before it becomes a dead letter, in the store and on the broker. The reason of a dead letter may
    /// repeat a CloudEvents attribute that is wrong, and what the reader says. Events from the outbox are not cleaned.
    #[must_use]
    pub fn screen(mut self, screen: Arc<dyn Screen>) -> Self {
        self.screen = Some(screen);
        self
    }

    /// Handles entries of a route that a broker feeds: what is handled is recorded also for a subscriber that needs no inbox, so
    /// that the route knows how far everything has come.
    pub(crate) async fn handle_recorded(&self, pool: &HandlerPool, entries: &[&Entry]) -> Result<Handled> {
        let done = self.handle(pool, entries).await?;
        if self.idempotency != Idempotency::Inbox {
            let handled = entries.iter().zip(&done.receipts);
            let handled = handled.filter(|(_, receipt)| matches!(receipt, Receipt::Delivered));
            let keys: Vec<String> = handled.map(|(entry, _)| self.idempotency_key(&entry.event)).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            inbox::record_again(done.effects.tx(), &keys).await?;
        }
        Ok(done)
    }

    /// Handles the first of these entries (at least one) and answers them, with the transaction that holds the effects still
    /// open: the caller adds its progress and commits. (That of external tasks holds none.)
    pub(crate) async fn handle(&self, pool: &HandlerPool, entries: &[&Entry]) -> Result<Handled> {
        let db = &pool.transactions;
        if let Handling::External(task) = &self.handling {
            let receipts = self.run_tasks(&pool.external, task, entries).await;
            return Ok(Handled {
                receipts,
                effects: OpenEffects::without_effects(db).await?,
            });
        }
        let limits = pool.limits(self.timeout);
        let mut chunk = entries.get(..CHUNK).unwrap_or(entries);
        let mut reruns = 0;
        loop {
            let mut tx = table::begin_limited(db, Some(limits)).await?;
            let failure = match self.handle_chunk(&mut tx, chunk).await {
                Ok(handled) => {
                    return Ok(Handled {
                        receipts: vec![Receipt::Delivered; handled],
                        effects: OpenEffects::new(tx),
                    });
                }
                Err(failure) => failure,
            };
            roll_back(tx).await;
            let transient = matches!(failure.error.kind(), ErrorKind::Unavailable | ErrorKind::Conflict);
            if transient && reruns < RERUNS {
                reruns += 1;
            } else if failure.at == 0 {
                return Ok(Handled {
                    receipts: vec![refusal(&failure.error)],
                    effects: OpenEffects::without_effects(db).await?,
                });
            } else {
                chunk = chunk.get(..failure.at).unwrap_or(chunk);
            }
        }
    }

    /// Handles a chunk inside a savepoint; answers how many entries. Releasing the savepoint fails when a handler has
    /// swallowed an error that ended the transaction, or broken a deferred constraint: then nobody's effect is kept.
    async fn handle_chunk(&self, tx: &mut Tx, entries: &[&Entry]) -> Result<usize, Failure> {
        let begun = step("begin a chunk", tx.begin_part()).await;
        begun.map_err(Failure::first)?;
        let handled = self.handle_entries(tx, entries).await?;
        let doing = "keep the effects of a chunk (a handler may have swallowed an error)";
        let kept = step(doing, async {
            if tx.get_database_backend() == DbBackend::Postgres {
                tx.execute_unprepared("set constraints all immediate").await?;
            }
            tx.keep_part().await
        });
        // The database does not say which of them broke it: halve until one stands alone.
        kept.await.map_err(|error| Failure { at: handled / 2, error })?;
        Ok(handled)
    }

    /// Handles entries until all are done or the chunk has taken long enough; answers how many.
    async fn handle_entries(&self, tx: &mut Tx, entries: &[&Entry]) -> Result<usize, Failure> {
        let keys: Vec<String> = entries.iter().map(|entry| self.idempotency_key(&entry.event)).collect();
        let mut known = match self.idempotency {
            Idempotency::Inbox => with_timeout_of(STEP_MAX, inbox::known(tx, &keys))
                .await
                .flatten()
                .map_err(Failure::first)?,
            Idempotency::Upsert | Idempotency::Natural => HashSet::new(),
        };
        for (entry, _) in entries.iter().zip(&keys).filter(|(_, key)| known.contains(*key)) {
            let event = &entry.event;
            tracing::debug!(group = %self.group, event = %event.id, r#type = %event.event_type, "event was handled before");
        }
        let (handled, fresh) = match &self.handling {
            Handling::Each(handler) => self.handle_each(tx, handler, (entries, &keys), &mut known).await?,
            Handling::Batch(handler) => self.handle_batch(tx, handler, (entries, &keys), &mut known).await?,
            Handling::External(_) => {
                let inside = Error::new(ErrorKind::Unsupported, "run an external task inside a transaction");
                return Err(Failure::first(inside));
            }
        };
        if self.idempotency == Idempotency::Inbox {
            let recorded = with_timeout_of(STEP_MAX, inbox::record(tx, &fresh)).await;
            recorded.flatten().map_err(|error| Failure { at: handled / 2, error })?;
        }
        Ok(handled)
    }

    async fn handle_each<'k>(
        &self,
        tx: &mut Tx,
        handler: &BoxHandler,
        (entries, keys): (&[&Entry], &'k [String]),
        known: &mut HashSet<String>,
    ) -> Result<(usize, Vec<&'k str>), Failure> {
        let begun = Instant::now();
        let (mut handled, mut fresh) = (0, Vec::new());
        for (entry, key) in entries.iter().zip(keys) {
            if handled > 0 && begun.elapsed() > CHUNK_TIME {
                break;
            }
            if known.insert(key.clone()) {
                let event = upcast(&self.upcasters, &entry.event).map_err(|error| Failure { at: handled, error })?;
                let span = trace::span(Step::Handle, &self.group, &event);
                let call = Cause::of(&event).scope(handler.handle(tx, &event));
                self.guard(call.instrument(span))
                    .await
                    .map_err(|error| Failure { at: handled, error })?;
                fresh.push(key.as_str());
            }
            handled += 1;
        }
        Ok((handled, fresh))
    }

    async fn handle_batch<'k>(
        &self,
        tx: &mut Tx,
        handler: &BoxBatchHandler,
        (entries, keys): (&[&Entry], &'k [String]),
        known: &mut HashSet<String>,
    ) -> Result<(usize, Vec<&'k str>), Failure> {
        let (mut newest, mut fresh) = (Vec::new(), Vec::new());
        for (at, (entry, key)) in entries.iter().zip(keys).enumerate() {
            if known.insert(key.clone()) {
                newest.push(upcast(&self.upcasters, &entry.event).map_err(|error| Failure { at, error })?);
                fresh.push(key.as_str());
            }
        }
        let events: Vec<&Event> = newest.iter().map(|event| &**event).collect();
        if let Some(first) = events.first() {
            let span = trace::span(Step::Handle, &self.group, first);
            let call = Cause::of(first).scope(handler.handle(tx, &events)).instrument(span);
            // It is not known which of them failed: halve until one is alone.
            self.guard(call).await.map_err(|error| Failure {
                at: entries.len() / 2,
                error,
            })?;
        }
        Ok((entries.len(), fresh))
    }

    pub(crate) fn idempotency_key(&self, event: &Event) -> String {
        format!("{}:{}", self.group, event.id)
    }

    /// A handler that panics or hangs has failed, nothing more.
    pub(crate) async fn guard(&self, call: impl Future<Output = Result<(), BoxError>>) -> Result<()> {
        match tokio::time::timeout(self.timeout, AssertUnwindSafe(call).catch_unwind()).await {
            Ok(Ok(result)) => result.map_err(Error::of_handler),
            Ok(Err(panic)) => Err(Error::new(
                ErrorKind::Failed,
                format!("the handler panicked: {}", panic_text(&*panic)),
            )),
            Err(_elapsed) => Err(Error::new(
                ErrorKind::Failed,
                format!("the handler took longer than its {:?}", self.timeout),
            )),
        }
    }
}

/// A step of the platform's own inside a handler's transaction.
async fn step<T>(doing: &str, work: impl Future<Output = Result<T, DbErr>>) -> Result<T> {
    let done = with_timeout_of(STEP_MAX, work).await?;
    done.map_err(|source| Error::db(doing, source))
}

/// Rolls back, but does not wait for a statement that hangs: dropping the transaction ends it too.
async fn roll_back(tx: Tx) {
    match tokio::time::timeout(Duration::from_secs(5), tx.rollback()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "rolling back a handler's transaction failed"),
        Err(_elapsed) => tracing::debug!("rolling back a handler's transaction takes long; its connection is given up"),
    }
}

/// The connections that subscribers of a relay work with.
#[derive(Clone, Debug)]
pub(crate) struct HandlerPool {
    /// For the transactions of handlers: one connection for each worker, so that a worker whose handler is blocked takes none from
    /// another.
    pub(crate) transactions: DatabaseConnection,
    /// For external tasks, which begin transactions of their own.
    pub(crate) external: Database,
    /// How long the server lets a handler's transaction be idle or wait for a lock. It is shorter than the lease: a process
    /// that is paused inside a transaction must not hold its locks longer than its lease.
    pub(crate) wait_max: Duration,
}

impl HandlerPool {
    fn limits(&self, timeout: Duration) -> Limits {
        Limits {
            idle: self.wait_max.min(timeout + Duration::from_secs(1)),
            lock: self.wait_max.min(LOCK_MAX),
            statement: timeout,
        }
    }
}

/// Which entry of a chunk failed, and why.
struct Failure {
    at: usize,
    error: Error,
}

impl Failure {
    fn first(error: Error) -> Self {
        Self { at: 0, error }
    }
}

/// The receipt for an error of a handler.
pub(crate) fn refusal(error: &Error) -> Receipt {
    match error.kind() {
        ErrorKind::Invalid => Receipt::Rejected(error.report()),
        _ => Receipt::Refused(error.report()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
