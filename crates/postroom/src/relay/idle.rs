//! When a relay has nothing left to do.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::event::entry::Position;
use crate::route::Route;
use crate::state::cursor::{self, Shard};
use crate::state::parked;
use crate::store::outbox::{Outbox, with_timeout};
use crate::store::table;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Looks whether routes have come to the end of the log.
#[derive(Debug)]
pub(crate) struct Idle {
    outbox: Arc<dyn Outbox>,
    shards: Vec<Shard>,
}

impl Idle {
    pub(crate) fn of(outbox: &Arc<dyn Outbox>, routes: &[Route]) -> Self {
        let shards = |route: &Route| {
            let name = route.name.clone();
            (0..route.shards).map(move |number| Shard {
                route: name.clone(),
                number,
            })
        };
        Self {
            outbox: Arc::clone(outbox),
            shards: routes.iter().flat_map(shards).collect(),
        }
    }

    /// Waits until every route that is not paused is at the end and no retry is due. Errors count as work: the relay reports them.
    pub(crate) async fn wait(&self) {
        while !with_timeout(self.is_idle()).await.unwrap_or(false) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The head is read before the cursors and after them: an event that a handler emits moves the head in the same commit that
    /// moves the cursor.
    async fn is_idle(&self) -> Result<bool> {
        let head = self.head().await?;
        Ok(head.is_some() && self.is_settled(head).await? && self.head().await? == head)
    }

    /// The end of the log, unless more is about to come.
    async fn head(&self) -> Result<Option<Position>> {
        let pulse = self.outbox.pulse().await?;
        if pulse.more || pulse.is_waiting || pulse.is_due() {
            return Ok(None);
        }
        self.outbox.head().await.map(Some)
    }

    async fn is_settled(&self, head: Option<Position>) -> Result<bool> {
        let tx = table::look(self.outbox.db()).await?;
        for shard in &self.shards {
            let cursor = cursor::read(&tx, shard).await?;
            if cursor.is_paused {
                continue;
            }
            let is_at_end = head.is_some_and(|head| cursor.position.has_reached(head));
            let is_due = parked::due_in(&tx, shard).await?.is_some_and(|due| due.is_zero());
            if !is_at_end || is_due {
                return Ok(false);
            }
        }
        tx.commit().await?;
        Ok(true)
    }
}
