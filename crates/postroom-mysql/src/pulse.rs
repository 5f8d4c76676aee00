//! The pulse: one cheap question, and a step of the sequencer when its answer asks for one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom::{Pulse, Result};
use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, MySqlPool, Row};

use crate::Mysql;
use crate::error::db;

/// The answer to `probe.sql`.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Whether committed rows wait to be numbered.
    pub(crate) is_waiting: bool,
    /// The lease's epoch.
    pub(crate) epoch: i64,
    /// The last number given.
    pub(crate) next_seq: i64,
    /// The last number that every process may read.
    pub(crate) durable_seq: i64,
    /// Whether anybody may take the lease.
    pub(crate) is_free: bool,
    signal_version: i64,
    due_in_us: Option<i64>,
}

impl FromRow<'_, MySqlRow> for Probe {
    fn from_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            is_waiting: row.try_get("is_waiting")?,
            epoch: row.try_get("epoch")?,
            next_seq: row.try_get("next_seq")?,
            durable_seq: row.try_get("durable_seq")?,
            is_free: row.try_get("is_free")?,
            signal_version: row.try_get("signal_version")?,
            due_in_us: row.try_get("due_in_us")?,
        })
    }
}

impl Probe {
    async fn ask(pool: &MySqlPool) -> Result<Self> {
        sqlx::query_as(include_str!("../sql/probe.sql"))
            .fetch_one(pool)
            .await
            .map_err(|source| db("look for new events", source))
    }

    /// Whether there is anything for a sequencer to do.
    fn has_work(&self) -> bool {
        self.is_waiting || self.durable_seq < self.next_seq
    }

    fn due_in(&self) -> Option<Duration> {
        let micros = self.due_in_us?.max(0);
        Some(Duration::from_micros(micros.unsigned_abs()))
    }
}

impl Mysql {
    pub(crate) async fn beat(&self) -> Result<Pulse> {
        let probe = Probe::ask(&self.reader).await?;
        if probe.next_seq < self.durable() {
            // Another copy of the log answers now: a standby that knew less, or one that was restored.
            self.durable.store(probe.durable_seq, Ordering::Release);
        }
        self.learn(probe.durable_seq);
        let sequenced = if probe.has_work() {
            self.sequence(&probe).await?
        } else {
            self.rest().await;
            None
        };
        Ok(Pulse {
            head: self.durable(),
            due_in: probe.due_in(),
            signal: probe.signal_version,
            more: sequenced.is_some_and(|more| more),
            is_waiting: probe.is_waiting && sequenced.is_none(),
        })
    }
}
