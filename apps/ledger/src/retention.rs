//! What is not kept for ever, removed in small batches.

use std::time::Duration;

use postroom::{Job, table};

use crate::tables::{audit, request};

/// Rows in one transaction.
const BATCH: u64 = 500;
const DAY_MS: i64 = 86_400_000;
/// Five years, two of them leap years.
const AUDIT_MS: i64 = (5 * 365 + 2) * DAY_MS;
/// As long as delivered events are kept: who has not repeated a request by then does not.
const REQUESTS_MS: i64 = 7 * DAY_MS;

/// Removes audit rows after five years, and forgets idempotency keys after a week.
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
