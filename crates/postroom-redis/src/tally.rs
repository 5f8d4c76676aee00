//! Changes of counters that are not flushed yet. A counter is a key with a number; two keys beside it, in its slot, know its changes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use postroom_shared::Tally;
use postroom_shared::tally::{Change, KEPT};

use crate::connection::Connection;
use crate::registry::{by_name, ms};
use crate::script::{self, Call, LazyScript};
use crate::shared_state::{Prefix, beside};

/// Changes in one call of the script: Redis does nothing else meanwhile.
const CALL_MAX: usize = 500;

/// Sums changes of counters for all instances with this server.
#[derive(Debug)]
pub struct RedisTally {
    connection: Arc<Connection>,
    prefix: Prefix,
    kept: Duration,
}

impl RedisTally {
    /// The same, which remembers changes for another time. All instances have the same.
    #[must_use]
    pub fn keeping(mut self, kept: Duration) -> Self {
        self.kept = kept;
        self
    }

    pub(crate) fn new(connection: &Arc<Connection>, prefix: &Prefix) -> Self {
        Self {
            connection: Arc::clone(connection),
            prefix: prefix.clone(),
            kept: KEPT,
        }
    }

    async fn change(&self, act: &str, changes: &[Change]) -> Result<()> {
        let mut calls = Vec::new();
        for (counter, places) in by_name(changes.iter().map(|change| change.counter.as_str())) {
            for some in places.chunks(CALL_MAX) {
                let call = self.on(&script::TALLY, counter).arg(act).arg(ms(self.kept));
                let own = some.iter().filter_map(|at| changes.get(*at));
                calls.push(own.fold(call, |call, change| call.arg(&change.id).arg(change.delta)));
            }
        }
        let doing = format!("{act} changes of counters in Redis");
        let _done: Vec<()> = self.connection.calls(&doing, calls).await?;
        Ok(())
    }

    fn on(&self, script: &'static LazyScript, counter: &str) -> Call {
        let key = self.prefix.name(counter);
        let [changes, ends] = ["changes", "ends"].map(|word| beside(&key, word));
        Call::on(script, &[key, changes, ends])
    }
}

#[async_trait]
impl Tally for RedisTally {
    async fn add(&self, changes: &[Change]) -> Result<()> {
        self.change("add", changes).await
    }

    async fn settle(&self, changes: &[Change]) -> Result<()> {
        self.change("settle", changes).await
    }

    async fn read(&self, counters: &[String]) -> Result<Vec<i64>> {
        let calls = counters.iter().map(|counter| self.on(&script::TALLY_READ, counter));
        self.connection.calls("read counters in Redis", calls.collect()).await
    }
}
