//! The pulse: what is new, in one statement. There is nothing to make readable: a commit is.

use std::time::Duration;

use postroom::{Pulse, Result};
use sqlx::SqlitePool;

use crate::error;

pub(crate) async fn pulse(readers: &SqlitePool) -> Result<Pulse> {
    let (head, due_in_s, signal): (i64, Option<f64>, i64) = sqlx::query_as(include_str!("../sql/pulse.sql"))
        .fetch_one(readers)
        .await
        .map_err(error::while_doing("look for new entries"))?;
    Ok(Pulse {
        head,
        // Negative (overdue) means now.
        due_in: due_in_s.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
        signal,
        more: false,
        is_waiting: false,
    })
}
