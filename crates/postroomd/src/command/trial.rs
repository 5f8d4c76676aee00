//! Where `bench` and `verify` run: in a store of their own unless one is named, and in no store where others are at work.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use postroom::table::{self, Table};
use postroom::{Inspect, operate};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use tempfile::TempDir;

use crate::store::StoreUrl;

/// Event types of trials begin so.
const TYPES: [&str; 2] = ["postroom.bench.", "postroom.verify."];
/// Routes of trials begin so.
const ROUTES: [&str; 2] = ["bench-", "verify-"];

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

    /// Refuses a store where others are at work.
    pub(super) async fn refuse_others(&self, store: &dyn Inspect) -> Result<()> {
        match others(store).await? {
            Some(reason) => bail!(
                "{reason} on {}: a trial would disturb it, and be disturbed. Name another --store, or take --force",
                self.url
            ),
            None => Ok(()),
        }
    }
}

/// Who else is at work in a store. What a trial that was killed has left behind is nobody's work.
async fn others(store: &dyn Inspect) -> Result<Option<String>> {
    store.pulse().await?;
    let status = operate::status(store).await?;
    for route in &status.routes {
        if route.is_leased {
            return Ok(Some(format!("a relay works the route {:?}", route.route)));
        }
        let is_of_a_trial = ROUTES.iter().any(|prefix| route.route.starts_with(prefix));
        if !is_of_a_trial {
            let events = operate::counted(route.backlog, "event waits", "events wait");
            let says = format!(
                "the route {:?} is registered, about {events} for it, and it would get the events of the trial",
                route.route
            );
            return Ok(Some(says));
        }
    }
    let has_unread = status.routes.is_empty() && has_events(store).await?;
    Ok(has_unread.then(|| "events wait that no route has read".to_owned()))
}

async fn has_events(store: &dyn Inspect) -> Result<bool> {
    let mut other = Query::select();
    other
        .column("id")
        .from(table::named(store.db(), Table::Outbox))
        .limit(1);
    for prefix in TYPES {
        other.and_where(Expr::col("event_type").not_like(format!("{prefix}%")));
    }
    let found = store.db().query_one(&other).await.context("look for other events")?;
    Ok(found.is_some())
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
