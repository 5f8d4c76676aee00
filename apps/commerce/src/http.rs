//! The shop's HTTP API. A rejected request changes nothing and returns a problem with a stable code.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cache::ProductCache;
use crate::domain::{Line, Order, Product, Refusal};
use crate::handlers::{self, Failure};
use crate::tables::{self, Metrics};

/// The number of products in one page of the list.
const PAGE: u64 = 100;

pub(crate) fn routes(cache: Arc<dyn ProductCache>) -> Routes {
    Routes::new(Access::Service)
        .get("/commerce/products/{product_id}", show_product)
        .extension(cache)
        .get("/commerce/products", list_products)
        .post("/commerce/products", add_product)
        .put("/commerce/products/{product_id}/likes/{user_id}", like)
        .delete("/commerce/products/{product_id}/likes/{user_id}", unlike)
        .post("/commerce/products/{product_id}/views", view)
        .get("/commerce/products/{product_id}/metrics", show_metrics)
        .post("/commerce/orders", place_order)
        .get("/commerce/orders/{order_id}", show_order)
        .post("/commerce/orders/{order_id}/payment", pay)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewProduct {
    name: String,
    price: i64,
    stock: i64,
}

/// A product in a response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    product_id: i64,
    name: String,
    price: i64,
    stock: i64,
}

impl From<Product> for Shown {
    fn from(product: Product) -> Self {
        let Product {
            product_id,
            name,
            price,
            stock,
        } = product;
        Self {
            product_id,
            name,
            price,
            stock,
        }
    }
}

async fn add_product(
    State(host): State<Host>,
    Body(new): Body<NewProduct>,
) -> Result<(StatusCode, Json<Shown>), Problem> {
    let product = handlers::add_product(host.store.db(), &new.name, new.price, new.stock).await?;
    Ok((StatusCode::CREATED, Json(product.into())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    after: i64,
}

#[derive(Serialize)]
struct Listed {
    products: Vec<Shown>,
    /// The next page starts after this product: pass it as `after`. `None` on the last page.
    next: Option<i64>,
}

async fn list_products(
    State(host): State<Host>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Listed>, Problem> {
    let Query(page) = page.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let tx = host.begin().await?;
    let products = tables::products_after(&tx, page.after, PAGE).await?;
    tx.commit().await?;
    let is_full = products.len() as u64 == PAGE;
    Ok(Json(Listed {
        next: products.last().map(|last| last.product_id).filter(|_| is_full),
        products: products.into_iter().map(Shown::from).collect(),
    }))
}

/// Reads the product from the cache, or from the database on a cache miss.
async fn show_product(
    State(host): State<Host>,
    Extension(cache): Extension<Arc<dyn ProductCache>>,
    Path(product_id): Path<String>,
) -> Result<Json<Shown>, Problem> {
    let product_id = number(&product_id, "product")?;
    let ticket = match cache.get(product_id).await {
        Ok(product) => return Ok(Json(product.into())),
        Err(ticket) => ticket,
    };
    let tx = host.begin().await?;
    let found = tables::products(&tx, &[product_id]).await?.pop();
    tx.commit().await?;
    let product = found.ok_or(Refusal::UnknownProduct(product_id))?;
    cache.put(ticket, &product).await;
    Ok(Json(product.into()))
}

/// Idempotent: a second like changes nothing.
async fn like(
    State(host): State<Host>,
    Path((product_id, user_id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (product_id, user_id) = (number(&product_id, "product")?, number(&user_id, "user")?);
    handlers::like(host.store.db(), product_id, user_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Idempotent: removing a like that does not exist changes nothing.
async fn unlike(
    State(host): State<Host>,
    Path((product_id, user_id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (product_id, user_id) = (number(&product_id, "product")?, number(&user_id, "user")?);
    handlers::unlike(host.store.db(), product_id, user_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct View {
    user_id: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Viewed {
    /// The event id, for `postroom why`.
    event_id: Option<Uuid>,
}

async fn view(
    State(host): State<Host>,
    Path(product_id): Path<String>,
    Body(view): Body<View>,
) -> Result<(StatusCode, Json<Viewed>), Problem> {
    let product_id = number(&product_id, "product")?;
    let event_id = handlers::view(host.store.db(), product_id, view.user_id).await?;
    Ok((StatusCode::ACCEPTED, Json(Viewed { event_id })))
}

async fn show_metrics(State(host): State<Host>, Path(product_id): Path<String>) -> Result<Json<Metrics>, Problem> {
    let product_id = number(&product_id, "product")?;
    let tx = host.begin().await?;
    let is_known = !tables::products(&tx, &[product_id]).await?.is_empty();
    let metrics = tables::metrics(&tx, product_id).await?;
    tx.commit().await?;
    is_known
        .then_some(Json(metrics))
        .ok_or_else(|| Refusal::UnknownProduct(product_id).into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NewOrder {
    user_id: i64,
    lines: Vec<NewLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NewLine {
    product_id: i64,
    quantity: i64,
}

/// An order in a response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    order_id: i64,
    user_id: i64,
    amount: i64,
    payment_id: Option<i64>,
    lines: Vec<ReceiptLine>,
    /// The id of the payment event, for `postroom why`. Only in the response to the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<Uuid>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptLine {
    product_id: i64,
    price: i64,
    quantity: i64,
}

impl From<Order> for Receipt {
    fn from(order: Order) -> Self {
        let line = |line: Line| ReceiptLine {
            product_id: line.product_id,
            price: line.price,
            quantity: line.quantity,
        };
        Self {
            order_id: order.order_id,
            user_id: order.user_id,
            amount: order.amount(),
            payment_id: order.payment_id,
            lines: order.lines.into_iter().map(line).collect(),
            event_id: None,
        }
    }
}

async fn place_order(
    State(host): State<Host>,
    Body(new): Body<NewOrder>,
) -> Result<(StatusCode, Json<Receipt>), Problem> {
    let wanted: Vec<(i64, i64)> = new.lines.iter().map(|line| (line.product_id, line.quantity)).collect();
    let order = handlers::place_order(host.store.db(), new.user_id, &wanted).await?;
    Ok((StatusCode::CREATED, Json(order.into())))
}

async fn show_order(State(host): State<Host>, Path(order_id): Path<String>) -> Result<Json<Receipt>, Problem> {
    let order_id = number(&order_id, "order")?;
    let tx = host.begin().await?;
    let order = tables::order(&tx, order_id).await?;
    tx.commit().await?;
    Ok(Json(order.ok_or(Refusal::UnknownOrder(order_id))?.into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payment {
    amount: i64,
}

async fn pay(
    State(host): State<Host>,
    Path(order_id): Path<String>,
    Body(payment): Body<Payment>,
) -> Result<(StatusCode, Json<Receipt>), Problem> {
    let order_id = number(&order_id, "order")?;
    let (order, event_id) = handlers::pay(host.store.db(), order_id, payment.amount).await?;
    let receipt = Receipt {
        event_id,
        ..order.into()
    };
    Ok((StatusCode::CREATED, Json(receipt)))
}

/// Parses a number in the path. Anything else is `404 Not Found`.
fn number(text: &str, of: &str) -> Result<i64, Problem> {
    text.parse()
        .map_err(|_not_a_number| Problem::not_found(format!("the {of} in the path must be a number, not {text:?}")))
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Failed(error) => error.into(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(says) => Self::invalid(says),
            Refusal::UnknownProduct(id) => Self::new(
                StatusCode::NOT_FOUND,
                "unknown_product",
                format!("there is no product {id}"),
            ),
            Refusal::UnknownOrder(id) => Self::new(
                StatusCode::NOT_FOUND,
                "unknown_order",
                format!("there is no order {id}"),
            ),
            Refusal::AlreadyPaid(id) => Self::new(
                StatusCode::CONFLICT,
                "already_paid",
                format!("order {id} is already paid"),
            ),
            Refusal::AmountMismatch { due, offered } => {
                let says = format!("{due} is due, {offered} is offered");
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "amount_mismatch", says)
            }
            Refusal::OutOfStock { product_id, left } => {
                let says = format!("of product {product_id} there are only {left} left");
                Self::new(StatusCode::CONFLICT, "out_of_stock", says)
            }
        }
    }
}
