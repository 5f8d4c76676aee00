//! The store of `bench` and `verify`: their own unless one is named. Also their progress.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use postroom::{Inspect, migration};
use postroom_address::{PLATFORM, StoreUrl};
use tempfile::TempDir;

/// The store of a trial.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) url: StoreUrl,
    /// The store goes with it.
    folder: Option<TempDir>,
}

impl Ground {
    /// The store that was named, or one in a folder that is removed in the end.
    pub(super) fn new(named: Option<&StoreUrl>) -> Result<Self> {
        let folder = match named {
            Some(_) => None,
            None => Some(tempfile::tempdir().context("make a folder for the store")?),
        };
        let made = || StoreUrl::in_folder(folder.as_ref().map_or(Path::new("."), TempDir::path));
        let url = named.cloned().unwrap_or_else(made);
        Ok(Self { url, folder })
    }

    /// Whether the store was made for this trial.
    pub(super) fn is_temporary(&self) -> bool {
        self.folder.is_some()
    }
}

/// Makes the platform's tables.
pub(super) async fn migrate(store: &Arc<dyn Inspect>) -> Result<()> {
    let migrated = migration::up(store.db(), PLATFORM, store.migrations()).await;
    migrated.context("make the tables")?;
    Ok(())
}

/// Tells a person who watches how far it is; an empty text clears the line.
pub(super) fn progress(text: &str) {
    let mut screen = std::io::stderr();
    if screen.is_terminal() {
        // A line that cannot be shown is no reason to stop.
        write!(screen, "\r\x1b[K{text}")
            .and_then(|()| screen.flush())
            .unwrap_or_default();
    }
}
