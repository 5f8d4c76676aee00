//! The platform's tables as every database names them, and how an event goes into a row and comes back.
//!
//! PostgreSQL keeps them in the schema `postroom`, the others under the prefix `postroom_`.

use std::time::Duration;

use sea_orm::sea_query::{Alias, Expr, ExprTrait, IntoTableRef, Query, SelectStatement, TableRef};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, QueryResult};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::event::entry::Entry;
use crate::event::lenient_json;
use crate::store::db_clock::{read_stamp, stamp};
use crate::store::outbox::with_timeout_of;
use crate::store::task;
use crate::store::tx::Tx;

/// A table of the platform.
#[derive(Clone, Copy, Debug)]
pub enum Table {
    /// The append-only log that relays read.
    Outbox,
    /// Where MySQL writers insert, until the sequencer moves the rows into the log.
    Incoming,
    /// Progress and lease of each route shard.
    Cursor,
    /// Outages.
    Down,
    /// Entries that wait for a retry, or behind one on their key.
    Parked,
    /// Dead letters.
    Failed,
    /// The inbox.
    Handled,
    /// Events whose time has not come.
    Scheduled,
    /// Replays under way.
    Replay,
    /// When each job runs next, and how it went.
    Job,
    /// A counter that operators move to make relays look.
    Signal,
    /// The same for each route: only its own workers read their state again.
    RouteChange,
    /// Archived entries.
    Audit,
    /// The acts of operators.
    AdminAudit,
    /// Alerts that go on, or whose end has not been told.
    Alert,
    /// Tokens of services and people.
    AccessToken,
    /// Which migrations are applied.
    Migration,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Incoming => "incoming",
            Self::Cursor => "outbox_cursor",
            Self::Down => "outbox_down",
            Self::Parked => "outbox_parked",
            Self::Failed => "outbox_failed",
            Self::Handled => "event_handled",
            Self::Scheduled => "outbox_scheduled",
            Self::Replay => "outbox_replay",
            Self::Job => "outbox_job",
            Self::Signal => "outbox_signal",
            Self::RouteChange => "outbox_route_change",
            Self::Audit => "audit_events",
            Self::AdminAudit => "admin_audit",
            Self::Alert => "alert",
            Self::AccessToken => "access_token",
            Self::Migration => "migration",
        }
    }
}

/// The table's name on this database.
pub fn named(db: &impl ConnectionTrait, table: Table) -> TableRef {
    match db.get_database_backend() {
        DbBackend::Postgres => (Alias::new("postroom"), Alias::new(table.name())).into_table_ref(),
        _ => Alias::new(format!("postroom_{}", table.name())).into_table_ref(),
    }
}

/// Begins a transaction for the caller's work: on SQLite the write lock is taken at once, because a reader that turns
/// writer is refused; on MySQL each statement reads afresh and locks no gaps.
pub async fn begin(db: &DatabaseConnection) -> Result<Tx> {
    begin_limited(db, None).await
}

/// How long the server lets a transaction wait. The server, not the client, ends what takes too long: a client that gives up
/// leaves its statement, its locks and its connection behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Between two statements. A process that is paused or cut off inside a transaction keeps its locks this long.
    pub(crate) idle: Duration,
    /// For a lock of another transaction.
    pub(crate) lock: Duration,
    /// For one statement. MySQL has no such limit; there only lock waits end.
    pub(crate) statement: Duration,
}

/// The platform's own transactions: short, and other transactions may wait for them. A statement ends before
/// [`crate::with_timeout`] gives up waiting for it.
const OWN: Limits = Limits {
    idle: Duration::from_secs(5),
    lock: Duration::from_secs(5),
    statement: Duration::from_secs(15),
};

/// Begins a transaction of the platform's own.
pub(crate) async fn begin_own(db: &DatabaseConnection) -> Result<Tx> {
    begin_limited(db, Some(OWN)).await
}

/// Begins a transaction with limits. On SQLite there are none: its one lock belongs to the process.
pub(crate) async fn begin_limited(db: &DatabaseConnection, limits: Option<Limits>) -> Result<Tx> {
    begin_whole(db, Some(begin_statement(db.get_database_backend(), limits))).await
}

/// A pool's own limit for handing out a connection, and a round trip on it. No transaction waits for a lock to begin.
const BEGIN_MAX: Duration = Duration::from_secs(15);

/// Begins to the end even when the caller is dropped, unless the database does not answer in time.
async fn begin_whole(db: &DatabaseConnection, statement: Option<String>) -> Result<Tx> {
    let db = db.clone();
    let begin = async move { Tx::begin(&db, statement).await };
    task::to_end(async move { with_timeout_of(BEGIN_MAX, begin).await? }).await
}

/// The longest limit that every server takes: twenty days.
const SECONDS_MAX: u64 = 20 * 86_400;

/// Begins a transaction in one round trip, with its isolation and its limits.
///
/// PostgreSQL's limits end with the transaction; its isolation is set because a database may have another default. Those of
/// MySQL and MariaDB belong to the session, which goes back to the pool with them: a transaction without limits resets them.
/// MySQL ends an idle session instead of an idle transaction. SQLite takes its write lock at once.
fn begin_statement(backend: DbBackend, limits: Option<Limits>) -> String {
    let seconds = |limit: Duration| limit.as_secs().clamp(1, SECONDS_MAX).to_string();
    let millis = |limit: Duration| limit.as_millis().min(u128::from(SECONDS_MAX) * 1_000);
    match (backend, limits) {
        (DbBackend::Postgres, None) => "begin".to_owned(),
        (DbBackend::Postgres, Some(limits)) => format!(
            "begin; set transaction isolation level read committed; set local idle_in_transaction_session_timeout = {}; \
             set local lock_timeout = {}; set local statement_timeout = {}",
            millis(limits.idle),
            millis(limits.lock),
            millis(limits.statement),
        ),
        (DbBackend::MySql, limits) => {
            let value = |of: fn(Limits) -> Duration| limits.map_or("default".to_owned(), |limits| seconds(of(limits)));
            let (idle, lock, statement) = (value(|l| l.idle), value(|l| l.lock), value(|l| l.statement));
            format!(
                "set transaction isolation level read committed; set session lock_wait_timeout = {lock}, session innodb_lock_wait_timeout = {lock} \
                 /*M!100300 , session idle_transaction_timeout = {idle}, session max_statement_time = {statement} */ \
                 /*!80000 , session wait_timeout = {idle} */; begin"
            )
        }
        _ => "begin immediate".to_owned(),
    }
}

/// Begins a transaction that only looks: on SQLite it takes no write lock.
pub(crate) async fn look(db: &DatabaseConnection) -> Result<Tx> {
    begin_whole(db, None).await
}

/// Payload bytes in one statement: every server takes that much by default.
const STATEMENT_BYTES: usize = 4 << 20;

/// Which server, and which database of it, answers a statement. A standby that takes over is another server; so is one that was
/// restarted, where the database tells. SQLite's file is one server for ever.
pub(crate) fn server(backend: DbBackend) -> Expr {
    Expr::cust(match backend {
        DbBackend::Postgres => {
            "concat(extract(epoch from pg_postmaster_start_time()), '/', \
             (select oid from pg_database where datname = current_database()))"
        }
        DbBackend::MySql => "concat_ws(':', @@hostname, @@port, @@server_id)",
        _ => "''",
    })
}

/// Cuts items into runs for one statement each, by number and by bytes; a single larger one goes alone.
pub(crate) fn batches<T>(items: &[T], rows_max: usize, bytes: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let (mut begin, mut sum) = (0, 0);
    for (at, item) in items.iter().enumerate() {
        let size = bytes(item);
        if at > begin && (at - begin >= rows_max || sum + size > STATEMENT_BYTES) {
            batches.extend(items.get(begin..at));
            (begin, sum) = (at, 0);
        }
        sum += size;
    }
    batches.extend(items.get(begin..).filter(|rest| !rest.is_empty()));
    batches
}

/// The columns of an event, the same in every table that holds one.
pub(crate) const EVENT_COLUMNS: [&str; 8] = [
    "event_id",
    "event_type",
    "source",
    "aggregate_type",
    "aggregate_id",
    "payload",
    "headers",
    "occurred_at",
];

/// An event as values for [`EVENT_COLUMNS`].
pub(crate) fn event_values(backend: DbBackend, event: &Event) -> Result<[Expr; 8]> {
    let headers = serde_json::to_string(&event.headers)?;
    Ok([
        uuid_value(backend, event.id),
        Expr::val(event.event_type.as_str()),
        Expr::val(event.source.as_str()),
        Expr::val(event.aggregate_type.as_str()),
        Expr::val(event.aggregate_id.as_str()),
        json_value(backend, event.payload.get()),
        json_value(backend, &headers),
        Expr::val(stamp(backend, event.occurred_at)),
    ])
}

/// Selects [`EVENT_COLUMNS`], JSON as text: it is passed on, never rewritten.
pub(crate) fn select_events(backend: DbBackend) -> SelectStatement {
    let mut select = Query::select();
    for column in EVENT_COLUMNS {
        match column {
            "payload" | "headers" if backend == DbBackend::Postgres => {
                select.expr_as(Expr::col(column).cast_as("text"), column)
            }
            _ => select.column(column),
        };
    }
    select
}

/// Reads back [`EVENT_COLUMNS`].
pub(crate) fn read_event(row: &QueryResult, backend: DbBackend) -> Result<Event> {
    Ok(Event {
        id: read_uuid(row, backend, "event_id")?,
        event_type: row.try_get("", "event_type")?,
        source: row.try_get("", "source")?,
        aggregate_type: row.try_get("", "aggregate_type")?,
        aggregate_id: row.try_get("", "aggregate_id")?,
        payload: lenient_json::payload(&row.try_get::<String>("", "payload")?)?,
        headers: lenient_json::headers(&row.try_get::<String>("", "headers")?),
        occurred_at: read_time(row, backend, "occurred_at")?,
    })
}

/// Reads an entry whose number stands in the column `id`.
pub(crate) fn read_entry(row: &QueryResult, backend: DbBackend, id: &str) -> Result<Entry> {
    Ok(Entry {
        id: row.try_get("", id)?,
        event: read_event(row, backend)?,
        created_at: read_time(row, backend, "created_at")?,
    })
}

/// Reads an instant that cannot be null.
pub(crate) fn read_time(row: &QueryResult, backend: DbBackend, column: &str) -> Result<OffsetDateTime> {
    read_stamp(row, backend, column)?
        .ok_or_else(|| Error::new(ErrorKind::Failed, format!("the column {column} is null")))
}

pub(crate) fn uuid_value(backend: DbBackend, id: Uuid) -> Expr {
    match backend {
        DbBackend::Postgres => Expr::val(id),
        _ => Expr::val(id.to_string()),
    }
}

pub(crate) fn read_uuid(row: &QueryResult, backend: DbBackend, column: &str) -> Result<Uuid> {
    if backend == DbBackend::Postgres {
        return Ok(row.try_get("", column)?);
    }
    let text: String = row.try_get("", column)?;
    Uuid::parse_str(&text).map_err(|source| Error::caused(ErrorKind::Failed, format!("read the id {text:?}"), source))
}

pub(crate) fn json_value(backend: DbBackend, text: &str) -> Expr {
    match backend {
        DbBackend::Postgres => Expr::val(text).cast_as("jsonb"),
        _ => Expr::val(text),
    }
}

/// How much of an error is kept.
const ERROR_CHARS_MAX: usize = 4_000;

/// A foreign error text in a form that every database can store.
pub(crate) fn storable(error: &str) -> String {
    error.chars().filter(|c| *c != '\0').take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_bounded_by_rows_and_bytes() {
        let check = |sizes: &[usize], expected: &[usize]| {
            let lengths: Vec<usize> = batches(sizes, 3, |size| *size)
                .iter()
                .map(|batch| batch.len())
                .collect();
            assert_eq!(lengths, expected, "{sizes:?}");
        };
        check(&[], &[]);
        check(&[1, 1, 1, 1], &[3, 1]);
        check(&[STATEMENT_BYTES, 1, 1], &[1, 2]);
        check(&[1, STATEMENT_BYTES + 1, 1], &[1, 1, 1]);
    }
}
