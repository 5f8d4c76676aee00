//! Releasing scheduled events: those that are due move into the outbox, in one transaction, by one process at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sea_orm::sea_query::{Expr, ExprTrait, LockBehavior, LockType, Order, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection};

use crate::emit;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::job::{Job, When};
use crate::store::db_clock::db_now;
use crate::store::outbox::Outbox;
use crate::store::table::{self, Table, read_event, uuid_value};

/// Events released in one transaction: one by one, and over a slow network too well within the claim.
const BATCH: u64 = 20;
/// How long a process that dies keeps others from releasing.
const CLAIM: Duration = Duration::from_secs(5);
/// How long one run goes on; the next one follows at once.
const RUN: Duration = Duration::from_secs(1);

pub(crate) fn job() -> Job {
    let work = |outbox: Arc<dyn Outbox>| async move {
        let begun = Instant::now();
        let mut released = 0;
        loop {
            let batch = release(outbox.db()).await?;
            released += batch;
            if batch < BATCH || begun.elapsed() > RUN {
                return Ok(released);
            }
        }
    };
    let mut job = Job::new("schedule", When::ScheduleDue, work);
    job.timeout = CLAIM;
    job
}

/// Moves what is due; answers how many. A row that another transaction has locked is left for the next time: an application
/// that is cancelling it delays no other event. So one that is cancelled is never released as well.
async fn release(db: &DatabaseConnection) -> Result<u64> {
    let tx = table::begin_own(db).await?;
    let backend = tx.get_database_backend();
    let mut select = table::select_events(backend);
    select
        .from(table::named(&tx, Table::Scheduled))
        .and_where(Expr::col("due_at").lte(db_now(backend)))
        .order_by("due_at", Order::Asc)
        .order_by("event_id", Order::Asc)
        .limit(BATCH)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read what is due", source))?;
    let due: Vec<Event> = rows.iter().map(|row| read_event(row, backend)).collect::<Result<_>>()?;
    if due.is_empty() {
        return Ok(0);
    }
    let mut delete = Query::delete();
    delete
        .from_table(table::named(&tx, Table::Scheduled))
        .and_where(Expr::col("event_id").is_in(due.iter().map(|event| uuid_value(backend, event.id))));
    tx.execute(&delete)
        .await
        .map_err(|source| Error::db("take due events off the schedule", source))?;
    emit::insert(&tx, &due).await?;
    tx.commit().await?;
    Ok(due.len() as u64)
}
