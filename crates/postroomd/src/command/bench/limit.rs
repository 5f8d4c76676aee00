//! What the database can do at best: the same work without Postroom, in the same run.
//!
//! Both limits are one plain loop on one connection through the driver itself: no leases, no cursor, no routing, no order to
//! keep, nothing to look up. A relay cannot be faster than that on one line; how near it comes is what the ratio tells.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use postroom::Event;

use crate::command::bench::native::{Sql, Value, sql};
use crate::command::bench::paid::Paid;
use crate::command::bench::progress;
use crate::command::bench::receiver::{EFFECT, ROUTE};
use crate::command::bench::site::Site;

/// Events that a subscriber handles in one transaction at most.
const CHUNK: usize = 100;
/// Entries that a relay reads at once at most.
const PAGE: i64 = 1_000;
const INBOX: Sql = sql!("inbox");
const READ: Sql = sql!("page");

/// The effects of these events and a row in an inbox for each, a hundred to a transaction: one insert per effect, as
/// the handler does, and one for the inbox rows, as the relay does. Nobody could have the same effects with less.
pub(super) async fn effects_per_s(site: &Site, events: &[Event]) -> Result<f64> {
    let begun = Instant::now();
    for (at, chunk) in events.chunks(CHUNK).enumerate() {
        if at % 10 == 0 {
            progress(&format!(
                "the same effects without Postroom: {} of {}",
                at * CHUNK,
                events.len()
            ));
        }
        let mut tx = site.native.begin().await.context("begin a transaction")?;
        let mut keys = Vec::with_capacity(chunk.len());
        for event in chunk {
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
        tx.commit().await.context("commit effects")?;
    }
    Ok(events.len() as f64 / begun.elapsed().as_secs_f64())
}

/// Reading the log by primary key, a thousand rows at a time, with every column decoded, from behind `floor` to the end.
pub(super) async fn entries_per_s(site: &Site, floor: i64) -> Result<f64> {
    let mut tx = site.native.begin().await.context("begin a transaction")?;
    let begun = Instant::now();
    let (mut read, mut after) = (0, floor);
    loop {
        let (count, last) = tx.page(READ, after, PAGE).await.context("read a page")?;
        if count == 0 {
            break;
        }
        (read, after) = (read + count, last);
    }
    let took = begun.elapsed();
    tx.commit().await?;
    ensure!(read > 0, "there is nothing to read");
    Ok(read as f64 / took.as_secs_f64())
}
