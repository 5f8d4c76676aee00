//! The job that maps ranges again, a page of domain events in each transaction. A process that is killed in the middle leaves the
//! progress of its last transaction, and another one goes on from there.

use std::time::{Duration, Instant};

use postroom::operate::History;
use postroom::{Entry, Error, Job, Result, Tx, table};
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use sea_orm::{ConnectionTrait as _, DatabaseConnection};

use super::{REPROCESSES, Reprocess, running};
use crate::ingest::is_refused;
use crate::orchestrator::{Orchestrator, StoredAgain};
use crate::privacy::Admitted;
use crate::redispatch::State;
use crate::tables;

/// Domain events that are mapped in one transaction.
const PAGE: usize = 200;
/// How long one run goes on; the next one follows within a second.
const RUN: Duration = Duration::from_secs(3);

/// How long a process that is killed keeps others from going on.
const CLAIM: Duration = Duration::from_secs(10);

/// The job that works reprocesses off.
pub(crate) fn job(orchestrator: Orchestrator) -> Job {
    let mut job = Job::on_signal("activity-reprocess", move |outbox| {
        let orchestrator = orchestrator.clone();
        async move {
            let (begun, mut steps) = (Instant::now(), 0);
            loop {
                let (all, mut failed) = (running(outbox.db()).await?, None);
                for reprocess in &all {
                    match step(outbox.db(), &orchestrator, reprocess).await {
                        Ok(()) => steps += 1,
                        Err(error) => failed = Some(error), // it holds up no other
                    }
                }
                match failed {
                    Some(error) => return Err(error),
                    None if all.is_empty() || begun.elapsed() > RUN => return Ok(steps),
                    None => {}
                }
            }
        }
    });
    job.timeout = CLAIM;
    job
}

/// Maps one page.
async fn step(db: &DatabaseConnection, orchestrator: &Orchestrator, reprocess: &Reprocess) -> Result<()> {
    let types = orchestrator.event_types();
    let history = History {
        types: &types,
        ..reprocess.range.history()
    };
    let page = match types.is_empty() {
        true => return finish(db, reprocess).await, // no mapper, nothing to map
        false => history.page(db, (reprocess.done_id, reprocess.until_id), PAGE).await?,
    };
    let mapped = map(orchestrator, reprocess, &page.entries);
    match write(db, orchestrator, (reprocess, page.next), &mapped).await {
        Err(error) if is_refused(&error) => write_each(db, orchestrator, (reprocess, page.next), mapped).await,
        written => written,
    }
}

/// The activity events of a page of domain events.
struct Mapped {
    events: Vec<Admitted>,
    /// Domain events that the mapping refused.
    failed: u64,
}

/// Writes a page and the progress in one transaction.
async fn write(
    db: &DatabaseConnection,
    orchestrator: &Orchestrator,
    (reprocess, done_id): (&Reprocess, i64),
    Mapped { events, failed }: &Mapped,
) -> Result<()> {
    let tx = tables::begin_limited(db).await?;
    if !advance(&tx, reprocess, done_id).await? {
        return Ok(()); // it was canceled
    }
    let again = orchestrator.store_again(&tx, events).await?;
    count(&tx, reprocess, again, *failed).await?;
    tx.commit().await
}

/// The same for a page with an event that the database or the engine refuses: each event alone, so that one costs no other. One that is
/// refused counts as failed. A process that is killed before the progress is written repeats the page, which changes nothing more.
async fn write_each(
    db: &DatabaseConnection,
    orchestrator: &Orchestrator,
    (reprocess, done_id): (&Reprocess, i64),
    Mapped { events, mut failed }: Mapped,
) -> Result<()> {
    let mut all = StoredAgain::default();
    for event in &events {
        match write_alone(db, orchestrator, event).await {
            Ok(again) => all = all.and(again),
            Err(error) if is_refused(&error) => {
                tracing::warn!(
                    event = event.event_id,
                    error = error.report(),
                    "a mapped event could not be stored"
                );
                failed += 1;
            }
            Err(error) => return Err(error),
        }
    }
    let tx = tables::begin_limited(db).await?;
    if advance(&tx, reprocess, done_id).await? {
        count(&tx, reprocess, all, failed).await?;
    }
    tx.commit().await
}

async fn write_alone(db: &DatabaseConnection, orchestrator: &Orchestrator, event: &Admitted) -> Result<StoredAgain> {
    let tx = tables::begin_limited(db).await?;
    let again = orchestrator.store_again(&tx, std::slice::from_ref(event)).await?;
    tx.commit().await?;
    Ok(again)
}

async fn finish(db: &DatabaseConnection, reprocess: &Reprocess) -> Result<()> {
    let tx = table::begin(db).await?;
    advance(&tx, reprocess, reprocess.until_id).await?;
    tx.commit().await
}

/// The activity events of the range that these domain events report.
fn map(orchestrator: &Orchestrator, reprocess: &Reprocess, entries: &[Entry]) -> Mapped {
    let (mut events, mut failed) = (Vec::new(), 0);
    let name = reprocess.range.event_name.as_deref();
    for entry in entries {
        match orchestrator.map(&entry.event) {
            Ok(Some(event)) if name.is_none_or(|name| name == event.event_name) => events.push(event),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(event = %entry.event.id, error = error.report(), "a domain event could not be mapped again");
                failed += 1;
            }
        }
    }
    Mapped { events, failed }
}

/// Writes the progress, if the reprocess is still running from where this step began.
async fn advance(tx: &Tx, reprocess: &Reprocess, done_id: i64) -> Result<bool> {
    let state = match done_id >= reprocess.until_id {
        true => State::Done,
        false => State::Running,
    };
    let mut update = Query::update();
    update
        .table(REPROCESSES)
        .value("done_id", done_id)
        .value("state", state.name())
        .and_where(Expr::col("reprocess_id").eq(reprocess.reprocess_id.as_str()))
        .and_where(Expr::col("done_id").eq(reprocess.done_id))
        .and_where(Expr::col("state").eq(State::Running.name()));
    let done = tx.execute(&update).await;
    let done = done.map_err(|source| Error::db("write the progress of a reprocess", source))?;
    Ok(done.rows_affected() > 0)
}

async fn count(tx: &Tx, reprocess: &Reprocess, again: StoredAgain, failed: u64) -> Result<()> {
    let plus = |column: &'static str, count: u64| {
        let sum = Expr::col(column).add(i64::try_from(count).unwrap_or(i64::MAX));
        (column, sum)
    };
    let mut update = Query::update();
    update
        .table(REPROCESSES)
        .values([
            plus("inserted", again.inserted),
            plus("updated", again.updated),
            plus("unchanged", again.unchanged),
            plus("failed", failed),
        ])
        .and_where(Expr::col("reprocess_id").eq(reprocess.reprocess_id.as_str()));
    let done = tx.execute(&update).await;
    done.map_err(|source| Error::db("count the events of a reprocess", source))?;
    Ok(())
}
