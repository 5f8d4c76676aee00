//! The limit of the database: the same work without Postroom, in the same run.
//!
//! Both limits are one plain loop on one connection through the driver itself: no leases, no cursor, no routing, no order to
//! keep, nothing to look up. A relay cannot be faster than that on one line; how near it comes is what the ratio tells.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use postroom::Event;

use crate::native::{Sql, Value, sql};
use crate::paid::Paid;
use crate::receiver::{EFFECT, ROUTE};
use crate::site::Site;

/// Events that a subscriber handles in one transaction at most.
const CHUNK: usize = 100;
/// Entries that a relay reads at once at most.
const PAGE: i64 = 1_000;
const INBOX: Sql = sql!("inbox");
const READ: Sql = sql!("page");

/// The work of the plain loops. Effects are made in two parts, before and after the relay's, so that other load on the machine
/// affects both.
#[derive(Debug, Default)]
pub(super) struct Limit {
    events: usize,
    took: Duration,
}

impl Limit {
    pub(super) fn per_s(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64()
    }

    /// The effects of these events and a row in an inbox for each, a hundred to a transaction: one insert per effect, as
    /// the handler does, and one for the inbox rows, as the relay does. Fewer statements cannot produce the same effects.
    pub(super) async fn have_effects(&mut self, site: &Site, events: &[Event]) -> Result<()> {
        let begun = Instant::now();
        for (at, chunk) in events.chunks(CHUNK).enumerate() {
            if at % 10 == 0 {
                let done = at * CHUNK;
                site.progress(&format!(
                    "the same effects without Postroom: {done} of {}",
                    events.len()
                ));
            }
            have_chunk(site, chunk).await?;
        }
        self.events += events.len();
        self.took += begun.elapsed();
        Ok(())
    }

    /// Reads the log by primary key, a thousand rows at a time, decoding every column, from behind `floor` to the end.
    pub(super) async fn read_entries(&mut self, site: &Site, floor: i64) -> Result<()> {
        let mut tx = site.native.begin().await.context("begin a transaction")?;
        let begun = Instant::now();
        let mut after = floor;
        loop {
            let (count, last) = tx.page(READ, after, PAGE).await.context("read a page")?;
            if count == 0 {
                break;
            }
            self.events += count;
            after = last;
        }
        self.took += begun.elapsed();
        tx.commit().await
    }
}

async fn have_chunk(site: &Site, events: &[Event]) -> Result<()> {
    let mut tx = site.native.begin().await.context("begin a transaction")?;
    let mut keys = Vec::with_capacity(events.len());
    for event in events {
        let paid: Paid = event.decode()?;
        let id = event.id.to_string();
        let values = [
            Value::Text(&id),
            Value::Number(paid.account_id),
            Value::Number(paid.amount),
        ];
        tx.execute(EFFECT, &values).await.context("insert an effect")?;
        keys.push(format!("{ROUTE}:{id}"));
    }
    let keys = serde_json::to_string(&keys)?;
    tx.execute(INBOX, &[Value::Text(&keys)])
        .await
        .context("insert inbox rows")?;
    tx.commit().await
}
