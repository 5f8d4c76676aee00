//! The table of effects: one row for each effect, in the order in which they were written.

use std::collections::HashMap;

use postroom::{Error, Result, table};
use sea_orm::sea_query::{Alias, ColumnDef, Expr, ExprTrait, InsertStatement, Order, Query, Table};
use sea_orm::{ConnectionTrait, DatabaseConnection};

use crate::history::History;
use crate::workload::Change;

const EFFECT: &str = "verify_received";

/// Effects read in one statement.
const PAGE: u64 = 20_000;

/// Makes the table, if it is not there.
pub(crate) async fn create(db: &DatabaseConnection) -> Result<()> {
    let mut create = Table::create();
    create
        .table(Alias::new(EFFECT))
        .if_not_exists()
        .col(
            ColumnDef::new(Alias::new("seq"))
                .big_integer()
                .not_null()
                .auto_increment()
                .primary_key(),
        )
        .col(ColumnDef::new(Alias::new("who")).string_len(20).not_null())
        .col(ColumnDef::new(Alias::new("key")).string_len(100).not_null())
        .col(ColumnDef::new(Alias::new("ver")).big_integer().not_null());
    let tx = table::begin(db).await?;
    tx.execute(&create)
        .await
        .map_err(|source| Error::db("make the table of effects", source))?;
    tx.commit().await
}

/// Drops the table.
pub(crate) async fn remove(db: &DatabaseConnection) -> Result<()> {
    let mut drop = Table::drop();
    drop.table(Alias::new(EFFECT)).if_exists();
    db.execute(&drop)
        .await
        .map_err(|source| Error::db("drop the table of effects", source))?;
    Ok(())
}

/// Records one effect of each change.
pub(crate) async fn record(db: &impl ConnectionTrait, who: &str, changes: &[Change]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    db.execute(&inserting(who, changes))
        .await
        .map_err(|source| Error::db("record effects", source))?;
    Ok(())
}

fn inserting(who: &str, changes: &[Change]) -> InsertStatement {
    let mut insert = Query::insert();
    insert
        .into_table(Alias::new(EFFECT))
        .columns(["who", "key", "ver"].map(Alias::new));
    for change in changes {
        insert.values_panic([who.into(), change.key.as_str().into(), i64::from(change.ver).into()]);
    }
    insert
}

/// How many effects there are of keys with this prefix.
pub(crate) async fn count(db: &DatabaseConnection, prefix: &str) -> Result<u64> {
    let mut select = Query::select();
    select
        .expr_as(Expr::cust("count(*)"), "effects")
        .from(Alias::new(EFFECT))
        .and_where(Expr::col(Alias::new("key")).like(format!("{prefix}%")));
    let row = db
        .query_one(&select)
        .await
        .map_err(|source| Error::db("count effects", source))?;
    let effects: i64 = row.map_or(Ok(0), |row| row.try_get("", "effects"))?;
    Ok(u64::try_from(effects).unwrap_or(0))
}

/// How many effects each has had on keys with this prefix.
pub(crate) async fn count_each(db: &DatabaseConnection, prefix: &str) -> Result<HashMap<String, u64>> {
    let mut select = Query::select();
    select
        .column(Alias::new("who"))
        .expr_as(Expr::cust("count(*)"), "effects")
        .from(Alias::new(EFFECT))
        .and_where(Expr::col(Alias::new("key")).like(format!("{prefix}%")))
        .group_by_col(Alias::new("who"));
    let rows = db
        .query_all(&select)
        .await
        .map_err(|source| Error::db("count effects", source))?;
    rows.iter()
        .map(|row| {
            let effects: i64 = row.try_get("", "effects")?;
            Ok((row.try_get("", "who")?, u64::try_from(effects).unwrap_or(0)))
        })
        .collect()
}

/// Whether this change has had its effect.
pub(crate) async fn has(db: &DatabaseConnection, who: &str, change: &Change) -> Result<bool> {
    let mut select = Query::select();
    select
        .column(Alias::new("seq"))
        .from(Alias::new(EFFECT))
        .and_where(Expr::col(Alias::new("who")).eq(who))
        .and_where(Expr::col(Alias::new("key")).eq(change.key.as_str()))
        .and_where(Expr::col(Alias::new("ver")).eq(i64::from(change.ver)))
        .limit(1);
    let row = db
        .query_one(&select)
        .await
        .map_err(|source| Error::db("look for an effect", source))?;
    Ok(row.is_some())
}

/// All effects on keys with this prefix, by who had them, each in the order in which they were recorded.
pub(crate) async fn histories(db: &DatabaseConnection, prefix: &str) -> Result<HashMap<String, History>> {
    let (mut histories, mut seq) = (HashMap::<String, History>::new(), 0_i64);
    loop {
        let mut select = Query::select();
        select
            .columns(["seq", "who", "key", "ver"].map(Alias::new))
            .from(Alias::new(EFFECT))
            .and_where(Expr::col(Alias::new("seq")).gt(seq))
            .order_by(Alias::new("seq"), Order::Asc)
            .limit(PAGE);
        let rows = db
            .query_all(&select)
            .await
            .map_err(|source| Error::db("read effects", source))?;
        if rows.is_empty() {
            return Ok(histories);
        }
        for row in &rows {
            let key: String = row.try_get("", "key")?;
            seq = row.try_get("", "seq")?;
            if key.starts_with(prefix) {
                let version: i64 = row.try_get("", "ver")?;
                let history = histories.entry(row.try_get("", "who")?).or_default();
                history.record(&key, u32::try_from(version).unwrap_or(u32::MAX));
            }
        }
    }
}
