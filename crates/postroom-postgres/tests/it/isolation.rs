//! A database whose default isolation is not read committed.

use postroom::{Event, Outbox, Relay, Result, Retry, Subscriber, Tx};
use postroom_postgres::Postgres;
use sea_orm::ConnectionTrait;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::fresh::{Fresh, eventually, service};

/// With `serializable` as the default, a handler that updates the application's rows would fail each time the application
/// updates them too, and each failure would count as an attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_isolation_of_a_database_costs_no_attempts() {
    let db = Fresh::new().await;
    db.sql("create table account (balance bigint not null)").await;
    db.sql("insert into account (balance) values (0)").await;
    db.sql(&format!(
        "alter database {} set default_transaction_isolation = 'repeatable read'",
        db.name
    ))
    .await;
    let store = Postgres::connect(&service("POSTROOM_TEST_POSTGRES_URL", &db.name))
        .await
        .unwrap();
    let (stop, outbox): (_, Arc<dyn Outbox>) = (CancellationToken::new(), Arc::new(store));
    let subscriber = Subscriber {
        retry: Retry {
            attempts_max: Some(1),
            ..Retry::default()
        },
        ..Subscriber::matching("pays", ["**"], pay)
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(Relay::new(outbox).subscriber(subscriber).run(stop.clone()));
    tasks.spawn(update_until(db.writers.clone(), stop.clone()));
    for n in 0..200 {
        db.commit(&[&n.to_string()]).await;
    }
    let handled = "select count(*) from postroom.event_handled";
    let failed = "select count(*) from postroom.outbox_failed";
    eventually("all are handled or given up", async || {
        db.number(handled).await + db.number(failed).await == 200
    })
    .await;
    assert_eq!(db.number(failed).await, 0, "an event was given up");
    stop.cancel();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap().unwrap();
    }
}

async fn pay(tx: &mut Tx, _event: &Event) -> Result<()> {
    tx.execute_unprepared("update account set balance = balance + 1")
        .await?;
    Ok(())
}

/// The application, which updates the same row all the time.
async fn update_until(pool: sqlx::PgPool, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        let updated = sqlx::query("update account set balance = balance - 1")
            .execute(&pool)
            .await;
        updated.ok(); // in its isolation it may meet the handler
    }
    Ok(())
}
