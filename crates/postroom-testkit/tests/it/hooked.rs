//! A store with somebody who is asked before every read.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Inspect, Migration, OpenTransaction, Outbox, Page, Position, Prune, Pulse, Result, SettingCheck};
use sea_orm::DatabaseConnection;

type BeforeRead = Box<dyn Fn(Position) -> Result<()> + Send + Sync>;

/// A store that reads only what it may.
pub(crate) struct Hooked {
    store: Arc<dyn Inspect>,
    before_read: BeforeRead,
}

impl Hooked {
    pub(crate) fn new(
        store: Arc<dyn Inspect>,
        before_read: impl Fn(Position) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let before_read = Box::new(before_read);
        Self { store, before_read }
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooked").field(&self.store).finish()
    }
}

#[async_trait]
impl Outbox for Hooked {
    fn db(&self) -> &DatabaseConnection {
        self.store.db()
    }

    fn pool(&self, connections_max: u32) -> DatabaseConnection {
        self.store.pool(connections_max)
    }

    fn migrations(&self) -> &'static [Migration] {
        self.store.migrations()
    }

    async fn pulse(&self) -> Result<Pulse> {
        self.store.pulse().await
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        (self.before_read)(after)?;
        self.store.read(after, limit).await
    }

    async fn head(&self) -> Result<Position> {
        self.store.head().await
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        self.store.prune(prune).await
    }
}

#[async_trait]
impl Inspect for Hooked {
    async fn version(&self) -> Result<String> {
        self.store.version().await
    }

    fn settings(&self) -> &'static [SettingCheck] {
        self.store.settings()
    }

    async fn backlog(&self, after: Position) -> Result<u64> {
        self.store.backlog(after).await
    }

    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        self.store.open_transactions().await
    }
}
