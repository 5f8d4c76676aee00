//! The shop's tables. The same SQL runs on PostgreSQL, MySQL and SQLite.

use std::collections::BTreeMap;

use postroom::{Migration, Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order as Sort, Query, SelectStatement};
use sea_orm::{ConnectionTrait, QueryResult};

use crate::domain::{Line, Order, Product};

/// All migrations, oldest first.
pub(crate) fn all() -> [Migration; 1] {
    [Migration {
        number: 1,
        name: "shop",
        up: include_str!("../migrations/0001_shop.up.sql"),
        down: include_str!("../migrations/0001_shop.down.sql"),
    }]
}

/// The metrics of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Metric {
    Likes,
    Sales,
    Views,
}

impl Metric {
    fn name(self) -> &'static str {
        match self {
            Self::Likes => "likes",
            Self::Sales => "sales",
            Self::Views => "views",
        }
    }
}

/// The metric values of one product.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metrics {
    pub(crate) product_id: i64,
    /// Current number of likes.
    pub(crate) likes: i64,
    /// Number of sold units.
    pub(crate) sales: i64,
    /// Number of views.
    pub(crate) views: i64,
}

/// The next number of this kind. The row stays locked until the transaction ends, so concurrent callers wait.
pub(crate) async fn next_id(tx: &Tx, kind: &str) -> Result<i64> {
    let mut update = Query::update();
    update
        .table("commerce_sequence")
        .value("last_id", Expr::col("last_id").add(1))
        .and_where(Expr::col("name").eq(kind));
    tx.execute(&update).await?;
    last_id(tx, kind).await
}

/// The last number of this kind that was assigned.
pub(crate) async fn last_id(tx: &Tx, kind: &str) -> Result<i64> {
    let mut select = Query::select();
    select
        .column("last_id")
        .from("commerce_sequence")
        .and_where(Expr::col("name").eq(kind));
    let row = tx.query_one(&select).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get("", "last_id"))?)
}

pub(crate) async fn insert_product(tx: &Tx, product: &Product) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("commerce_product")
        .columns(["product_id", "name", "price", "stock"])
        .values_panic([
            product.product_id.into(),
            product.name.as_str().into(),
            product.price.into(),
            product.stock.into(),
        ]);
    tx.execute(&insert).await?;
    Ok(())
}

/// Reads the existing products of `ids`, sorted by number.
pub(crate) async fn products(tx: &Tx, ids: &[i64]) -> Result<Vec<Product>> {
    let mut select = select_products();
    select.and_where(Expr::col("product_id").is_in(ids.iter().copied()));
    read_products(tx, &select).await
}

/// Like [`products`], with row locks until the transaction ends. Rows are locked in ascending order, so two payments cannot
/// deadlock.
pub(crate) async fn products_to_sell(tx: &Tx, ids: &[i64]) -> Result<Vec<Product>> {
    let mut select = select_products();
    select
        .and_where(Expr::col("product_id").is_in(ids.iter().copied()))
        .lock_exclusive();
    read_products(tx, &select).await
}

/// Products with a number greater than `after`.
pub(crate) async fn products_after(tx: &Tx, after: i64, limit: u64) -> Result<Vec<Product>> {
    let mut select = select_products();
    select.and_where(Expr::col("product_id").gt(after)).limit(limit);
    read_products(tx, &select).await
}

fn select_products() -> SelectStatement {
    let mut select = Query::select();
    select
        .columns(["product_id", "name", "price", "stock"])
        .from("commerce_product")
        .order_by("product_id", Sort::Asc);
    select
}

async fn read_products(tx: &Tx, select: &SelectStatement) -> Result<Vec<Product>> {
    let read = |row: &QueryResult| {
        Ok(Product {
            product_id: row.try_get("", "product_id")?,
            name: row.try_get("", "name")?,
            price: row.try_get("", "price")?,
            stock: row.try_get("", "stock")?,
        })
    };
    tx.query_all(select).await?.iter().map(read).collect()
}

pub(crate) async fn set_stock(tx: &Tx, product: &Product) -> Result<()> {
    let mut update = Query::update();
    update
        .table("commerce_product")
        .value("stock", product.stock)
        .and_where(Expr::col("product_id").eq(product.product_id));
    tx.execute(&update).await?;
    Ok(())
}

/// Returns a conflict error when the like exists.
pub(crate) async fn insert_like(tx: &Tx, product_id: i64, user_id: i64) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("commerce_like")
        .columns(["product_id", "user_id"])
        .values_panic([product_id.into(), user_id.into()]);
    tx.execute(&insert).await?;
    Ok(())
}

/// Returns whether the like existed.
pub(crate) async fn delete_like(tx: &Tx, product_id: i64, user_id: i64) -> Result<bool> {
    let mut delete = Query::delete();
    delete
        .from_table("commerce_like")
        .and_where(Expr::col("product_id").eq(product_id))
        .and_where(Expr::col("user_id").eq(user_id));
    Ok(tx.execute(&delete).await?.rows_affected() > 0)
}

pub(crate) async fn insert_order(tx: &Tx, order: &Order) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("commerce_order")
        .columns(["order_id", "user_id"])
        .values_panic([order.order_id.into(), order.user_id.into()]);
    tx.execute(&insert).await?;
    let mut insert = Query::insert();
    insert
        .into_table("commerce_order_line")
        .columns(["order_id", "product_id", "price", "quantity"]);
    for line in &order.lines {
        insert.values_panic([
            order.order_id.into(),
            line.product_id.into(),
            line.price.into(),
            line.quantity.into(),
        ]);
    }
    tx.execute(&insert).await?;
    Ok(())
}

/// Reads an order with its lines.
pub(crate) async fn order(tx: &Tx, order_id: i64) -> Result<Option<Order>> {
    read_order(tx, order_id, &select_order(order_id)).await
}

/// Like [`order`], with a row lock until the transaction ends, so only one transaction can pay it.
pub(crate) async fn order_to_pay(tx: &Tx, order_id: i64) -> Result<Option<Order>> {
    let mut select = select_order(order_id);
    select.lock_exclusive();
    read_order(tx, order_id, &select).await
}

fn select_order(order_id: i64) -> SelectStatement {
    let mut select = Query::select();
    select
        .columns(["user_id", "payment_id"])
        .from("commerce_order")
        .and_where(Expr::col("order_id").eq(order_id));
    select
}

async fn read_order(tx: &Tx, order_id: i64, select: &SelectStatement) -> Result<Option<Order>> {
    let Some(row) = tx.query_one(select).await? else {
        return Ok(None);
    };
    Ok(Some(Order {
        order_id,
        user_id: row.try_get("", "user_id")?,
        payment_id: row.try_get("", "payment_id")?,
        lines: lines(tx, order_id).await?,
    }))
}

async fn lines(tx: &Tx, order_id: i64) -> Result<Vec<Line>> {
    let mut select = Query::select();
    select
        .columns(["product_id", "price", "quantity"])
        .from("commerce_order_line")
        .and_where(Expr::col("order_id").eq(order_id))
        .order_by("product_id", Sort::Asc);
    let read = |row: &QueryResult| {
        Ok(Line {
            product_id: row.try_get("", "product_id")?,
            price: row.try_get("", "price")?,
            quantity: row.try_get("", "quantity")?,
        })
    };
    tx.query_all(&select).await?.iter().map(read).collect()
}

pub(crate) async fn set_paid(tx: &Tx, order: &Order) -> Result<()> {
    let mut update = Query::update();
    update
        .table("commerce_order")
        .value("payment_id", order.payment_id)
        .and_where(Expr::col("order_id").eq(order.order_id));
    tx.execute(&update).await?;
    Ok(())
}

/// Adds to the metric of each product, in ascending order of the products.
pub(crate) async fn add(tx: &Tx, metric: Metric, more: &BTreeMap<i64, i64>) -> Result<()> {
    for (product_id, count) in more {
        let sum = Expr::col(("commerce_product_metric", "total")).add(*count);
        let mut insert = Query::insert();
        insert
            .into_table("commerce_product_metric")
            .columns(["product_id", "metric", "total"])
            .values_panic([(*product_id).into(), metric.name().into(), (*count).into()])
            .on_conflict(
                OnConflict::columns(["product_id", "metric"])
                    .value("total", sum)
                    .to_owned(),
            );
        tx.execute(&insert).await?;
    }
    Ok(())
}

/// Counts the current likes of these products. The metric rows are locked before the count, so of two concurrent counts the
/// later one sees at least the likes that the earlier one saw.
pub(crate) async fn recount_likes(tx: &Tx, product_ids: impl Iterator<Item = i64>) -> Result<()> {
    let mut likes: BTreeMap<i64, i64> = product_ids.map(|product_id| (product_id, 0)).collect();
    add(tx, Metric::Likes, &likes).await?;
    let mut select = Query::select();
    select
        .column("product_id")
        .expr_as(Expr::col("user_id").count(), "likes")
        .from("commerce_like")
        .and_where(Expr::col("product_id").is_in(likes.keys().copied()))
        .group_by_col("product_id");
    for row in tx.query_all(&select).await? {
        likes.insert(row.try_get("", "product_id")?, row.try_get("", "likes")?);
    }
    for (product_id, count) in likes {
        let mut update = Query::update();
        update
            .table("commerce_product_metric")
            .value("total", count)
            .and_where(Expr::col("product_id").eq(product_id))
            .and_where(Expr::col("metric").eq(Metric::Likes.name()));
        tx.execute(&update).await?;
    }
    Ok(())
}

pub(crate) async fn metrics(tx: &Tx, product_id: i64) -> Result<Metrics> {
    let mut select = Query::select();
    select
        .columns(["metric", "total"])
        .from("commerce_product_metric")
        .and_where(Expr::col("product_id").eq(product_id));
    let mut totals = BTreeMap::new();
    for row in tx.query_all(&select).await? {
        totals.insert(row.try_get::<String>("", "metric")?, row.try_get::<i64>("", "total")?);
    }
    let of = |metric: Metric| totals.get(metric.name()).copied().unwrap_or_default();
    Ok(Metrics {
        product_id,
        likes: of(Metric::Likes),
        sales: of(Metric::Sales),
        views: of(Metric::Views),
    })
}
