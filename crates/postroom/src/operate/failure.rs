//! Counts of failures, by route and type.

use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Query};

use super::Carrier;
use crate::error::{Error, Result};
use crate::state::dead::LetterState;
use crate::store::outbox::Inspect;
use crate::store::table::{self, Table};
use crate::store::tx::Tx;

/// How many entries have failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Those to be tried again.
    pub retrying: u64,
    /// How often those were tried in vain, all together.
    pub attempts: u64,
    /// Dead letters that nobody has decided on.
    pub dead: u64,
}

/// Counts what has failed of these types on these routes. An entry that failed on two routes counts twice. This
/// writes nothing.
pub async fn failures(store: &dyn Inspect, types: &[&str], carriers: &[Carrier]) -> Result<Failures> {
    let tx = table::look(store.db()).await?;
    let retrying = count(&tx, (Table::Parked, "retry"), types, carriers).await?;
    let dead = count(&tx, (Table::Failed, LetterState::Dead.name()), types, carriers).await?;
    tx.commit().await?;
    Ok(Failures {
        retrying: retrying.iter().map(|(_, entries)| entries).sum(),
        attempts: retrying.iter().map(|(attempts, entries)| attempts * entries).sum(),
        dead: dead.iter().map(|(_, entries)| entries).sum(),
    })
}

/// How many entries in this state have been tried how often: attempts, entries.
async fn count(
    tx: &Tx,
    (table, state): (Table, &str),
    types: &[&str],
    carriers: &[Carrier],
) -> Result<Vec<(u64, u64)>> {
    let routes = carriers.iter().map(|carrier| carrier.route.as_str());
    let mut select = Query::select();
    select
        .column("attempts")
        .expr_as(Expr::cust("count(*)"), "entries")
        .from(table::named(tx, table))
        .and_where(Expr::col("state").eq(state))
        .and_where(Expr::col("route").is_in(routes))
        .and_where(Expr::col("event_type").is_in(types.iter().copied()))
        .group_by_columns(["attempts"]);
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("count what failed", source))?;
    rows.iter()
        .map(|row| {
            let attempts: i32 = row.try_get("", "attempts")?;
            let entries: i64 = row.try_get("", "entries")?;
            Ok((
                u64::try_from(attempts).unwrap_or(0),
                u64::try_from(entries).unwrap_or(0),
            ))
        })
        .collect()
}
