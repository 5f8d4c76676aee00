//! Reads the log like a file that grows, without delivering anything.

use std::collections::HashSet;

use uuid::Uuid;

use crate::error::Result;
use crate::event::entry::{Entry, Position};
use crate::store::outbox::Inspect;

/// Entries read at once.
const PAGE: usize = 500;

/// Reads every committed entry once: those in the log, and beyond its end those that no pulse has made readable yet. Reading
/// writes nothing, so it works without a relay and for a database user that may only read.
#[derive(Debug)]
pub struct Tail<'a> {
    store: &'a dyn Inspect,
    position: Position,
    /// Events that were read before they were in the log.
    early: HashSet<Uuid>,
}

impl<'a> Tail<'a> {
    /// Begins with the oldest entry that is kept.
    pub fn from_beginning(store: &'a dyn Inspect) -> Self {
        Self {
            store,
            position: Position::START,
            early: HashSet::new(),
        }
    }

    /// Begins with the entries that are committed from now on.
    pub async fn from_head(store: &'a dyn Inspect) -> Result<Self> {
        let mut tail = Self::from_beginning(store);
        tail.position = store.head().await?;
        while tail.next().await?.is_some() {}
        Ok(tail)
    }

    /// The next entries; none, when there is nothing more for now.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>> {
        if let Some(entries) = self.next_of_log().await? {
            return Ok(Some(entries));
        }
        let waiting = self.store.not_yet_readable(self.early.len() + PAGE).await?;
        // An event that became readable between the two queries is in neither result, so the log is read again.
        if let Some(entries) = self.next_of_log().await? {
            return Ok(Some(entries));
        }
        let is_new = |entry: &Entry| self.early.insert(entry.event.id);
        let entries: Vec<Entry> = waiting.into_iter().filter(is_new).collect();
        Ok((!entries.is_empty()).then_some(entries))
    }

    async fn next_of_log(&mut self) -> Result<Option<Vec<Entry>>> {
        let page = self.store.read(self.position, PAGE).await?;
        if page.next == self.position {
            return Ok(None);
        }
        self.position = page.next;
        let is_new = |entry: &&Entry| !self.early.remove(&entry.event.id);
        Ok(Some(page.entries.iter().filter(is_new).cloned().collect()))
    }
}
