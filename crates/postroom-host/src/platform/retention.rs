//! Retention: how long rows stay that are done with.

use std::time::Duration;

use postroom::{Error, Job, Result};
use time::Time;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a process keeps rows that are done with.
#[derive(Clone, Debug, PartialEq)]
pub struct Retention {
    /// Events that every route has passed; until then they can be replayed.
    pub outbox: Duration,
    /// The inbox rows by which subscribers detect repetitions: at least as long as `outbox`.
    pub inbox: Duration,
    /// Dead letters that were retried or discarded. One without a decision stays.
    pub dead: Duration,
    /// Whether events that leave the outbox are copied to the table `audit_events`.
    pub archive: bool,
    /// Removes events once a day at this time in UTC; absent: every minute.
    pub daily_at: Option<Time>,
}

impl Default for Retention {
    /// Events and inbox rows for 7 days, dead letters for 90.
    fn default() -> Self {
        Self {
            outbox: 7 * DAY,
            inbox: 7 * DAY,
            dead: 90 * DAY,
            archive: false,
            daily_at: None,
        }
    }
}

impl Retention {
    pub(super) fn jobs(&self) -> [Job; 3] {
        let outbox = match self.daily_at {
            Some(at) => Job::daily_retention(self.outbox, self.archive, at),
            None => Job::retention(self.outbox, self.archive),
        };
        [outbox, Job::inbox_retention(self.inbox), Job::dead_retention(self.dead)]
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.inbox < self.outbox {
            let Self { inbox, outbox, .. } = self;
            return Err(Error::invalid(format!(
                "retention.inbox ({inbox:?}) must be at least as long as retention.outbox ({outbox:?}): a replayed event would \
                 otherwise have its effect twice"
            )));
        }
        Ok(())
    }
}
