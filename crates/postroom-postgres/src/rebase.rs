//! After a restore into another cluster: leads every cursor over to the xids that count there.

use postroom::Result;
use sqlx::Executor;

use crate::Postgres;
use crate::error::driver;

const CLAIM: &str = include_str!("../sql/rebase_claim.sql");
const LOCK: &str = include_str!("../sql/rebase_lock.sql");
const REBASE: &str = include_str!("../sql/rebase.sql");

/// Begins a new era, unless another process has done so meanwhile. Every entry is still read exactly once.
pub(crate) async fn rebase(store: &Postgres) -> Result<()> {
    match begin_era(store).await {
        Ok(false) => Ok(()),
        Ok(true) => {
            store.forget_pruned();
            tracing::warn!(
                "the outbox was restored or copied from another database: reading goes on by id in a new era. Stop the \
                 relays of the original if it is still there, or both will deliver"
            );
            Ok(())
        }
        Err(source) => Err(driver("re-base the outbox after a restore", source)),
    }
}

async fn begin_era(store: &Postgres) -> sqlx::Result<bool> {
    let mut tx = store.pools.reader.begin().await?;
    let is_foreign: bool = sqlx::query_scalar(CLAIM).fetch_one(&mut *tx).await?;
    if is_foreign {
        tx.execute(LOCK).await?;
        sqlx::query(REBASE).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(is_foreign)
}
