//! Releasing scheduled events: those that are due move into the outbox, in one transaction, by one process at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sea_orm::sea_query::{Expr, ExprTrait, LockBehavior, LockType, Order, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, QueryResult};
use uuid::Uuid;

use crate::emit;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::job::{Job, When};
use crate::store::db_clock::db_now;
use crate::store::outbox::Outbox;
use crate::store::table::{self, Table, read_event, uuid_value};
use crate::store::tx::Tx;

/// Events released in one transaction: one by one, and over a slow network too well within the claim.
const BATCH: u64 = 20;
/// How long a process that dies keeps others from releasing.
const CLAIM: Duration = Duration::from_secs(5);
/// How long one run goes on; the next one follows at once.
const RUN: Duration = Duration::from_secs(1);

pub(crate) fn job() -> Job {
    let work = |outbox: Arc<dyn Outbox>| async move { release(outbox.db()).await };
    let mut job = Job::new("schedule", When::ScheduleDue, work);
    job.timeout = CLAIM;
    job
}

/// Moves what is due; answers how many. When the outbox refuses a batch, its events move one by one: the refused ones stay, and
/// the first refusal is the error of this run.
async fn release(db: &DatabaseConnection) -> Result<u64> {
    let begun = Instant::now();
    let mut released = 0;
    let mut refused = Vec::new();
    let mut refusal = None;
    let mut limit = BATCH;
    while begun.elapsed() <= RUN {
        let tx = table::begin_own(db).await?;
        let backend = tx.get_database_backend();
        let due = read_due(&tx, limit, &refused).await?;
        let Some(first) = due.first() else { break };
        match append(tx, &due).await {
            Ok(()) => {
                released += due.len() as u64;
                if (due.len() as u64) < limit {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
            Err(error) if limit == 1 => {
                refused.push(id(first, backend)?);
                refusal.get_or_insert(error);
                limit = BATCH;
            }
            Err(_) => limit = 1,
        }
    }
    refusal.map_or(Ok(released), Err)
}

/// Due events, locked. An event that another transaction has locked is left for the next time: an application that is cancelling
/// it delays no other event. So one that is cancelled is never released as well.
async fn read_due(tx: &Tx, limit: u64, refused: &[Expr]) -> Result<Vec<QueryResult>> {
    let backend = tx.get_database_backend();
    let mut select = table::select_events(backend);
    select
        .from(table::named(tx, Table::Scheduled))
        .and_where(Expr::col("due_at").lte(db_now(backend)))
        .order_by("due_at", Order::Asc)
        .order_by("event_id", Order::Asc)
        .limit(limit)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    if !refused.is_empty() {
        select.and_where(Expr::col("event_id").is_not_in(refused.to_vec()));
    }
    tx.query_all(&select)
        .await
        .map_err(|source| Error::db("read what is due", source))
}

/// The id of a row as it is: a plain statement may have written one that is no UUID.
fn id(row: &QueryResult, backend: DbBackend) -> Result<Expr> {
    Ok(match backend {
        DbBackend::Postgres => Expr::val(row.try_get::<Uuid>("", "event_id")?),
        _ => Expr::val(row.try_get::<String>("", "event_id")?),
    })
}

/// Moves these events from the schedule into the outbox.
async fn append(tx: Tx, due: &[QueryResult]) -> Result<()> {
    let backend = tx.get_database_backend();
    let due: Vec<Event> = due.iter().map(|row| read_event(row, backend)).collect::<Result<_>>()?;
    let mut delete = Query::delete();
    delete
        .from_table(table::named(&tx, Table::Scheduled))
        .and_where(Expr::col("event_id").is_in(due.iter().map(|event| uuid_value(backend, event.id))));
    tx.execute(&delete)
        .await
        .map_err(|source| Error::db("take due events off the schedule", source))?;
    emit::insert(&tx, &due).await?;
    tx.commit().await?;
    Ok(())
}
