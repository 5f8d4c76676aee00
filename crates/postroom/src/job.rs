//! Jobs: work that one process at a time does now and then (retention, clean-up, whatever a module brings).
//!
//! A job is claimed in the database by its clock, for as long as it may take at most; a process that dies in the middle
//! leaves a claim that runs out.

pub(crate) mod replay;
pub(crate) mod schedule;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use serde::Serialize;
use time::{OffsetDateTime, Time, UtcOffset};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::state::dead;
use crate::state::feeding;
use crate::store::db_clock::{self, db_now, db_now_plus, read_stamp};
use crate::store::outbox::{Outbox, Prune, Pulse, with_timeout};
use crate::store::table::{self, Table, read_time, storable};
use crate::store::tx::Tx;
use crate::store::{inbox, task};

/// Rows that clean-up jobs take in one transaction.
const BATCH: u32 = 1_000;
/// Between two steps of a job that goes on.
const NEXT_STEP: Duration = Duration::from_secs(1);
/// Between two tries at what is due.
const CLAIM_AGAIN: Duration = Duration::from_millis(200);
/// How often a job that nobody asked for looks all the same.
const LOOK: Duration = Duration::from_secs(60);

const DAY: Duration = Duration::from_secs(86_400);
/// So far apart may the clocks of a process and its database be without a daily job being late.
const GRACE: Duration = Duration::from_millis(500);

type Work = Arc<dyn Fn(Arc<dyn Outbox>) -> BoxFuture<'static, Result<u64>> + Send + Sync>;

/// Work done now and then by one process at a time.
#[derive(Clone)]
pub struct Job {
    /// Its name, unique in the database.
    pub name: String,
    /// When it runs.
    pub when: When,
    /// How long it may take; it is ended then.
    pub timeout: Duration,
    work: Work,
}

/// When a job runs.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// This long after it ended last.
    Every(Duration),
    /// Once a day, at this time in UTC by the database's clock; then every second as long as there is something to do. A day
    /// that was missed is made up for.
    Daily(Time),
    /// As soon as a scheduled event is due.
    ScheduleDue,
    /// When an operator has changed something; then every second as long as there is something to do.
    Signalled,
}

impl Job {
    /// A job that runs `work` every so often; `work` answers how many things it did.
    pub fn every<F, Fut>(name: impl Into<String>, every: Duration, work: F) -> Self
    where
        F: Fn(Arc<dyn Outbox>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<u64>> + Send + 'static,
    {
        Self::new(name, When::Every(every), work)
    }

    /// A job that runs when an operator has changed something ([`crate::operate::signal`]), and then every second as long as `work`
    /// answers that it did something.
    pub fn on_signal<F, Fut>(name: impl Into<String>, work: F) -> Self
    where
        F: Fn(Arc<dyn Outbox>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<u64>> + Send + 'static,
    {
        Self::new(name, When::Signalled, work)
    }

    pub(crate) fn new<F, Fut>(name: impl Into<String>, when: When, work: F) -> Self
    where
        F: Fn(Arc<dyn Outbox>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<u64>> + Send + 'static,
    {
        Self {
            name: name.into(),
            when,
            timeout: Duration::from_secs(60),
            work: Arc::new(move |outbox| Box::pin(work(outbox))),
        }
    }

    /// Removes delivered entries older than `keep`, in small batches; with `archive`, into `audit_events`.
    pub fn retention(keep: Duration, archive: bool) -> Self {
        Self::every("retention", Duration::from_secs(60), move |outbox| async move {
            let prune = Prune {
                keep,
                batch: BATCH,
                archive,
            };
            in_batches(|_| {
                let outbox = Arc::clone(&outbox);
                task::to_end(async move { outbox.prune(&prune).await })
            })
            .await
        })
    }

    /// The same once a day: at this time (UTC) begins the removal of what is older than `keep` by then, a small batch a second.
    pub fn daily_retention(keep: Duration, archive: bool, at: Time) -> Self {
        Self::new("retention", When::Daily(at), move |outbox| async move {
            let tx = table::look(outbox.db()).await?;
            let now = db_clock::read_now(&tx).await?; // the clock that began this run
            tx.commit().await?;
            let prune = Prune {
                keep: keep + since(at, now),
                batch: BATCH,
                archive,
            };
            task::to_end(async move { outbox.prune(&prune).await }).await
        })
    }

    /// Forgets inbox rows older than `keep`.
    pub fn inbox_retention(keep: Duration) -> Self {
        Self::every("inbox-retention", Duration::from_secs(60), move |outbox| async move {
            let oldest_open = feeding::oldest_open(&*outbox).await?;
            in_batches(|batch| inbox::prune(outbox.db(), (keep, oldest_open), batch)).await
        })
    }

    /// Removes dead letters that were decided on longer ago than `keep`. Those that wait for a decision stay.
    pub fn dead_retention(keep: Duration) -> Self {
        Self::every("dead-retention", Duration::from_secs(3600), move |outbox| async move {
            let oldest_open = feeding::oldest_open(&*outbox).await?;
            in_batches(|batch| dead::prune(outbox.db(), (keep, oldest_open), batch)).await
        })
    }
}

/// Removes batch after batch until one is not full; answers how much.
async fn in_batches<Fut: Future<Output = Result<u64>>>(prune: impl Fn(u64) -> Fut) -> Result<u64> {
    let mut removed = 0;
    loop {
        let batch = prune(u64::from(BATCH)).await?;
        removed += batch;
        if batch < u64::from(BATCH) {
            return Ok(removed);
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name)
            .field("when", &self.when)
            .finish_non_exhaustive()
    }
}

/// Runs jobs of one process.
#[derive(Clone, Debug)]
pub(crate) struct JobRunner {
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) owner: String,
    pub(crate) pulse: watch::Receiver<Pulse>,
    /// A scheduled event is due.
    pub(crate) due: watch::Receiver<()>,
    /// The number of operators' changes when the job last ran.
    pub(crate) signal: i64,
}

impl JobRunner {
    /// Runs one job on `works_on` whenever its time comes, until `stop`. A failure is written down and the job runs again next time.
    pub(crate) async fn run(mut self, job: Job, works_on: Arc<dyn Outbox>, stop: CancellationToken) -> Result<()> {
        let mut did = 1; // a job that was under way when the last process ended goes on
        while self.wait(&job, did, &stop).await {
            self.signal = self.pulse.borrow().signal; // before the work: a signal during it is news
            did = self.attempt(&job, &works_on).await.unwrap_or_else(|error| {
                tracing::warn!(job = %job.name, error = error.report(), "job could not be run");
                0
            });
        }
        Ok(())
    }

    /// Waits for the job's time; `false` when it is time to stop.
    async fn wait(&mut self, job: &Job, did: u64, stop: &CancellationToken) -> bool {
        let time_comes = async {
            match job.when {
                When::Signalled | When::Daily(_) if did > 0 => tokio::time::sleep(NEXT_STEP).await,
                // The database says whether it is time. A little later its clock has come there too; or else a minute later.
                When::Daily(at) => tokio::time::sleep(LOOK.min(until(at, clock::now()) + GRACE)).await,
                When::Signalled => {
                    let known = self.signal;
                    let news = self.pulse.wait_for(|pulse| pulse.signal != known);
                    // The process that worked on it may have died without a signal: its claim ends then.
                    drop(tokio::time::timeout(LOOK.min(job.timeout), news).await);
                }
                // Processes look a little apart, so that they do not all claim at once.
                When::Every(every) => tokio::time::sleep(every.mul_f64(0.9 + rand::random::<f64>() * 0.2)).await,
                When::ScheduleDue => {
                    self.due.mark_unchanged(); // what was due until now has been released, or is found again
                    if did == 0 {
                        tokio::time::sleep(CLAIM_AGAIN).await; // it failed, or another process does it
                    }
                    if self.due.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            }
        };
        stop.run_until_cancelled(time_comes).await.is_some() && !stop.is_cancelled()
    }

    /// Runs the job if nobody else does; answers how much it did.
    async fn attempt(&self, job: &Job, works_on: &Arc<dyn Outbox>) -> Result<u64> {
        if !with_timeout(self.claim(job)).await? {
            return Ok(0);
        }
        let begun = Instant::now();
        let outcome = match tokio::time::timeout(
            job.timeout,
            AssertUnwindSafe((job.work)(Arc::clone(works_on))).catch_unwind(),
        )
        .await
        {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_panic)) => Err(Error::new(ErrorKind::Failed, "the job panicked")),
            Err(_elapsed) => Err(Error::new(
                ErrorKind::Failed,
                format!("the job took longer than its {:?}", job.timeout),
            )),
        };
        let did = *outcome.as_ref().unwrap_or(&0);
        with_timeout(self.finish(job, begun.elapsed(), outcome)).await?;
        Ok(did)
    }

    async fn claim(&self, job: &Job) -> Result<bool> {
        let tx = table::begin_own(self.outbox.db()).await?;
        let backend = tx.get_database_backend();
        let mut insert = Query::insert();
        insert
            .into_table(table::named(&tx, Table::Job))
            .columns(["name"])
            .values_panic([job.name.as_str().into()])
            .on_conflict(OnConflict::column("name").do_nothing_on(["name"]).to_owned());
        tx.execute(&insert)
            .await
            .map_err(|source| Error::db("register a job", source))?;
        if let When::Daily(at) = job.when {
            follow(&tx, job, at).await?;
        }
        // A claim of our own that still stands is one whose end could not be written down.
        let is_free = Expr::col("claimed_until")
            .is_null()
            .or(Expr::col("claimed_until").lt(db_now(backend)))
            .or(Expr::col("owner").eq(self.owner.as_str()));
        let mut update = Query::update();
        update
            .table(table::named(&tx, Table::Job))
            .value("owner", self.owner.as_str())
            .value("claimed_until", db_now_plus(backend, job.timeout))
            .and_where(Expr::col("name").eq(job.name.as_str()))
            .and_where(Expr::col("next_at").lte(db_now(backend)))
            .and_where(is_free);
        let claimed = tx
            .execute(&update)
            .await
            .map_err(|source| Error::db("claim a job", source))?;
        tx.commit().await?;
        Ok(claimed.rows_affected() == 1)
    }

    async fn finish(&self, job: &Job, took: Duration, outcome: Result<u64>) -> Result<()> {
        let error = match &outcome {
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(job = %job.name, error = error.report(), "job failed");
                Some(storable(&error.report()))
            }
        };
        let tx = table::begin_own(self.outbox.db()).await?;
        let backend = tx.get_database_backend();
        let pause = match (job.when, &outcome) {
            (When::Every(every), _) => every.mul_f64(0.8),
            (When::Daily(at), Ok(0)) => until(at, db_clock::read_now(&tx).await?),
            (When::Daily(_), Err(_)) => LOOK,
            (When::ScheduleDue, Err(_)) => NEXT_STEP,
            (When::Daily(_) | When::ScheduleDue | When::Signalled, _) => Duration::ZERO,
        };
        let mut update = Query::update();
        update
            .table(table::named(&tx, Table::Job))
            .value("claimed_until", Expr::cust("null"))
            .value("next_at", db_now_plus(backend, pause))
            .value("last_at", db_now(backend))
            .value("last_ms", i64::try_from(took.as_millis()).unwrap_or(i64::MAX))
            .value("runs", Expr::col("runs").add(1))
            .value("failures", Expr::col("failures").add(i64::from(error.is_some())))
            .value("last_error", error)
            .and_where(Expr::col("name").eq(job.name.as_str()))
            .and_where(Expr::col("owner").eq(self.owner.as_str()));
        tx.execute(&update)
            .await
            .map_err(|source| Error::db("write down how a job went", source))?;
        tx.commit().await?;
        Ok(())
    }
}

/// Makes a job that waits for its time of day wait for this one: the settings may have another time than when it ran last. One that
/// is due, or is tried again soon, stays as it is.
async fn follow(tx: &Tx, job: &Job, at: Time) -> Result<()> {
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .column("next_at")
        .expr_as(db_now(backend), "now")
        .from(table::named(tx, Table::Job))
        .and_where(Expr::col("name").eq(job.name.as_str()));
    let row = tx.query_one(&select).await;
    let Some(row) = row.map_err(|source| Error::db("read when a job runs", source))? else {
        return Ok(());
    };
    let now = read_time(&row, backend, "now")?;
    let waits = read_stamp(&row, backend, "next_at")?.map_or(Duration::ZERO, |next_at| {
        Duration::try_from(next_at - now).unwrap_or_default()
    });
    let wait = until(at, now);
    if waits <= 2 * LOOK || waits.abs_diff(wait) <= LOOK {
        return Ok(());
    }
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Job))
        .value("next_at", db_now_plus(backend, wait))
        .and_where(Expr::col("name").eq(job.name.as_str()));
    let moved = tx.execute(&update).await;
    moved
        .map(drop)
        .map_err(|source| Error::db("change when a job runs", source))
}

/// How long it is until the time of day comes next; a whole day when it is now.
fn until(at: Time, now: OffsetDateTime) -> Duration {
    DAY - since(at, now)
}

/// How long ago the time of day came last.
fn since(at: Time, now: OffsetDateTime) -> Duration {
    let now = now.to_offset(UtcOffset::UTC);
    let today = now.replace_time(at);
    let last = if today <= now { today } else { today - DAY };
    (now - last).unsigned_abs()
}

/// How a job has been doing.
#[derive(Clone, Debug, Serialize)]
pub struct JobStatus {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub runs: i64,
    /// How often that failed.
    pub failures: i64,
    /// When it ran last.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_at: Option<OffsetDateTime>,
    /// How long that took.
    pub last_ms: Option<i64>,
    /// The error of the last run.
    pub last_error: Option<String>,
}

/// Every job the database knows.
pub(crate) async fn statuses(tx: &Tx) -> Result<Vec<JobStatus>> {
    let mut select = Query::select();
    select
        .columns(["name", "runs", "failures", "last_at", "last_ms", "last_error"])
        .from(table::named(tx, Table::Job))
        .order_by("name", sea_orm::sea_query::Order::Asc);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read jobs", source))?;
    rows.iter()
        .map(|row| {
            Ok(JobStatus {
                name: row.try_get("", "name")?,
                runs: row.try_get("", "runs")?,
                failures: row.try_get("", "failures")?,
                last_at: read_stamp(row, tx.get_database_backend(), "last_at")?,
                last_ms: row.try_get("", "last_ms")?,
                last_error: row.try_get("", "last_error")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use time::macros::{datetime, time};

    use super::*;

    #[test]
    fn a_time_of_day_comes_once_a_day() {
        let check = |now: OffsetDateTime, since_s: u64| {
            let at = time!(04:00);
            assert_eq!(since(at, now), Duration::from_secs(since_s), "{now}");
            assert_eq!(until(at, now), Duration::from_secs(86_400 - since_s), "{now}");
        };
        check(datetime!(2026-04-13 4:00 UTC), 0);
        check(datetime!(2026-04-13 4:00:01 UTC), 1);
        check(datetime!(2026-04-13 3:59:59 UTC), 86_399);
        check(datetime!(2026-03-01 0:00 UTC), 20 * 3_600);
        check(datetime!(2026-04-13 13:30 +9), 1_800);
    }
}
