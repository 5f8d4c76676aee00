//! The shop's HTTP API: place an order, and show its progress.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::Order;
use crate::handlers;
use crate::tables::{self, Progress};

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Service)
        .post("/hello/orders", place_order)
        .get("/hello/orders/{order_id}", show_order)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceOrder {
    customer: String,
    item: String,
    quantity: u32,
}

#[derive(Serialize)]
struct Placed {
    order_id: String,
    /// The event id, for `postroom why`.
    event_id: Uuid,
}

async fn place_order(
    State(host): State<Host>,
    Body(wanted): Body<PlaceOrder>,
) -> Result<(StatusCode, Json<Placed>), Problem> {
    let order =
        Order::new(handlers::order_id(), &wanted.customer, &wanted.item, wanted.quantity).map_err(Problem::invalid)?;
    let tx = host.begin().await?;
    let event_id = handlers::place(&tx, &order).await?;
    tx.commit().await?;
    let placed = Placed {
        order_id: order.order_id,
        event_id,
    };
    Ok((StatusCode::CREATED, Json(placed)))
}

async fn show_order(State(host): State<Host>, Path(order_id): Path<String>) -> Result<Json<Progress>, Problem> {
    let tx = host.begin().await?;
    let progress = tables::progress(&tx, &order_id).await?;
    tx.commit().await?;
    progress
        .map(Json)
        .ok_or_else(|| Problem::not_found("there is no such order"))
}
