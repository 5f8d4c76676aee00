//! The inbox: which events a subscriber has handled, one row each, written in the handler's own transaction.

use std::collections::HashSet;
use std::time::Duration;

use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::store::db_clock::{db_now_minus, stamp};
use crate::store::table::{self, Table};
use crate::store::tx::Tx;

/// The group under which the inbox remembers events that were accepted from outside; no other may have its name.
pub(crate) const ACCEPTED: &str = "accepted";

/// Which of these keys are handled already.
pub(crate) async fn known(tx: &Tx, keys: &[String]) -> Result<HashSet<String>> {
    let rows = match tx.get_database_backend() {
        // Its planner may choose to read the whole inbox; the store has a function that does not.
        backend @ DbBackend::Postgres => {
            let select = "select postroom.handled(cast($1 as json)) as idempotency_key";
            let keys = serde_json::json!(keys).to_string();
            let known = Statement::from_sql_and_values(backend, select, [keys.into()]);
            tx.query_all_raw(known).await
        }
        _ => {
            let mut select = Query::select();
            select
                .column("idempotency_key")
                .from(table::named(tx, Table::Handled))
                .and_where(Expr::col("idempotency_key").is_in(keys));
            tx.query_all(&select).await
        }
    };
    let rows = rows.map_err(|source| Error::db("look into the inbox", source))?;
    rows.iter().map(|row| Ok(row.try_get("", "idempotency_key")?)).collect()
}

/// Records keys as handled; a conflict means that somebody else just did.
pub(crate) async fn record(tx: &Tx, keys: &[&str]) -> Result<()> {
    insert(tx, keys, None).await
}

/// Records keys as handled that may be recorded already.
pub(crate) async fn record_again(tx: &Tx, keys: &[&str]) -> Result<()> {
    let known = OnConflict::column("idempotency_key")
        .do_nothing_on(["idempotency_key"])
        .to_owned();
    insert(tx, keys, Some(known)).await
}

/// Events in one statement.
const RECORDED_MAX: usize = 1_000;

/// Records that a route has delivered these events. One that comes again keeps its first time.
pub(crate) async fn record_delivered(tx: &Tx, route: &str, events: &[Uuid]) -> Result<()> {
    for events in events.chunks(RECORDED_MAX) {
        let keys: Vec<String> = events.iter().map(|event| format!("{route}:{event}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        record_again(tx, &keys).await?;
    }
    Ok(())
}

async fn insert(tx: &Tx, keys: &[&str], conflict: Option<OnConflict>) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::Handled))
        .columns(["idempotency_key"]);
    for key in keys {
        insert.values_panic([(*key).into()]);
    }
    if let Some(conflict) = conflict {
        insert.on_conflict(conflict);
    }
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("record in the inbox", source))?;
    Ok(())
}

/// Which of these events a group has handled, for a worker that has failed to handle them. The caller has locked the route's cursor:
/// whichever worker handled an event has committed before, or waits for the lock. Asked in a savepoint: an inbox that cannot be asked
/// is one of the reasons why events fail, and then none is known.
pub(crate) async fn handled_meanwhile(tx: &Tx, group: &str, events: &[Uuid]) -> Result<HashSet<Uuid>> {
    let key = |event: &Uuid| format!("{group}:{event}");
    let keys: Vec<String> = events.iter().map(key).collect();
    tx.begin_part().await?;
    let known = match known(tx, &keys).await {
        Ok(known) => known,
        Err(error) if error.kind() == ErrorKind::Failed => {
            tracing::warn!(
                group,
                error = error.report(),
                "the inbox does not say which events were handled"
            );
            tx.undo_part().await?;
            return Ok(HashSet::new());
        }
        Err(error) => return Err(error),
    };
    tx.keep_part().await?;
    let is_known = |event: &Uuid| known.contains(&key(event));
    Ok(events.iter().copied().filter(is_known).collect())
}

/// Forgets keys so that their events have their effect again; for a replay that asks for it.
pub(crate) async fn forget(tx: &Tx, keys: &[String]) -> Result<()> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, Table::Handled))
        .and_where(Expr::col("idempotency_key").is_in(keys));
    tx.execute(&delete)
        .await
        .map_err(|source| Error::db("forget inbox rows", source))?;
    Ok(())
}

/// Removes rows older than `keep`, at most `batch`; answers how many. A redelivery after that has a second effect, so
/// `keep` must be longer than the outbox, the brokers and the dead letters can bring an event back. Rows of events behind the first
/// one that a broker has not brought yet stay: they tell what the route has handled when it reads the log again.
pub(crate) async fn prune(
    db: &DatabaseConnection,
    (keep, oldest_open): (Duration, Option<OffsetDateTime>),
    batch: u64,
) -> Result<u64> {
    let tx = table::begin_own(db).await?;
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .column("idempotency_key")
        .from(table::named(&tx, Table::Handled))
        .and_where(Expr::col("handled_at").lt(db_now_minus(backend, keep)))
        .limit(batch);
    if let Some(created_at) = oldest_open {
        select.and_where(Expr::col("handled_at").lt(stamp(backend, created_at)));
    }
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("find old inbox rows", source))?;
    let keys: Vec<String> = rows
        .iter()
        .map(|row| row.try_get("", "idempotency_key"))
        .collect::<Result<_, _>>()?;
    if !keys.is_empty() {
        forget(&tx, &keys).await?;
    }
    tx.commit().await?;
    Ok(keys.len() as u64)
}
