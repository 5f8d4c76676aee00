//! The job that maps ranges again, a page of domain events in each transaction. A process that is killed in the middle leaves the
//! progress of its last transaction, and another one goes on from there.

use std::time::{Duration, Instant};

use postroom::operate::History;
use postroom::{Entry, Error, Job, Result, Tx, table};
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use sea_orm::{ConnectionTrait as _, DatabaseConnection};

use super::{REPROCESSES, Reprocess, running};
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
    let (events, failed) = map(orchestrator, reprocess, &page.entries);
    let tx = table::begin(db).await?;
    tables::limit_waits(&tx).await?;
    if !advance(&tx, reprocess, page.next).await? {
        return Ok(()); // it was canceled
    }
    let again = orchestrator.store_again(&tx, &events).await?;
    count(&tx, reprocess, again, failed).await?;
    tx.commit().await
}

async fn finish(db: &DatabaseConnection, reprocess: &Reprocess) -> Result<()> {
    let tx = table::begin(db).await?;
    advance(&tx, reprocess, reprocess.until_id).await?;
    tx.commit().await
}

/// The activity events of the range that these domain events report, and how many domain events the mapping refused.
fn map(orchestrator: &Orchestrator, reprocess: &Reprocess, entries: &[Entry]) -> (Vec<Admitted>, u64) {
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
    (events, failed)
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
