//! Retention: removes old entries that every cursor has passed, and ticks that none needs.

use postroom::{Prune, Result};
use sqlx::PgConnection;

use crate::Postgres;
use crate::error::driver;

const PRUNE: &str = include_str!("../sql/prune.sql");
const PRUNE_TICKS: &str = include_str!("../sql/prune_ticks.sql");
/// In one statement.
const TICKS_MAX: u32 = 5_000;

pub(crate) async fn prune(store: &Postgres, prune: &Prune) -> Result<u64> {
    let mut connection = store.reader().await?;
    let (removed, low): (i64, Option<i64>) = sqlx::query_as(PRUNE)
        .bind(store.pruned_to())
        .bind(i64::from(prune.batch))
        .bind(prune.keep.as_secs_f64())
        .bind(prune.archive)
        .fetch_one(&mut *connection)
        .await
        .map_err(|source| driver("remove old entries from the outbox", source))?;
    prune_ticks(&mut connection).await?;
    store.end(connection).await?;
    store.remember_pruned(low);
    Ok(u64::try_from(removed).unwrap_or(0))
}

async fn prune_ticks(connection: &mut PgConnection) -> Result<()> {
    loop {
        let done = sqlx::query(PRUNE_TICKS)
            .bind(i64::from(TICKS_MAX))
            .execute(&mut *connection)
            .await
            .map_err(|source| driver("remove old ticks of the outbox", source))?;
        if done.rows_affected() < u64::from(TICKS_MAX) {
            return Ok(());
        }
    }
}
