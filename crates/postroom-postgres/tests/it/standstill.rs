//! An application that uses every connection of its pool.

use std::sync::Arc;
use std::time::Duration;

use postroom::{Event, Relay, Subscriber, Tx};
use postroom_postgres::Postgres;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::fresh::{Fresh, eventually, url};

async fn ignore(_tx: &mut Tx, _event: &Event) -> postroom::Result<()> {
    Ok(())
}

/// A relay has connections of its own: it delivers while the application has none left.
#[tokio::test]
async fn an_application_without_a_free_connection_stops_no_route() {
    let db = Fresh::new().await;
    let pool = PgPoolOptions::new()
        .max_connections(2)
        .acquire_timeout(Duration::from_secs(2))
        .connect(&url(&db.name))
        .await
        .unwrap();
    let relay =
        Relay::new(Arc::new(Postgres::from_pool(pool.clone()))).subscriber(Subscriber::matching("s", ["**"], ignore));
    let (health, stop, mut running) = (relay.health(), CancellationToken::new(), JoinSet::new());
    running.spawn(relay.run(stop.clone()));
    eventually("the route is worked", async || health.working().len() == 1).await;
    let held = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    assert!(pool.acquire().await.is_err(), "the application has a connection left");
    db.commit(&["flows"]).await;
    let handled = "select count(*) from postroom.event_handled";
    eventually("the event is handled", async || db.number(handled).await == 1).await;
    assert!(health.troubles().is_empty(), "{:?}", health.troubles());
    drop(held);
    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.unwrap().unwrap();
    }
}
