//! Recorded events of a range of time, from the outbox and the archive: to derive something from them again.

use std::collections::BTreeSet;

use sea_orm::sea_query::{Cond, Expr, ExprTrait as _, Order, Query};
use sea_orm::{ConnectionTrait as _, DatabaseConnection, QueryResult};
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::event::entry::Entry;
use crate::store::bounded::{self, Bounded};
use crate::store::db_clock::stamp;
use crate::store::table::{self, Table, read_entry};
use crate::store::tx::Tx;

/// About how many bytes one page holds.
const PAGE_BYTES: usize = 4 << 20;
/// Numbers that one page looks at. Between two entries of the wanted types there may be millions of others, which one statement would
/// read for minutes.
const SPAN: i64 = 100_000;
/// Retention moves entries from the first to the second, so they are read in this order: none is missed in between.
const TABLES: [Table; 2] = [Table::Outbox, Table::Audit];

/// Events that were recorded in a range of time.
#[derive(Clone, Debug, Default)]
pub struct History<'a> {
    /// Of these types; empty means any.
    pub types: &'a [&'a str],
    /// Recorded at or after this time.
    pub from: Option<OffsetDateTime>,
    /// Recorded before this time.
    pub until: Option<OffsetDateTime>,
}

/// Some events of a range, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// The events.
    pub entries: Vec<Entry>,
    /// The next page begins behind this number.
    pub next: i64,
}

impl History<'_> {
    /// The lowest and the highest number in the range; `None` if nothing of it is held any more. This may read the whole log, and
    /// writes nothing.
    pub async fn bounds(&self, db: &DatabaseConnection) -> Result<Option<(i64, i64)>> {
        let tx = table::look(db).await?;
        let mut bounds: Option<(i64, i64)> = None;
        for table in TABLES {
            let mut select = Query::select();
            select
                .expr_as(Expr::col("id").min(), "first")
                .expr_as(Expr::col("id").max(), "last")
                .from(table::named(&tx, table))
                .cond_where(self.condition(&tx));
            let row = tx.query_one(&select).await;
            let row = row.map_err(|source| Error::db("look for recorded events", source))?;
            let number = |column: &str| {
                row.as_ref()
                    .map_or(Ok(None), |row| row.try_get::<Option<i64>>("", column))
            };
            if let Some((first, last)) = number("first")?.zip(number("last")?) {
                let (low, high) = bounds.unwrap_or((first, last));
                bounds = Some((Ord::min(low, first), Ord::max(high, last)));
            }
        }
        tx.commit().await?;
        Ok(bounds)
    }

    /// The next events with a number above `after` and up to `last`, at most `limit` and a few megabytes of them. A page may be empty
    /// before the last one. This writes nothing.
    pub async fn page(&self, db: &DatabaseConnection, (after, last): (i64, i64), limit: usize) -> Result<HistoryPage> {
        let tx = table::look(db).await?;
        let end = Ord::min(last, after.saturating_add(SPAN));
        let mut ids = BTreeSet::new();
        for table in TABLES {
            ids.extend(self.ids(&tx, table, (after, end), limit).await?);
        }
        let ids: Vec<i64> = ids.into_iter().take(limit).collect();
        let mut next = match ids.last().filter(|_| ids.len() == limit) {
            Some(full) => *full,
            None => before_next(&tx, (end, last)).await?,
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(ids.len());
        for table in TABLES {
            let is_read = |id: &&i64| entries.iter().any(|entry| entry.id == **id);
            let wanted: Vec<i64> = ids.iter().filter(|id| !is_read(id)).copied().collect();
            let Bounded { rows, is_cut } = read(&tx, table, &wanted).await?;
            if let Some(cut) = rows.last().filter(|_| is_cut) {
                next = Ord::min(next, cut.id);
            }
            entries.extend(rows);
        }
        tx.commit().await?;
        entries.sort_by_key(|entry| entry.id);
        entries.retain(|entry| entry.id <= next);
        Ok(HistoryPage { entries, next })
    }

    async fn ids(&self, tx: &Tx, table: Table, (after, last): (i64, i64), limit: usize) -> Result<Vec<i64>> {
        let mut select = Query::select();
        select
            .column("id")
            .from(table::named(tx, table))
            .cond_where(self.condition(tx))
            .and_where(Expr::col("id").gt(after))
            .and_where(Expr::col("id").lte(last))
            .order_by("id", Order::Asc)
            .limit(limit as u64);
        let rows = tx.query_all(&select).await;
        let rows = rows.map_err(|source| Error::db("look for recorded events", source))?;
        let ids = rows.iter().map(|row| row.try_get("", "id"));
        Ok(ids.collect::<Result<_, _>>()?)
    }

    fn condition(&self, tx: &Tx) -> Cond {
        let backend = tx.get_database_backend();
        let types = (!self.types.is_empty()).then(|| Expr::col("event_type").is_in(self.types.iter().copied()));
        let at = |time| Expr::val(stamp(backend, time));
        Cond::all()
            .add_option(types)
            .add_option(self.from.map(|from| Expr::col("created_at").gte(at(from))))
            .add_option(self.until.map(|until| Expr::col("created_at").lt(at(until))))
    }
}

/// The number before the next entry above `end`, whatever its type; `last` if there is none up to it.
async fn before_next(tx: &Tx, (end, last): (i64, i64)) -> Result<i64> {
    let mut before = last;
    for table in TABLES {
        let mut select = Query::select();
        select
            .expr_as(Expr::col("id").min(), "next")
            .from(table::named(tx, table))
            .and_where(Expr::col("id").gt(end))
            .and_where(Expr::col("id").lte(last));
        let row = tx.query_one(&select).await;
        let row = row.map_err(|source| Error::db("look for recorded events", source))?;
        let next: Option<i64> = row.map_or(Ok(None), |row| row.try_get("", "next"))?;
        before = next.map_or(before, |next| Ord::min(before, next - 1));
    }
    Ok(before)
}

async fn read(tx: &Tx, table: Table, ids: &[i64]) -> Result<Bounded<Entry>> {
    let backend = tx.get_database_backend();
    let select = |ids: &[i64]| {
        let mut select = table::select_events(backend);
        select
            .columns(["id", "created_at"])
            .from(table::named(tx, table))
            .and_where(Expr::col("id").is_in(ids.iter().copied()))
            .order_by("id", Order::Asc);
        select
    };
    let read = |row: &QueryResult| {
        let entry = read_entry(row, backend, "id")?;
        let weight = entry.weight();
        Ok((entry, weight))
    };
    bounded::read(tx, ids, PAGE_BYTES, select, read).await
}
