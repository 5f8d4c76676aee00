//! Facts that only the database knows.

use postroom::{Inspect, Outbox, Position, Prune};
use postroom_mysql::Mysql;

use crate::fresh::{Fresh, administer, append, eventually, settle};

#[tokio::test(flavor = "multi_thread")]
async fn the_backlog_counts_what_is_numbered_and_what_waits() {
    let fresh = Fresh::migrated().await;
    let backlog = async |id| fresh.store.backlog(Position { id, ..Position::START }).await.unwrap();
    assert_eq!(backlog(0).await, 0);
    for n in 0..5 {
        fresh.commit(&n.to_string()).await;
    }
    assert_eq!(backlog(0).await, 5);
    settle(&fresh.store).await;
    fresh.commit("waits").await;
    assert_eq!((backlog(0).await, backlog(2).await, backlog(5).await), (6, 4, 1));
    let prune = Prune {
        keep: std::time::Duration::ZERO,
        batch: 3,
        archive: false,
    };
    fresh
        .run("insert into postroom_outbox_cursor (route, shard, position) values ('r', 0, '0:0:5')")
        .await;
    fresh.store.prune(&prune).await.unwrap();
    assert_eq!(backlog(0).await, 3, "what was removed is no backlog");
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_is_shown() {
    let fresh = Fresh::migrated().await;
    let mut tx = fresh.begin().await;
    append(&mut tx, "a").await;
    let session: i64 = sqlx::query_scalar("select cast(connection_id() as signed)")
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    // InnoDB may answer from a copy that is a moment old.
    eventually("it is listed", async || {
        let open = fresh.store.open_transactions().await.unwrap();
        let mut open = open.iter().filter(|open| (0.0..60.0).contains(&open.age_s));
        open.any(|open| open.session == session.to_string() && open.has_written && open.query.contains("idle"))
    })
    .await;
    tx.rollback().await.unwrap();
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_privilege_open_transactions_are_simply_not_listed() {
    let fresh = Fresh::migrated().await;
    let name = fresh.url.rsplit('/').next().unwrap().to_owned();
    let user = format!("u{}", &name[name.len() - 12..]);
    administer(&format!("create user {user}; grant all on {name}.* to {user}")).await;
    let (_, host) = fresh.url.split_once('@').unwrap();
    let plain = Mysql::connect(&format!("mysql://{user}@{host}")).await.unwrap();
    assert_eq!(plain.open_transactions().await.unwrap().len(), 0);
    fresh.commit("a").await;
    assert_eq!(settle(&plain).await, 1, "everything else needs no privilege");
    drop(plain);
    administer(&format!("drop user {user}")).await;
    fresh.gone().await;
}
