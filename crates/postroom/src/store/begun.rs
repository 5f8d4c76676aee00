//! A transaction on a connection of a pool.
//!
//! The driver's own type returns the connection to the pool also when the transaction failed to begin, or was dropped while it
//! began. The server may then have an open or an aborted transaction that the driver does not count, and the next user of the
//! connection would write into it.

#![cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
    expect(dead_code, reason = "a build without any database begins no transaction")
)]

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Database, SqlStr};
use sqlx_core::transaction::TransactionManager as _;

/// An open transaction. It rolls back when it is dropped.
pub(super) struct Begun<DB: Database> {
    connection: PoolConnection<DB>,
}

impl<DB: Database> Begun<DB> {
    pub(super) async fn begin(connection: PoolConnection<DB>, statement: SqlStr) -> sqlx::Result<Self> {
        let mut beginning = Beginning(Some(connection));
        if let Some(connection) = &mut beginning.0 {
            DB::TransactionManager::begin(connection, Some(statement)).await?;
        }
        let connection = beginning.0.take().ok_or(sqlx::Error::BeginFailed)?;
        Ok(Self { connection })
    }

    pub(super) fn connection(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }

    /// Commits, if it is still open. A handler whose own nested transaction failed to begin has ended ours: its driver forgets
    /// the transaction, and would answer a commit without sending it.
    pub(super) async fn commit(mut self) -> sqlx::Result<()> {
        if !self.connection.is_in_transaction() {
            return Err(sqlx::Error::Protocol(
                "the transaction has ended before its commit".into(),
            ));
        }
        DB::TransactionManager::commit(&mut self.connection).await
    }

    pub(super) async fn rollback(mut self) -> sqlx::Result<()> {
        DB::TransactionManager::rollback(&mut self.connection).await
    }
}

impl<DB: Database> Drop for Begun<DB> {
    /// After a commit this does nothing. Otherwise the connection rolls back on its way to the pool.
    fn drop(&mut self) {
        DB::TransactionManager::start_rollback(&mut self.connection);
    }
}

/// A connection whose transaction is about to begin. Dropped now, it is closed and not returned, except on SQLite, where no server
/// can disagree with the driver and a begin often fails because another one holds the lock.
struct Beginning<DB: Database>(Option<PoolConnection<DB>>);

impl<DB: Database> Drop for Beginning<DB> {
    fn drop(&mut self) {
        if DB::NAME != "SQLite"
            && let Some(connection) = self.0.take()
        {
            drop(connection.detach());
        }
    }
}
