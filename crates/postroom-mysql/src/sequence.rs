//! The sequencer: moves committed rows from `postroom_incoming` into the log and numbers them, one process at a time.
//!
//! The epoch of its lease fences it: every step locks the lease row first and gives up when the epoch is not its own.
//! How long the lease lasts only decides how soon another process helps, never whether numbers are right. After any
//! error, and after a step that was cancelled, the session is dropped and nothing that was remembered is trusted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom::Result;
use sqlx::mysql::{MySqlConnectOptions, MySqlRow};
use sqlx::{ConnectOptions, Connection, FromRow, MySqlConnection, Row};
use tokio::time::Instant;
use uuid::Uuid;

use crate::Mysql;
use crate::error::{db, is_lock_timeout};
use crate::pulse::Probe;
use crate::step::Step;

/// Rows in a step: some 15 ms, which keeps the lease row's lock short.
const BATCH: u32 = 1_000;
/// Rows in a step when the step before was full: catching up.
const BATCH_MAX: u32 = 5_000;
/// Rows in a step when steps are slow, as with payloads of a megabyte.
const BATCH_MIN: u32 = 50;
/// A step that takes longer is followed by smaller ones.
const STEP_SLOW: Duration = Duration::from_secs(1);
/// A session that rested for longer is closed: the server would end it soon after (`session_timeouts.sql`).
const REST_MAX: Duration = Duration::from_secs(4);

/// The memory of a store that is the sequencer.
#[derive(Debug, Default)]
pub(crate) struct Sequencer {
    session: Option<Session>,
    lead: Option<Lead>,
}

/// The lease, as it was when it was last seen to be ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lead {
    pub(crate) epoch: i64,
    /// The last number given; everything up to it is on disk.
    pub(crate) next_seq: i64,
}

impl FromRow<'_, MySqlRow> for Lead {
    fn from_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            epoch: row.try_get("epoch")?,
            next_seq: row.try_get("next_seq")?,
        })
    }
}

impl Mysql {
    /// Numbers what waits, or confirms what was numbered last, if this store has the lease or can take it; answers
    /// whether more waits. `None` when another process has the lease.
    pub(crate) async fn sequence(&self, probe: &Probe) -> Result<Option<bool>> {
        let mut sequencer = self.sequencer.lock().await;
        // Taken out until all has gone well: an error or a cancelled pulse leaves nothing behind.
        let Sequencer { session, lead } = std::mem::take(&mut *sequencer);
        let lead = lead.filter(|lead| lead.epoch >= probe.epoch);
        let mut session = match session {
            Some(session) if !session.is_stale() => session,
            _ if lead.is_none() && !probe.is_free => return Ok(None),
            _ => Session::open(&self.pool.connect_options()).await?,
        };
        sequencer.lead = self.lead(&mut session, lead, probe).await?;
        if sequencer.lead.is_none() {
            // Its owner's name would keep others waiting until the lease runs out.
            session.close().await;
            return Ok(None);
        }
        let more = session.was_full;
        sequencer.session = Some(session);
        Ok(Some(more))
    }

    /// Works under the lease this store has, or takes the free one; answers the lease if it still has it.
    async fn lead(&self, session: &mut Session, lead: Option<Lead>, probe: &Probe) -> Result<Option<Lead>> {
        let lead = match lead {
            None if probe.is_free => self.take_over(session).await?,
            lead => lead,
        };
        match lead {
            Some(lead) => self.work(session, lead, probe).await,
            None => Ok(None),
        }
    }

    /// Nothing to do: a session that rested long enough is closed before the server ends it.
    pub(crate) async fn rest(&self) {
        let Ok(mut sequencer) = self.sequencer.try_lock() else {
            return;
        };
        if let Some(session) = sequencer.session.take_if(|session| session.is_stale()) {
            drop(sequencer);
            session.close().await;
        }
    }

    /// All that an earlier owner numbered is on disk once this has committed, for it wrote the same row before.
    async fn take_over(&self, session: &mut Session) -> Result<Option<Lead>> {
        let lead = session.take_lease().await?;
        if let Some(lead) = lead {
            tracing::debug!(epoch = lead.epoch, next_seq = lead.next_seq, "sequencing from here on");
            // Not the larger of both: after a restore the log ends earlier than it did.
            self.durable.store(lead.next_seq, Ordering::Release);
        }
        Ok(lead)
    }

    async fn work(&self, session: &mut Session, lead: Lead, probe: &Probe) -> Result<Option<Lead>> {
        if !probe.is_waiting {
            session.confirm(lead).await?;
            session.was_full = false;
            return Ok(Some(lead));
        }
        match session.step(lead).await? {
            Step::Moved(lead, _) => {
                self.learn(lead.next_seq);
                Ok(Some(lead))
            }
            Step::Deposed => {
                tracing::debug!(epoch = lead.epoch, "another process is sequencing now");
                Ok(None)
            }
        }
    }
}

/// The sequencer's own connection.
#[derive(Debug)]
struct Session {
    conn: MySqlConnection,
    /// The name of the user lock that this session holds.
    owner: String,
    batch: u32,
    was_full: bool,
    used_at: Instant,
}

impl Session {
    async fn open(options: &MySqlConnectOptions) -> Result<Self> {
        Self::try_open(options)
            .await
            .map_err(|source| db("connect the sequencer", source))
    }

    async fn try_open(options: &MySqlConnectOptions) -> Result<Self, sqlx::Error> {
        let mut conn = options.connect().await?;
        let owner = format!("postroom.sequencer.{}", Uuid::now_v7().simple());
        sqlx::query(include_str!("../sql/session_isolation.sql"))
            .execute(&mut conn)
            .await?;
        sqlx::query(include_str!("../sql/session_timeouts.sql"))
            .execute(&mut conn)
            .await?;
        sqlx::query(include_str!("../sql/session_name.sql"))
            .bind(&owner)
            .execute(&mut conn)
            .await?;
        Ok(Self {
            conn,
            owner,
            batch: BATCH,
            was_full: false,
            used_at: Instant::now(),
        })
    }

    fn is_stale(&self) -> bool {
        self.used_at.elapsed() > REST_MAX
    }

    async fn close(self) {
        if let Err(error) = self.conn.close().await {
            tracing::debug!(%error, "the sequencer's session was gone already");
        }
    }

    async fn take_lease(&mut self) -> Result<Option<Lead>> {
        match self.try_take_lease().await {
            Ok(lead) => Ok(lead),
            // Its owner is in the middle of a step, or paused there until its session ends.
            Err(error) if is_lock_timeout(&error) => Ok(None),
            Err(error) => Err(db("take the sequencer's lease", error)),
        }
    }

    async fn try_take_lease(&mut self) -> Result<Option<Lead>, sqlx::Error> {
        self.used_at = Instant::now();
        let taken = sqlx::query(include_str!("../sql/lease_take.sql"))
            .bind(&self.owner)
            .execute(&mut self.conn)
            .await?;
        if taken.rows_affected() == 0 {
            return Ok(None);
        }
        sqlx::query_as(include_str!("../sql/lease_read.sql"))
            .bind(&self.owner)
            .fetch_optional(&mut self.conn)
            .await
    }

    /// Writes down that the last step is on disk. Changes nothing if the lease went to another process meanwhile.
    async fn confirm(&mut self, lead: Lead) -> Result<()> {
        self.used_at = Instant::now();
        let confirmed = sqlx::query(include_str!("../sql/confirm.sql"))
            .bind(lead.next_seq)
            .bind(lead.epoch)
            .execute(&mut self.conn)
            .await;
        match confirmed {
            Err(error) if !is_lock_timeout(&error) => Err(db("confirm what was numbered", error)),
            _ => Ok(()),
        }
    }

    async fn step(&mut self, lead: Lead) -> Result<Step> {
        let begun = Instant::now();
        let step = Step::take(&mut self.conn, lead, &self.owner, self.batch).await?;
        if let Step::Moved(_, rows) = step {
            self.was_full = u32::try_from(rows).is_ok_and(|rows| rows >= self.batch);
            self.batch = next_batch(self.batch, self.was_full, begun.elapsed());
        }
        self.used_at = Instant::now();
        Ok(step)
    }
}

/// How many rows the next step takes.
fn next_batch(batch: u32, was_full: bool, took: Duration) -> u32 {
    if took > STEP_SLOW {
        return (batch / 4).max(BATCH_MIN);
    }
    if was_full { (batch * 5).min(BATCH_MAX) } else { BATCH }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_while_catching_up_and_shrink_when_slow() {
        let fast = Duration::from_millis(15);
        let check = |batch, was_full, took, expected| assert_eq!(next_batch(batch, was_full, took), expected);
        check(1_000, false, fast, 1_000);
        check(1_000, true, fast, 5_000);
        check(5_000, true, fast, 5_000);
        check(5_000, false, fast, 1_000);
        check(1_000, true, Duration::from_secs(3), 250);
        check(60, true, Duration::from_secs(3), 50);
        check(50, true, fast, 250);
    }
}
