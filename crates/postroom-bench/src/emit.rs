//! `postroom bench emit`: what an emit costs the caller's transaction.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use postroom::Event;
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Alias, Query};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::figure::{Figure, Outcome, median};
use crate::native::{Native, Sql, Value, sql};
use crate::paid::{ACCOUNTS, NOTE, Paid};
use crate::site::Site;

const LOOK: Sql = sql!("look");
const PAY: Sql = sql!("pay");
const ORDER: Sql = sql!("order");
/// Rounds of each kind; they take turns, so that whatever else the machine does meets both.
const ROUNDS: u32 = 6;

/// Measures the cost of an emit in the caller's transaction.
#[derive(Debug)]
pub struct EmitBench {
    /// Transactions side by side.
    pub connections: u16,
    /// Duration of all rounds together.
    pub seconds: u32,
}

/// The measured values.
#[derive(Debug, Serialize)]
pub(super) struct EmitResult {
    plain_tx_per_s: f64,
    emit_tx_per_s: f64,
    cost: f64,
}

impl EmitBench {
    pub(super) async fn run(&self, site: &Site) -> Result<EmitResult> {
        open_accounts(site).await?;
        let round = Duration::from_secs(self.seconds.into()) / (ROUNDS * 2);
        for does_emit in [false, true] {
            site.progress("warming up");
            self.round(site, does_emit, round / 2).await?;
        }
        let (mut plain, mut emit) = (Vec::new(), Vec::new());
        for number in 1..=ROUNDS {
            site.progress(&format!("round {number} of {ROUNDS}"));
            plain.push(self.round(site, false, round).await?);
            emit.push(self.round(site, true, round).await?);
        }
        let (plain_tx_per_s, emit_tx_per_s) = (median(&mut plain), median(&mut emit));
        Ok(EmitResult {
            plain_tx_per_s,
            emit_tx_per_s,
            cost: 1.0 - emit_tx_per_s / plain_tx_per_s,
        })
    }

    /// Transactions per second of all connections together.
    async fn round(&self, site: &Site, does_emit: bool, length: Duration) -> Result<f64> {
        let begun = Instant::now();
        let mut callers = JoinSet::new();
        for number in 0..usize::from(self.connections) {
            let caller = Caller {
                native: site.native.clone(),
                number,
                callers: self.connections.into(),
                does_emit,
            };
            callers.spawn(caller.work(begun + length));
        }
        let mut committed = 0;
        while let Some(done) = callers.join_next().await {
            committed += done.context("run a caller")??;
        }
        Ok(f64::from(committed) / begun.elapsed().as_secs_f64())
    }
}

/// An application's connection.
struct Caller {
    native: Native,
    number: usize,
    callers: usize,
    does_emit: bool,
}

impl Caller {
    async fn work(self, until: Instant) -> Result<u32> {
        let mut committed = 0;
        let mut n = self.number;
        while Instant::now() < until {
            self.transact(n).await?;
            committed += 1;
            n += self.callers; // callers do not meet on an account
        }
        Ok(committed)
    }

    /// One order: reads the account, takes the money, inserts two lines, and emits if it is asked to.
    async fn transact(&self, n: usize) -> Result<()> {
        let paid = Paid::nth(n);
        let (account, amount) = (Value::Number(paid.account_id), Value::Number(paid.amount));
        let mut tx = self.native.begin().await.context("begin a transaction")?;
        tx.execute(LOOK, &[account]).await.context("look at an account")?;
        tx.execute(PAY, &[amount, account]).await.context("change an account")?;
        for _line in 0..2 {
            let values = [account, amount, Value::Text(NOTE)];
            tx.execute(ORDER, &values).await.context("record an order")?;
        }
        if self.does_emit {
            tx.append(&[Event::of(&paid)?]).await.context("emit")?;
        }
        tx.commit().await.context("commit")
    }
}

async fn open_accounts(site: &Site) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table(Alias::new("bench_account"))
        .columns(["id", "balance"]);
    for id in 0..i64::try_from(ACCOUNTS)? {
        insert.values_panic([id.into(), 1_000_000_i64.into()]);
    }
    site.store.db().execute(&insert).await.context("open accounts")?;
    Ok(())
}

impl EmitResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let figures = vec![
            Figure::new(
                "an order",
                format!("{:.0} tx/s", self.plain_tx_per_s),
                "select, update, two inserts",
            ),
            Figure::new("the same + emit", format!("{:.0} tx/s", self.emit_tx_per_s), ""),
            Figure::new(
                "an emit costs",
                format!("{:.1} %", self.cost * 100.0),
                "of the throughput; goal: 15 %",
            ),
        ];
        Outcome::new(self, figures)
    }
}
