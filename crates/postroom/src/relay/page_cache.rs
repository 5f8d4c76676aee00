//! The page cache: pages read once and shared by every worker of the process that stands at the same place.
//!
//! A page is cached for a while under the position it was read from. Lines at the head therefore cost one read together,
//! however many they are; a worker far behind reads for itself until it has caught up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::error::Result;
use crate::event::entry::{Entry, Position};
use crate::route::BATCH_MAX;
use crate::store::outbox::{Outbox, PAGE_BYTES, Page};

/// Pages that are cached for others.
const PAGES_MAX: usize = 64;
/// Payload bytes that are cached for others.
const BYTES_MAX: usize = 16 << 20;
/// A page with so many entries has probably more behind it. (Stores end a page also for its bytes, or between transactions.)
const MANY: usize = 1_000;

/// Shared reading of one outbox.
#[derive(Debug)]
pub(crate) struct PageCache {
    outbox: Arc<dyn Outbox>,
    cached: Mutex<VecDeque<Cached>>,
}

#[derive(Clone, Debug)]
struct Cached {
    after: Position,
    page: Arc<OnceCell<Held>>,
}

/// A page that was read, and how much its payloads are.
#[derive(Clone, Debug)]
struct Held {
    page: Page,
    bytes: usize,
}

/// The part of a page that a worker has not seen yet.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    page: Page,
    begin: usize,
    has_more: bool,
}

impl Slice {
    pub(crate) fn entries(&self) -> &[Entry] {
        self.page.entries.get(self.begin..).unwrap_or_default()
    }

    /// Whether there is probably more behind it.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// The position behind the slice.
    pub(crate) fn next(&self) -> Position {
        self.page.next
    }

    /// The position right behind one of its entries.
    pub(crate) fn after(&self, id: i64) -> Position {
        self.page.after(id)
    }
}

impl PageCache {
    pub(crate) fn new(outbox: Arc<dyn Outbox>) -> Self {
        Self {
            outbox,
            cached: Mutex::default(),
        }
    }

    pub(crate) fn outbox(&self) -> &Arc<dyn Outbox> {
        &self.outbox
    }

    /// The entries after a position: from memory if a worker read them lately, else from the store, once for all workers.
    pub(crate) async fn read(&self, after: Position) -> Result<Slice> {
        if let Some(slice) = self.inside_kept(after) {
            return Ok(slice);
        }
        loop {
            let cell = self.cell(after);
            let mut is_mine = false;
            let read = || {
                is_mine = true;
                Held::read(&*self.outbox, after)
            };
            let slice = cell.get_or_try_init(read).await?.from(0);
            if slice.next() != after {
                self.trim();
                return Ok(slice);
            }
            self.forget(after); // the head: the same question will have another answer
            if is_mine {
                return Ok(slice);
            }
            // Another worker asked before the news that woke this one: ask again.
        }
    }

    /// The entries after a position as the store has them now: a cached page may hold only an entry that is unavailable.
    pub(crate) async fn read_anew(&self, after: Position) -> Result<Slice> {
        Ok(Held::read(&*self.outbox, after).await?.from(0))
    }

    /// Forgets everything, for example because the database may have been restored behind our back.
    pub(crate) fn clear(&self) {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Looks for a cached page that contains the position in its middle.
    fn inside_kept(&self, after: Position) -> Option<Slice> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached
            .iter()
            .rev()
            .filter(|cached| cached.after != after)
            .find_map(|cached| {
                let held = cached.page.get()?;
                let page = &held.page;
                let at = page.entries.binary_search_by_key(&after.id, |entry| entry.id).ok()?;
                let is_here = Position {
                    id: after.id,
                    ..page.window
                } == after
                    && at + 1 < page.entries.len();
                is_here.then(|| held.from(at + 1))
            })
    }

    fn cell(&self, after: Position) -> Arc<OnceCell<Held>> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cached.iter().rev().find(|cached| cached.after == after) {
            return Arc::clone(&known.page);
        }
        let page = Arc::new(OnceCell::new());
        cached.push_back(Cached {
            after,
            page: Arc::clone(&page),
        });
        page
    }

    fn forget(&self, after: Position) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.retain(|cached| cached.after != after);
    }

    fn trim(&self) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let keep = cached
            .iter()
            .rev()
            .take(PAGES_MAX)
            .take_while(|cached| {
                bytes += cached.page.get().map_or(0, |held| held.bytes);
                bytes <= BYTES_MAX
            })
            .count();
        let drop = cached.len() - keep;
        cached.drain(..drop);
    }
}

impl Held {
    async fn read(outbox: &dyn Outbox, after: Position) -> Result<Self> {
        let page = outbox.read(after, BATCH_MAX).await?;
        let bytes = page.entries.iter().map(Entry::weight).sum();
        Ok(Self { page, bytes })
    }

    fn from(&self, begin: usize) -> Slice {
        Slice {
            page: self.page.clone(),
            begin,
            has_more: self.page.entries.len() >= MANY || self.bytes >= PAGE_BYTES / 2,
        }
    }
}
