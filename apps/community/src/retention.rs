//! The job that removes what is old: notifications, frames, changes of counts, batches. It works in small transactions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom::{Job, Outbox, Result};
use sea_orm::DatabaseConnection;

use crate::counter;
use crate::settings::{Settings, days};
use crate::stream::{prune_frames, prune_notifications};
use crate::tables::now_ms;

/// How often old rows are looked for.
const EVERY: Duration = Duration::from_secs(30);
/// So long one run begins new transactions; the next one goes on.
const RUN: Duration = Duration::from_secs(20);
/// How long changes of comment counts are kept after a batch has them, so that the counts can be checked against them.
const CHANGES_KEPT: Duration = Duration::from_hours(7 * 24);

/// Removes old rows twice a minute.
pub(crate) fn job(settings: &Settings) -> Job {
    let kept = Kept {
        notifications: days(settings.notification_days),
        chat_frames: days(settings.chat_frame_days),
    };
    Job::every("community-retention", EVERY, move |outbox| run(outbox, kept))
}

/// How long rows are kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    notifications: Duration,
    chat_frames: Duration,
}

async fn run(outbox: Arc<dyn Outbox>, kept: Kept) -> Result<u64> {
    let (begun, mut removed) = (Instant::now(), 0);
    while begun.elapsed() < RUN {
        let batch = remove(outbox.db(), kept).await?;
        removed += batch;
        if batch == 0 {
            break;
        }
    }
    Ok(removed)
}

async fn remove(db: &DatabaseConnection, kept: Kept) -> Result<u64> {
    let notifications_ms = before(kept.notifications);
    Ok(prune_notifications(db, notifications_ms).await?
        + prune_frames(db, (notifications_ms, before(kept.chat_frames))).await?
        + counter::prune(db, before(CHANGES_KEPT)).await?)
}

fn before(age: Duration) -> i64 {
    now_ms().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}
