//! The shop's tables. The same SQL runs on PostgreSQL, MySQL and SQLite.

use postroom::{Migration, Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};

use crate::domain::Order;

/// All migrations, oldest first.
pub(crate) fn all() -> [Migration; 1] {
    [Migration {
        number: 1,
        name: "shop",
        up: include_str!("../migrations/0001_shop.up.sql"),
        down: include_str!("../migrations/0001_shop.down.sql"),
    }]
}

/// The progress of an order.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Progress {
    pub(crate) order_id: String,
    /// The text of the receipt; `None` until it is written.
    pub(crate) receipt: Option<String>,
    /// Whether the courier has accepted the parcel.
    pub(crate) is_with_courier: bool,
}

pub(crate) async fn insert_order(tx: &Tx, order: &Order) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("hello_order")
        .columns(["order_id", "customer", "item", "quantity"])
        .values_panic([
            order.order_id.as_str().into(),
            order.customer.as_str().into(),
            order.item.as_str().into(),
            order.quantity.into(),
        ]);
    tx.execute(&insert).await?;
    Ok(())
}

/// Writes a receipt. An existing receipt stays unchanged.
pub(crate) async fn insert_receipt(tx: &Tx, order_id: &str, receipt: &str) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("hello_receipt")
        .columns(["order_id", "receipt"])
        .values_panic([order_id.into(), receipt.into()])
        .on_conflict(unless_there());
    tx.execute(&insert).await?;
    Ok(())
}

/// Hands a parcel to the courier. An existing row stays unchanged.
pub(crate) async fn insert_parcel(tx: &Tx, order_id: &str) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("hello_parcel")
        .columns(["order_id", "receipts"])
        .values_panic([order_id.into(), 0.into()])
        .on_conflict(unless_there());
    tx.execute(&insert).await?;
    Ok(())
}

/// The inbox rejects redeliveries, but a replay with `--again` passes it and may find the row. Then the insert does nothing.
fn unless_there() -> OnConflict {
    OnConflict::column("order_id").do_nothing_on(["order_id"]).to_owned()
}

/// Adds the receipt to the parcel, if the courier has the parcel.
pub(crate) async fn enclose_receipt(tx: &Tx, order_id: &str) -> Result<()> {
    let mut update = Query::update();
    update
        .table("hello_parcel")
        .value("receipts", Expr::col("receipts").add(1))
        .and_where(Expr::col("order_id").eq(order_id));
    tx.execute(&update).await?;
    Ok(())
}

pub(crate) async fn progress(tx: &Tx, order_id: &str) -> Result<Option<Progress>> {
    let of_order = |table: &'static str, column: &'static str| {
        let mut select = Query::select();
        select
            .column(column)
            .from(table)
            .and_where(Expr::col("order_id").eq(order_id));
        select
    };
    if tx.query_one(&of_order("hello_order", "order_id")).await?.is_none() {
        return Ok(None);
    }
    let receipt = tx.query_one(&of_order("hello_receipt", "receipt")).await?;
    let parcel = tx.query_one(&of_order("hello_parcel", "order_id")).await?;
    Ok(Some(Progress {
        order_id: order_id.to_owned(),
        receipt: receipt.map(|row| row.try_get("", "receipt")).transpose()?,
        is_with_courier: parcel.is_some(),
    }))
}
