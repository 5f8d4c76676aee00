//! Reads and writes single rows of the contexts' tables, in SQL for all three databases.

use postroom::{Result, Tx};
use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, LockType, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};
use time::OffsetDateTime;

use crate::door::Part;

/// A column and its value.
pub(crate) type Cell = (&'static str, Expr);

pub(crate) fn cell(column: &'static str, value: impl Into<Expr>) -> Cell {
    (column, value.into())
}

pub(crate) async fn insert(tx: &Tx, table: &'static str, row: Vec<Cell>) -> Result<()> {
    let (columns, values): (Vec<_>, Vec<_>) = row.into_iter().unzip();
    let mut insert = Query::insert();
    insert.into_table(table).columns(columns).values_panic(values);
    tx.execute(&insert).await?;
    Ok(())
}

/// Updates the rows that match the condition. Returns whether there were any.
pub(crate) async fn change(tx: &Tx, table: &'static str, cells: Vec<Cell>, which: Expr) -> Result<bool> {
    let mut update = Query::update();
    update.table(table).values(cells).and_where(which);
    Ok(tx.execute(&update).await?.rows_affected() > 0)
}

/// Reads a row, if it exists.
pub(crate) async fn find(
    tx: &Tx,
    table: &'static str,
    (key, value): (&'static str, &str),
) -> Result<Option<QueryResult>> {
    Ok(tx.query_one(&select(table, key, value)).await?)
}

/// Reads a row and locks it until the transaction ends. (SQLite has only one writing transaction at a time.)
pub(crate) async fn lock(
    tx: &Tx,
    table: &'static str,
    (key, value): (&'static str, &str),
) -> Result<Option<QueryResult>> {
    Ok(tx.query_one(select(table, key, value).lock(LockType::Update)).await?)
}

/// Reads all matching rows, sorted.
pub(crate) async fn list(
    tx: &Tx,
    table: &'static str,
    (key, value): (&'static str, &str),
    sorted_by: &'static str,
) -> Result<Vec<QueryResult>> {
    Ok(tx
        .query_all(select(table, key, value).order_by(sorted_by, Order::Asc))
        .await?)
}

/// Reads one page of the rows that match the condition, sorted by an id.
pub(crate) async fn page(
    tx: &Tx,
    table: &'static str,
    which: Expr,
    (sorted_by, part): (&'static str, &Part),
) -> Result<Vec<QueryResult>> {
    let mut select = Query::select();
    select
        .column(Asterisk)
        .from(table)
        .and_where(which)
        .and_where(Expr::col(sorted_by).gt(part.after.as_str()))
        .order_by(sorted_by, Order::Asc)
        .limit(part.limit());
    Ok(tx.query_all(&select).await?)
}

fn select(table: &'static str, key: &'static str, value: &str) -> SelectStatement {
    let mut select = Query::select();
    select.column(Asterisk).from(table).and_where(Expr::col(key).eq(value));
    select
}

/// Converts a time to milliseconds since 1970, the format in all databases.
pub(crate) fn to_ms(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Converts the value of [`to_ms`] back.
pub(crate) fn from_ms(ms: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
