//! Postroom inside your own service: axum, SeaORM and PostgreSQL.
//!
//! ```sh
//! DATABASE_URL=postgres://app@127.0.0.1/app cargo run -p embed-seaorm
//! curl -i 127.0.0.1:3000/orders -H 'content-type: application/json' -d '{"order_id": "7", "total": 4200}'
//! ```

use std::{env, sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use postroom::{CancellationToken, DomainEvent, Relay, Subscriber, Tx};
use postroom_postgres::Postgres;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use sea_orm::{ConnectionTrait as _, Database, DatabaseConnection, TransactionTrait as _};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// A domain event. The events of one order are delivered in order.
#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order_id: String,
    total: i64,
}

impl DomainEvent for OrderPlaced {
    const TYPE: &'static str = "shop.order.placed.v1";
    const AGGREGATE_TYPE: &'static str = "order";
    fn aggregate_id(&self) -> String {
        self.order_id.clone()
    }
}

/// Your transaction: the order and its event are committed together, or neither is.
async fn place(
    State(db): State<DatabaseConnection>,
    Json(order): Json<OrderPlaced>,
) -> Result<StatusCode, (StatusCode, String)> {
    let placed = async {
        let tx = db.begin().await?;
        let mut insert = Query::insert();
        insert.into_table("orders").columns(["order_id", "total"]);
        insert.values_panic([order.order_id.as_str().into(), order.total.into()]);
        tx.execute(&insert).await?;
        postroom::emit(&tx, &order).await?;
        anyhow::Ok(tx.commit().await?)
    };
    let created = placed.await.map(|()| StatusCode::CREATED);
    created.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Your subscriber: it has one effect for each order, whatever crashes in between. Its transaction is a SeaORM connection.
async fn count_sale(tx: &mut Tx, order: OrderPlaced) -> anyhow::Result<()> {
    let mut update = Query::update();
    update
        .table("sales")
        .value("total", Expr::col("total").add(order.total));
    tx.execute(&update).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let db = Database::connect(env::var("DATABASE_URL")?).await?;
    db.execute_unprepared(include_str!("../schema.sql")).await?;
    let store = Arc::new(Postgres::from_pool(db.get_postgres_connection_pool().clone()));
    store.migrate().await?;
    let relay = Relay::new(store)
        .subscriber(Subscriber::on::<OrderPlaced>("sales", count_sale))
        .keep(Duration::from_hours(7 * 24));
    let stop = CancellationToken::new();
    let app = Router::new().route("/orders", post(place)).with_state(db);
    let listener = TcpListener::bind(env::var("LISTEN").unwrap_or("127.0.0.1:3000".into())).await?;
    let server = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
    let signal = async { tokio::signal::ctrl_c().await.map(|()| stop.cancel()) };
    let (delivered, served, signalled) = tokio::join!(relay.run(stop.clone()), server, signal);
    delivered?;
    Ok(served.and(signalled)?)
}
