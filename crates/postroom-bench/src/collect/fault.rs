//! The faults: the table of activity events is locked or away, and PostHog is dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Router, extract::State};
use sea_orm::{ConnectionTrait as _, DatabaseConnection, DatabaseTransaction, TransactionTrait as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::native::Native;
use crate::site::Site;

const LOCK: &str = "lock table user_activity_event in access exclusive mode";
const TAKE_AWAY: &str = "alter table user_activity_event rename to user_activity_event_away";
const BRING_BACK: &str = "alter table user_activity_event_away rename to user_activity_event";

/// The table of activity events cannot be used until this ends.
pub(super) enum Fault {
    /// An open transaction has locked it.
    Locked(DatabaseTransaction),
    /// It has another name: where a lock would hold up other tables too.
    Away(DatabaseConnection),
}

impl Fault {
    pub(super) async fn begin(site: &Site) -> Result<Self> {
        let db = site.store.db();
        match site.native {
            Native::Postgres(_) => {
                let tx = db.begin().await.context("begin a transaction")?;
                tx.execute_unprepared(LOCK).await.context("lock the table")?;
                Ok(Self::Locked(tx))
            }
            Native::Mysql(_) | Native::Sqlite(_) => {
                db.execute_unprepared(TAKE_AWAY).await.context("rename the table")?;
                Ok(Self::Away(db.clone()))
            }
        }
    }

    pub(super) async fn end(self) -> Result<()> {
        match self {
            Self::Locked(tx) => tx.rollback().await.context("unlock the table"),
            Self::Away(db) => {
                let renamed = db.execute_unprepared(BRING_BACK).await;
                renamed.map(|_| ()).context("give the table its name back")
            }
        }
    }
}

/// A PostHog that takes every batch by the protocol v0, or is dead.
#[derive(Debug)]
pub(super) struct Posthog {
    pub(super) url: String,
    is_dead: Arc<AtomicBool>,
    _server: JoinSet<()>,
}

impl Posthog {
    pub(super) async fn open() -> Result<Self> {
        let is_dead = Arc::new(AtomicBool::new(false));
        let router = Router::new()
            .route("/batch/", post(take))
            .fallback(refuse)
            .with_state(Arc::clone(&is_dead));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listen on a free port")?;
        let address = listener.local_addr().context("read the bound address")?;
        let mut server = JoinSet::new();
        server.spawn(async move {
            // It ends with the bench.
            drop(axum::serve(listener, router).await);
        });
        Ok(Self {
            url: format!("http://{address}"),
            is_dead,
            _server: server,
        })
    }

    pub(super) fn set_dead(&self, is_dead: bool) {
        self.is_dead.store(is_dead, Ordering::Relaxed);
    }
}

async fn take(State(is_dead): State<Arc<AtomicBool>>) -> (StatusCode, &'static str) {
    match is_dead.load(Ordering::Relaxed) {
        true => (StatusCode::SERVICE_UNAVAILABLE, ""),
        false => (StatusCode::OK, r#"{"status":"Ok"}"#),
    }
}

/// It has no protocol v1.
async fn refuse(State(is_dead): State<Arc<AtomicBool>>) -> StatusCode {
    match is_dead.load(Ordering::Relaxed) {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::NOT_FOUND,
    }
}
