//! Postroom inside your own service: axum, sqlx and PostgreSQL, and nothing else to run.
//!
//! ```sh
//! DATABASE_URL=postgres://app@127.0.0.1/app cargo run -p embed
//! curl -i 127.0.0.1:3000/orders -H 'content-type: application/json' -d '{"order_id": "7", "total": 4200}'
//! ```
#![expect(clippy::print_stderr, reason = "an example without a logger")]

use std::{error::Error, sync::Arc};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use postroom::{DomainEvent, Event, Outbox, Relay, Subscriber, migration};
use postroom_postgres::Postgres;
use sea_orm::{ConnectionTrait, DatabaseTransaction, Statement, Values};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

/// A fact of your domain. Whatever happens to one order is delivered in order.
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
async fn place(pool: &PgPool, order: &OrderPlaced) -> Result<(), Box<dyn Error>> {
    let mut tx = pool.begin().await?;
    let insert = sqlx::query("insert into orders (order_id, total) values ($1, $2)");
    insert.bind(&order.order_id).bind(order.total).execute(&mut *tx).await?;
    postroom_postgres::emit(&mut tx, order).await?;
    Ok(tx.commit().await?)
}

/// Your subscriber: called for every order, with one effect for each, whatever crashes in between.
async fn count_sale(tx: &DatabaseTransaction, event: &Event) -> postroom::Result<()> {
    let order: OrderPlaced = event.decode()?;
    let update = "update sales set total = total + $1";
    let values = Values(vec![order.total.into()]);
    tx.execute_raw(Statement::from_sql_and_values(
        tx.get_database_backend(),
        update,
        values,
    ))
    .await?;
    Ok(())
}

async fn place_order(State(pool): State<PgPool>, Json(order): Json<OrderPlaced>) -> StatusCode {
    match place(&pool, &order).await {
        Ok(()) => StatusCode::CREATED,
        Err(error) => {
            eprintln!("{error}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    sqlx::raw_sql(include_str!("../schema.sql")).execute(&pool).await?;
    let store = Arc::new(Postgres::from_pool(pool.clone()));
    migration::up(store.db(), "postroom", store.migrations()).await?;

    let stop = CancellationToken::new();
    let relay = Relay::new(store).subscriber(Subscriber::new("sales", "shop.order.**", count_sale));
    let app = Router::new().route("/orders", post(place_order)).with_state(pool);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let server = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());

    let (delivered, served, ()) = tokio::join!(relay.run(stop.clone()), server, async {
        tokio::signal::ctrl_c().await.unwrap_or_default();
        stop.cancel();
    });
    delivered?;
    Ok(served?)
}
