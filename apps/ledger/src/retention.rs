//! Deletes old audit rows and idempotency keys, in small batches.

use std::time::Duration;

use postroom::{Job, table};

use crate::tables::{audit, request};

/// Rows per transaction.
const BATCH: u64 = 500;
const DAY_MS: i64 = 86_400_000;
/// Five years, with two leap days.
const AUDIT_MS: i64 = (5 * 365 + 2) * DAY_MS;
/// The same time as for delivered events. A client that has not repeated a request by then does not repeat it.
const REQUESTS_MS: i64 = 7 * DAY_MS;

/// Deletes audit rows after five years and idempotency keys after seven days.
pub(crate) fn job() -> Job {
    Job::every("ledger-retention", Duration::from_secs(600), |outbox| async move {
        let mut removed = 0;
        loop {
            let tx = table::begin(outbox.db()).await?;
            let batch = audit::prune(&tx, AUDIT_MS, BATCH).await? + request::prune(&tx, REQUESTS_MS, BATCH).await?;
            tx.commit().await?;
            removed += batch;
            if batch == 0 {
                return Ok(removed);
            }
        }
    })
}
