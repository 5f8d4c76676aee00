//! The tables of the service. The same SQL runs on PostgreSQL, MySQL and SQLite.

use postroom::{Migration, Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Func, LikeExpr, Order, Query};
use serde::Serialize;

use crate::events::{GroupJoined, ReviewCreated};

/// All migrations, oldest first.
pub(crate) fn all() -> [Migration; 1] {
    [Migration {
        number: 1,
        name: "tasteam",
        up: include_str!("../migrations/0001_tasteam.up.sql"),
        down: include_str!("../migrations/0001_tasteam.down.sql"),
    }]
}

/// Something with a number and a name: a restaurant or a group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    Restaurant,
    Group,
}

impl Named {
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Restaurant => ("restaurant", "tasteam_restaurant", "restaurant_id"),
            Self::Group => ("group", "tasteam_group", "group_id"),
        }
    }
}

/// A restaurant or a group.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) id: i64,
    pub(crate) name: String,
}

/// The next number of this kind. The row stays locked until the transaction ends, so concurrent callers wait.
pub(crate) async fn next_id(tx: &Tx, kind: &str) -> Result<i64> {
    let mut update = Query::update();
    update
        .table("tasteam_sequence")
        .value("last_id", Expr::col("last_id").add(1))
        .and_where(Expr::col("name").eq(kind));
    tx.execute(&update).await?;
    let mut select = Query::select();
    select
        .column("last_id")
        .from("tasteam_sequence")
        .and_where(Expr::col("name").eq(kind));
    let row = tx.query_one(&select).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get("", "last_id"))?)
}

pub(crate) async fn insert_named(tx: &Tx, named: Named, name: &str) -> Result<i64> {
    let (kind, table, id_column) = named.names();
    let id = next_id(tx, kind).await?;
    let mut insert = Query::insert();
    insert
        .into_table(table)
        .columns([id_column, "name"])
        .values_panic([id.into(), name.into()]);
    tx.execute(&insert).await?;
    Ok(id)
}

pub(crate) async fn exists(tx: &Tx, named: Named, id: i64) -> Result<bool> {
    let (_, table, id_column) = named.names();
    let mut select = Query::select();
    select.column("name").from(table).and_where(Expr::col(id_column).eq(id));
    Ok(tx.query_one(&select).await?.is_some())
}

/// Those whose name contains the text, at most `max` of them.
pub(crate) async fn search(tx: &Tx, named: Named, text: &str, max: u64) -> Result<Vec<Found>> {
    let (_, table, id_column) = named.names();
    let escaped: String = text
        .to_lowercase()
        .chars()
        .flat_map(|c| {
            ['!']
                .into_iter()
                .filter(move |_| matches!(c, '%' | '_' | '!'))
                .chain([c])
        })
        .collect();
    let mut select = Query::select();
    select
        .columns([id_column, "name"])
        .from(table)
        .and_where(Expr::expr(Func::lower(Expr::col("name"))).like(LikeExpr::new(format!("%{escaped}%")).escape('!')))
        .order_by(id_column, Order::Asc)
        .limit(max);
    let rows = tx.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            Ok(Found {
                id: row.try_get("", id_column)?,
                name: row.try_get("", "name")?,
            })
        })
        .collect()
}

/// Adds a member to a group; whether it was not there before.
pub(crate) async fn join(tx: &Tx, joined: &GroupJoined, join_type: &str) -> Result<bool> {
    let mut select = Query::select();
    select
        .column("join_type")
        .from("tasteam_group_member")
        .and_where(Expr::col("group_id").eq(joined.group_id))
        .and_where(Expr::col("member_id").eq(joined.member_id));
    if tx.query_one(&select).await?.is_some() {
        return Ok(false);
    }
    let joined_at_ms = i64::try_from(joined.joined_at.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
    let mut insert = Query::insert();
    insert
        .into_table("tasteam_group_member")
        .columns(["group_id", "member_id", "join_type", "joined_at_ms"])
        .values_panic([
            joined.group_id.into(),
            joined.member_id.into(),
            join_type.into(),
            joined_at_ms.into(),
        ]);
    tx.execute(&insert).await?;
    Ok(true)
}

pub(crate) async fn insert_review(tx: &Tx, review: &ReviewCreated, content: &str) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("tasteam_review")
        .columns([
            "review_id",
            "restaurant_id",
            "group_id",
            "subgroup_id",
            "member_id",
            "content",
            "has_image",
        ])
        .values_panic([
            review.review_id.into(),
            review.restaurant_id.into(),
            review.group_id.into(),
            review.subgroup_id.into(),
            review.member_id.into(),
            content.into(),
            i64::from(review.has_image).into(),
        ]);
    tx.execute(&insert).await?;
    Ok(())
}
