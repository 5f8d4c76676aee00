//! `postroom bench backlog`: what a page costs with few and with many delivered rows behind it.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use postroom::Position;
use serde::Serialize;

use crate::figure::{Figure, Outcome, median};
use crate::native::{Native, Sql, Value, sql};
use crate::paid;
use crate::site::Site;

/// Rows of a page.
const PAGE: usize = 1_000;
/// Pages read at each size.
const PAGES: usize = 101;
/// Rows filled in in one transaction.
const BATCH: u64 = 20_000;

const FILL: Sql = sql!("fill");
const FILL_LOCK: Sql = Sql {
    postgres: "",
    sqlite: "",
    mysql: include_str!("../sql/fill_lock.mysql.sql"),
};
const FILL_END: Sql = Sql {
    postgres: "",
    sqlite: "",
    mysql: include_str!("../sql/fill_end.mysql.sql"),
};

/// Measures the cost of a page with few and with many delivered rows behind it.
#[derive(Debug)]
pub struct BacklogBench {
    /// Few rows.
    pub small: u64,
    /// Many rows.
    pub large: u64,
}

/// The measured values.
#[derive(Debug, Serialize)]
pub(super) struct BacklogResult {
    small_ms: f64,
    large_ms: f64,
    ratio: f64,
    #[serde(skip)]
    rows: (u64, u64),
}

impl BacklogBench {
    pub(super) async fn run(&self, site: &Site) -> Result<BacklogResult> {
        ensure!(self.small <= self.large, "--large must not be less than --small");
        fill(site, 0, self.small).await?;
        let small_ms = page_ms(site, "few rows behind").await?;
        // The pages that were read are behind now, too.
        let behind = self.small + u64::try_from(PAGE * PAGES)?;
        fill(site, behind.min(self.large), self.large).await?;
        let large_ms = page_ms(site, "many rows behind").await?;
        Ok(BacklogResult {
            small_ms,
            large_ms,
            ratio: large_ms / small_ms,
            rows: (self.small, self.large),
        })
    }
}

/// Puts rows into the log, from so many to so many, as if they had come and been delivered.
async fn fill(site: &Site, from: u64, to: u64) -> Result<()> {
    let mut filled = from;
    while filled < to {
        site.progress(&format!("filling the log: {filled} of {to}"));
        let batch = i64::try_from(BATCH.min(to - filled))?;
        let before = i64::try_from(filled)?;
        let mut tx = site.native.begin().await.context("begin a transaction")?;
        let is_numbered = matches!(site.native, Native::Mysql(_));
        if is_numbered {
            tx.execute(FILL_LOCK, &[]).await.context("lock the sequencer")?;
        }
        tx.execute(FILL, &[Value::Number(before), Value::Number(batch)])
            .await
            .context("fill the log")?;
        if is_numbered {
            tx.execute(FILL_END, &[Value::Number(batch)])
                .await
                .context("number the rows")?;
        }
        tx.commit().await.context("commit rows")?;
        filled += batch.unsigned_abs();
    }
    Ok(())
}

/// The median time of reading a page of new rows at the head.
async fn page_ms(site: &Site, doing: &str) -> Result<f64> {
    let mut position = settle(site).await?;
    let mut times = Vec::with_capacity(PAGES);
    for number in 0..PAGES {
        site.progress(&format!("{doing}: page {number} of {PAGES}"));
        let events = paid::events(0..PAGE)?;
        let mut tx = site.native.begin().await.context("begin a transaction")?;
        tx.append(&events).await.context("append events")?;
        tx.commit().await.context("commit events")?;
        settle(site).await?;
        let begun = Instant::now();
        let page = site.store.read(position, PAGE).await.context("read a page")?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
        ensure!(
            page.entries.len() == PAGE,
            "a page had {} rows: somebody else writes here",
            page.entries.len()
        );
        position = page.next;
    }
    Ok(median(&mut times))
}

/// Makes readable what has been committed; answers the head.
async fn settle(site: &Site) -> Result<Position> {
    while site.store.pulse().await.context("make new events readable")?.more {}
    Ok(site.store.head().await?)
}

impl BacklogResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let (small, large) = self.rows;
        let figures = vec![
            Figure::new(
                format!("a page with {small} rows behind"),
                format!("{:.2} ms", self.small_ms),
                "median of 101, 1000 rows each",
            ),
            Figure::new(
                format!("a page with {large} rows behind"),
                format!("{:.2} ms", self.large_ms),
                "",
            ),
            Figure::new("ratio", format!("{:.2}", self.ratio), "goal: 1.2"),
        ];
        Outcome::new(self, figures)
    }
}
