//! Limits how long a transaction waits, for transactions that a request of a client waits for.

use postroom::{Error, Result, Tx, table};
use sea_orm::{ConnectionTrait as _, DatabaseConnection, DbBackend};

/// Begins a transaction whose waits are limited.
pub(crate) async fn begin_limited(db: &DatabaseConnection) -> Result<Tx> {
    let tx = table::begin(db).await?;
    limit_waits(&tx).await?;
    Ok(tx)
}

/// Limits the waits of this transaction on the server: a second for locks, five for a statement. MySQL and MariaDB keep the limits
/// for the session; the next transaction resets them. SQLite has no locks to wait for once a transaction has begun.
pub(crate) async fn limit_waits(tx: &Tx) -> Result<()> {
    let statement = match tx.get_database_backend() {
        DbBackend::Postgres => "set local lock_timeout = 1000; set local statement_timeout = 5000",
        DbBackend::MySql => {
            "set session lock_wait_timeout = 1, session innodb_lock_wait_timeout = 1 /*M!100300 , session max_statement_time = 5 */"
        }
        _ => return Ok(()),
    };
    let limited = tx.execute_unprepared(statement).await;
    limited.map_err(|source| Error::db("limit the waits of a transaction", source))?;
    Ok(())
}
