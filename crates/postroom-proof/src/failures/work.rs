//! Handlers and destinations that fail as their script says, and leave an effect when they succeed.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use postroom::{
    Batch, BatchHandler, BoxError, Destination, Entry, Error, ErrorKind, Event, Handler, Receipt, Result, Tx, table,
};
use sea_orm::sea_query::{Alias, Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend};
use tokio::time::sleep;

use super::fate::{Failure, Fate};
use super::journal::Journal;
use super::{Group, PUBLISH};
use crate::verify::effects;
use crate::workload::Change;

/// The table with the lock on which handlers hang.
pub(super) const LOCK: &str = "verify_lock";

/// Longer than any handler of the run may take.
const HANG: Duration = Duration::from_secs(3);
/// A destination's steps all end: so long one takes that hangs.
const SLOW: Duration = Duration::from_millis(300);

/// Takes the lock on which handlers hang.
pub(super) async fn lock(tx: &Tx, prefix: &str) -> Result<()> {
    let mut update = Query::update();
    update
        .table(Alias::new(LOCK))
        .value(Alias::new("count"), Expr::col(Alias::new("count")).add(1))
        .and_where(Expr::col(Alias::new("key")).eq(prefix));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("wait for a lock", source))?;
    Ok(())
}

/// Which events fail, and where that is written down.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) who: &'static str,
    pub(super) seed: u64,
    pub(super) prefix: String,
    pub(super) journal: Arc<Journal>,
}

impl Script {
    /// The change that an event of this run reports.
    fn change(&self, event: &Event) -> Result<Option<Change>> {
        Ok(Change::of(event)?.filter(|change| change.key.starts_with(&self.prefix)))
    }

    /// The fate of a change here.
    pub(super) fn fate(&self, change: &Change) -> Fate {
        fate(self.seed, self.who, &self.prefix, change)
    }

    /// How an attempt fails now, if it does.
    fn failing(&self, change: &Change) -> Option<Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match self.fate(change) {
            Fate::Hopeless if self.who == PUBLISH => None, // it would never come to any group
            fate => fate.at(now),
        }
    }
}

/// The fate of a change at one group: the same for every prefix, so that a seed fails the same events in every run.
pub(super) fn fate(seed: u64, who: &str, prefix: &str, change: &Change) -> Fate {
    let aggregate = change.key.strip_prefix(prefix).unwrap_or(&change.key);
    Fate::of(seed, who, aggregate, change.ver)
}

/// A handler.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) group: Group,
    pub(super) script: Script,
}

impl Worker {
    async fn work(&self, tx: &Tx, changes: &[Change]) -> Result<()> {
        if let Some(last) = changes.last() {
            self.script.journal.works_on(self.group, last);
        }
        effects::record(tx, self.script.who, changes).await?; // before it fails: a failure must take it back
        for change in changes {
            if let Some(failure) = self.script.failing(change) {
                self.script.journal.gave_up(self.group);
                return self.fail(tx, failure).await;
            }
        }
        Ok(())
    }

    #[expect(clippy::panic, reason = "a handler that panics is what is tried")]
    async fn fail(&self, tx: &Tx, failure: Failure) -> Result<()> {
        if failure == Failure::Hung && self.group == Group::Natural {
            return Ok(()); // its timeout is long
        }
        self.script.journal.failed(failure);
        match failure {
            Failure::Refused => Err(Error::new(ErrorKind::Failed, "refused by the script of the run")),
            Failure::Rejected => Err(Error::invalid("rejected by the script of the run")),
            Failure::Unavailable => Err(Error::new(
                ErrorKind::Unavailable,
                "unavailable by the script of the run",
            )),
            Failure::Panicked => panic!("panicked by the script of the run"),
            Failure::Hung if tx.get_database_backend() == DbBackend::Sqlite => {
                sleep(HANG).await; // with the one write lock of the file
                Ok(())
            }
            Failure::Hung => lock(tx, &self.script.prefix).await,
        }
    }
}

impl Handler for Worker {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        match self.script.change(event)? {
            Some(change) => Ok(self.work(tx, &[change]).await?),
            None => Ok(()),
        }
    }
}

impl BatchHandler for Worker {
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        let mut changes = Vec::with_capacity(events.len());
        for event in events {
            changes.extend(self.script.change(event)?);
        }
        Ok(self.work(tx, &changes).await?)
    }
}

/// A destination that fails as its script says, and hands the rest on.
pub(super) struct Flaky {
    pub(super) script: Script,
    pub(super) inner: Arc<dyn Destination>,
}

impl fmt::Debug for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flaky")
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

impl Flaky {
    #[expect(clippy::panic, reason = "a destination that panics is what is tried")]
    async fn refusal(&self, entry: &Entry) -> Option<Receipt> {
        let change = self.script.change(&entry.event).ok().flatten()?;
        let failure = self.script.failing(&change)?;
        self.script.journal.failed(failure);
        let says = format!("{failure:?} by the script of the run");
        Some(match failure {
            // An operator cannot decide on an event that the broker does not get: it is tried again.
            Failure::Rejected if self.script.who == PUBLISH => Receipt::Refused(says),
            Failure::Rejected => Receipt::Rejected(says),
            Failure::Refused => Receipt::Refused(says),
            Failure::Unavailable => Receipt::unavailable(says),
            Failure::Panicked => panic!("{says}"),
            Failure::Hung => {
                sleep(SLOW).await;
                Receipt::Refused(says)
            }
        })
    }
}

#[async_trait]
impl Destination for Flaky {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let (mut stopped, mut send, mut refused) = (HashSet::new(), Vec::new(), Vec::new());
        for entry in batch.entries {
            let lane = batch.lane(entry);
            let refusal = match stopped.contains(&lane) {
                true => Some(Receipt::Held),
                false => self.refusal(entry).await,
            };
            match refusal {
                Some(_) => drop(stopped.insert(lane)),
                None => send.push(*entry),
            }
            refused.push(refusal);
        }
        let rest = Batch {
            entries: &send,
            ..*batch
        };
        let mut answers = self.inner.deliver(&rest).await.into_iter();
        let missing = || Receipt::unavailable("the destination gave no receipt");
        let answer = |refusal: Option<Receipt>| refusal.unwrap_or_else(|| answers.next().unwrap_or_else(missing));
        refused.into_iter().map(answer).collect()
    }
}

/// A destination that records what arrives, in a transaction of its own.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) who: &'static str,
    pub(super) db: DatabaseConnection,
}

impl Recording {
    async fn record(&self, batch: &Batch<'_>) -> Result<()> {
        let mut changes = Vec::with_capacity(batch.entries.len());
        for entry in batch.entries {
            changes.extend(Change::of(&entry.event)?);
        }
        let tx = table::begin(&self.db).await?;
        effects::record(&tx, self.who, &changes).await?;
        tx.commit().await
    }
}

#[async_trait]
impl Destination for Recording {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let receipt = match self.record(batch).await {
            Ok(()) => Receipt::Delivered,
            Err(error) => Receipt::unavailable(error.report()),
        };
        vec![receipt; batch.entries.len()]
    }
}
