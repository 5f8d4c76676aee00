//! The port to a store: how committed events become entries that can be read in a correct order.
//!
//! Appending is not here: it runs in the caller's own transaction (`crate::emit`, or `append` of a store crate).
//! Leases, parked entries, dead letters and the inbox are not here either: they are tables, with the same code on every
//! database.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sea_orm::DatabaseConnection;
use serde::Serialize;

use crate::error::{Condition, Error, ErrorKind, NextStep, Result};
use crate::event::entry::{Entry, Position};
use crate::store::migration::Migration;
use crate::store::setting::SettingCheck;

/// A store: PostgreSQL, MySQL/MariaDB or SQLite.
///
/// # Contract
/// 1. *Nothing is skipped.* Reading from [`Position::START`] and following [`Page::next`] yields every committed
///    event exactly once, whatever the commit order of its transaction, and none that rolled back.
/// 2. *Keys keep their order.* If writers of a key are serialised (they lock the aggregate before they emit), its
///    entries come in commit order.
/// 3. *Nobody waits.* A transaction that stays open delays its own events only.
/// 4. *Positions last.* A position that was written down is valid after a restart, until [`Outbox::prune`] has
///    passed it, which it never does for a registered cursor.
#[async_trait]
pub trait Outbox: fmt::Debug + Send + Sync {
    /// The database, for everything that is only tables. The application and its modules share these connections.
    fn db(&self) -> &DatabaseConnection;

    /// A new pool of at most `connections_max` connections, opened on demand. Work that is blocked there takes no connection
    /// from any other pool. A connection that does not answer when it is taken or given back is closed within seconds. (A
    /// store whose database has one writer at a time answers the one pool there is.)
    fn pool(&self, connections_max: u32) -> DatabaseConnection;

    /// The platform's tables on this database, oldest first.
    fn migrations(&self) -> &'static [Migration];

    /// Makes readable what has been committed since the last pulse, and tells what is new. Any process may call it at
    /// any time; it is one round trip when nothing happened.
    async fn pulse(&self) -> Result<Pulse>;

    /// The next entries after `after`, at most `limit` and about [`PAGE_BYTES`] of payload. An empty page whose
    /// `next` differs from `after` has moved on; one whose `next` equals `after` is the head.
    async fn read(&self, after: Position, limit: usize) -> Result<Page>;

    /// The position behind everything that is readable now.
    async fn head(&self) -> Result<Position>;

    /// Removes (and archives, if asked) entries that every cursor has passed and that are older than `prune.keep`, at most
    /// `prune.batch` of them; answers how many. Never blocks a writer.
    async fn prune(&self, prune: &Prune) -> Result<u64>;
}

/// Facts about the outbox that only the database knows.
#[async_trait]
pub trait Inspect: Outbox {
    /// The name and the version of the database, for example `PostgreSQL 17.2`.
    async fn version(&self) -> Result<String>;

    /// Connections for reading, at most `connections_max` of them: no other work takes them, and a long transaction elsewhere does
    /// not delay them.
    fn readers(&self, connections_max: u32) -> DatabaseConnection {
        self.pool(connections_max)
    }

    /// The settings of the database that can cost events or stop Postroom. [`operate::settings`](crate::operate::settings) reads
    /// them.
    fn settings(&self) -> &'static [SettingCheck];

    /// Roughly how many committed entries stand ahead of `after`, also those that no pulse has made readable yet.
    async fn backlog(&self, after: Position) -> Result<u64>;

    /// Open transactions that hold back reading or retention, oldest first.
    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>>;

    /// Committed entries that no pulse has made readable yet, at most `limit`, with numbers that they may lose when they come
    /// into the log. None, where a commit makes them readable.
    async fn not_yet_readable(&self, _limit: usize) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }

    /// The open transactions that this database user may not see, and the privilege that would show them.
    async fn hidden(&self) -> Result<Option<Hidden>> {
        Ok(None)
    }
}

/// Longer than any statement of ours should take.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Does what a database has to answer, and gives up one that has vanished without a word.
pub async fn with_timeout<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    with_timeout_of(ANSWER_MAX, work).await.unwrap_or_else(Err)
}

/// The same, for work that has another time.
pub(crate) async fn with_timeout_of<T>(patience: Duration, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(patience, work).await.map_err(|late| {
        let waited = format!("the database has not answered within {patience:.0?}");
        Error::caused(ErrorKind::Unavailable, waited, late).meaning(Condition::Locked)
    })
}

/// About how many bytes of payload one page holds; a single larger event still comes through.
pub const PAGE_BYTES: usize = 2 << 20;

/// Some entries in order, and where to go on.
#[derive(Clone, Debug)]
pub struct Page {
    /// The entries, ascending by id.
    pub entries: Arc<[Entry]>,
    /// The window they were read from; see [`Page::after`].
    pub window: Position,
    /// The position behind the page.
    pub next: Position,
}

impl Page {
    /// The position right behind the entry with this id, for settling a part of a page.
    pub fn after(&self, id: i64) -> Position {
        match self.entries.last() {
            Some(last) if last.id == id => self.next,
            _ => Position { id, ..self.window },
        }
    }
}

/// The result of a pulse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Grows whenever entries became readable.
    pub head: i64,
    /// How long until the next scheduled event is due; zero when one is due now.
    pub due_in: Option<Duration>,
    /// Grows whenever an operator changed something a relay must look at.
    pub signal: i64,
    /// More is waiting than one pulse could make readable: pulse again at once.
    pub more: bool,
    /// Committed entries wait until another process makes them readable.
    pub is_waiting: bool,
}

impl Pulse {
    /// Whether a scheduled event is due now.
    pub(crate) fn is_due(&self) -> bool {
        self.due_in.is_some_and(|due| due.is_zero())
    }
}

/// The entries to remove.
#[derive(Clone, Copy, Debug)]
pub struct Prune {
    /// How old a delivered entry must be.
    pub keep: Duration,
    /// How many at most in one call.
    pub batch: u32,
    /// Copy what is removed into `audit_events`.
    pub archive: bool,
}

/// Open transactions that a database does not show to this user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hidden {
    /// Which ones.
    pub transactions: HiddenTransactions,
    /// This database user; none, if the database does not tell its name.
    pub user: Option<String>,
    /// The privilege that shows them, as a `grant` statement takes it.
    pub privilege: String,
}

/// Which open transactions a database does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenTransactions {
    /// All of them.
    All,
    /// Those of other users.
    OfOthers,
}

impl Hidden {
    /// The step that makes them visible.
    pub fn next_step(&self) -> NextStep {
        NextStep::Grant {
            privilege: self.privilege.clone(),
            user: self.user.clone(),
        }
    }
}

/// A transaction of somebody's that stays open.
#[derive(Clone, Debug, Serialize)]
pub struct OpenTransaction {
    /// Process or connection id in the database.
    pub session: String,
    /// How long it has been open.
    pub age_s: f64,
    /// Its current or last statement, as far as the database tells.
    pub query: String,
    /// Whether it has written anything: only then it can hold back events of its own.
    pub has_written: bool,
    /// How many other sessions wait for a lock that it holds.
    pub blocks: u64,
    /// Whether it holds locks that others may need. A relay does not wait for locked rows, so nobody may be seen waiting.
    pub holds_locks: bool,
}

impl OpenTransaction {
    /// A transaction that holds locks for longer may be why leases are not renewed.
    const HOLDS_LONG_S: f64 = 5.0;

    /// Whether it may be the cause of routes that stand still.
    pub fn is_suspect(&self) -> bool {
        self.blocks > 0 || self.holds_locks && self.age_s > Self::HOLDS_LONG_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_being_written_down() {
        let position = Position {
            from: 7,
            to: 9,
            id: 1_000_000,
        };
        assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
        assert!("7:9".parse::<Position>().is_err());
        assert!("a:b:c".parse::<Position>().is_err());
    }
}
