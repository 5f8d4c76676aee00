//! Postroom inside your own service: axum, sqlx and PostgreSQL.
//!
//! ```sh
//! DATABASE_URL=postgres://app@127.0.0.1/app cargo run -p embed
//! curl -i 127.0.0.1:3000/orders -H 'content-type: application/json' -d '{"order_id": "7", "total": 4200}'
//! ```

use std::{env, sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use postroom::{CancellationToken, DomainEvent, Relay, Subscriber, Tx};
use postroom_postgres::Postgres;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
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
async fn place(State(pool): State<PgPool>, Json(order): Json<OrderPlaced>) -> Result<StatusCode, (StatusCode, String)> {
    let placed = async {
        let mut tx = pool.begin().await?;
        let insert = sqlx::query("insert into orders values ($1, $2)").bind(&order.order_id);
        insert.bind(order.total).execute(&mut *tx).await?;
        postroom_postgres::emit(&mut tx, &order).await?;
        anyhow::Ok(tx.commit().await?)
    };
    let created = placed.await.map(|()| StatusCode::CREATED);
    created.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Your subscriber: it has one effect for each order, whatever crashes in between.
async fn count_sale(tx: &mut Tx, order: OrderPlaced) -> anyhow::Result<()> {
    let update = sqlx::query("update sales set total = total + $1").bind(order.total);
    update.execute(tx.postgres()?).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPool::connect(&env::var("DATABASE_URL")?).await?;
    sqlx::raw_sql(include_str!("../schema.sql")).execute(&pool).await?;
    let store = Arc::new(Postgres::from_pool(pool.clone()));
    store.migrate().await?;
    let relay = Relay::new(store)
        .subscriber(Subscriber::on::<OrderPlaced>("sales", count_sale))
        .keep(Duration::from_hours(7 * 24));
    let stop = CancellationToken::new();
    let app = Router::new().route("/orders", post(place)).with_state(pool);
    let listener = TcpListener::bind(env::var("LISTEN").unwrap_or("127.0.0.1:3000".into())).await?;
    let server = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
    let signal = async { tokio::signal::ctrl_c().await.map(|()| stop.cancel()) };
    let (delivered, served, signalled) = tokio::join!(relay.run(stop.clone()), server, signal);
    delivered?;
    Ok(served.and(signalled)?)
}
