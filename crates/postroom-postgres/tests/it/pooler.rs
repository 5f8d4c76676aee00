//! Behind PgBouncer in transaction mode, where a session lasts as long as a transaction.

use std::time::Duration;

use postroom::{Outbox, Position, Prune, migration, table};
use postroom_postgres::{Postgres, append};
use sea_orm::ConnectionTrait;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use crate::fresh::{Fresh, drain, event, eventually, service, texts};

async fn pooled(db: &Fresh) -> Postgres {
    Postgres::connect(&format!(
        "{}?pooler=transaction",
        service("POSTROOM_TEST_PGBOUNCER_URL", &db.name)
    ))
    .await
    .unwrap()
}

#[tokio::test]
async fn without_a_word_about_the_pooler_statements_get_mixed_up() {
    let db = Fresh::new().await;
    let url = service("POSTROOM_TEST_PGBOUNCER_URL", &db.name);
    let broken = async || -> Result<(), sqlx::Error> {
        let pool: PgPool = PgPoolOptions::new().max_connections(4).connect(&url).await?;
        for _ in 0..4 {
            let mut connections = Vec::new();
            for _ in 0..4 {
                connections.push(pool.acquire().await?);
            }
            for connection in &mut connections {
                sqlx::query("select $1::int").bind(1).execute(&mut **connection).await?;
            }
        }
        Ok(())
    };
    let error = broken().await.unwrap_err();
    assert!(
        error.to_string().contains("prepared statement"),
        "this is what the option is for: {error}"
    );
}

#[tokio::test]
async fn a_pooler_that_was_not_announced_is_named() {
    let db = Fresh::new().await;
    let connected = Postgres::connect(&service("POSTROOM_TEST_PGBOUNCER_URL", &db.name)).await;
    let error = connected.unwrap_err();
    assert!(error.to_string().contains("pooler=transaction"), "{error:?}");
}

#[tokio::test]
async fn the_whole_way_works_behind_a_transaction_pooler() {
    let db = Fresh::new().await;
    let store = pooled(&db).await;
    while migration::down(store.db(), "postroom", store.migrations())
        .await
        .unwrap()
        .is_some()
    {}
    migration::up(store.db(), "postroom", store.migrations()).await.unwrap();
    assert!(
        migration::pending(store.db(), "postroom", store.migrations())
            .await
            .unwrap()
            .is_empty()
    );

    let tx = table::begin(store.db()).await.unwrap();
    postroom::append(&tx, &[event("k", "seaorm")]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.pool().begin().await.unwrap();
    append(&mut tx, &[event("k", "sqlx")]).await.unwrap();
    tx.commit().await.unwrap();
    let tx = table::begin(store.db()).await.unwrap();
    postroom::append(&tx, &[event("k", "rolled back")]).await.unwrap();
    tx.rollback().await.unwrap();
    let tx = table::begin(store.db()).await.unwrap();
    postroom::append(&tx, &[event("k", "forgotten")]).await.unwrap();
    drop(tx);

    let mut position = Position::START;
    assert_eq!(store.pulse().await.unwrap().head, 1);
    assert_eq!(texts(&drain(&store, &mut position, 1).await), ["seaorm", "sqlx"]);
    db.cursor("route", position).await;
    let all = Prune {
        keep: Duration::ZERO,
        batch: 10,
        archive: true,
    };
    assert_eq!(store.prune(&all).await.unwrap(), 2);
    assert_eq!(
        db.number("select count(*) from postroom.outbox").await,
        0,
        "it has committed"
    );
}

#[tokio::test]
async fn a_failure_does_not_spoil_the_connection() {
    let db = Fresh::new().await;
    let store = pooled(&db).await;
    for _ in 0..30 {
        store.db().execute_unprepared("select 1 / 0").await.unwrap_err();
        let tx = table::begin(store.db()).await.unwrap();
        tx.execute_unprepared("select nonsense").await.unwrap_err();
        drop(tx);
        let tx = table::begin(store.db()).await.unwrap();
        postroom::append(&tx, &[event("k", "good")]).await.unwrap();
        tx.commit().await.unwrap();
    }
    store.pulse().await.unwrap();
    assert_eq!(drain(&store, &mut Position::START.clone(), 100).await.len(), 30);
}

#[tokio::test]
async fn what_is_executed_without_a_transaction_commits_soon() {
    let db = Fresh::new().await;
    let store = pooled(&db).await;
    store
        .db()
        .execute_unprepared("update postroom.outbox_signal set version = 7")
        .await
        .unwrap();
    eventually("it is there for everybody", async || {
        db.number("select version from postroom.outbox_signal").await == 7
    })
    .await;
}

#[tokio::test]
async fn many_writers_and_a_reader_share_few_sessions() {
    let db = Fresh::new().await;
    let mut tasks = JoinSet::new();
    for writer in 0..8 {
        let store = pooled(&db).await;
        tasks.spawn(async move {
            for n in 0..40 {
                let tx = table::begin(store.db()).await.unwrap();
                postroom::append(&tx, &[event(&writer.to_string(), &format!("{writer}/{n}"))])
                    .await
                    .unwrap();
                if n % 4 == 0 {
                    tx.rollback().await.unwrap();
                } else {
                    tx.commit().await.unwrap();
                }
            }
        });
    }
    let store = pooled(&db).await;
    let (mut position, mut got) = (Position::START, Vec::new());
    while !tasks.is_empty() {
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
        store.pulse().await.unwrap();
        got.extend(texts(&drain(&store, &mut position, 10).await));
    }
    store.pulse().await.unwrap();
    got.extend(texts(&drain(&store, &mut position, 10).await));
    for writer in 0..8 {
        let own: Vec<&String> = got
            .iter()
            .filter(|text| text.starts_with(&format!("{writer}/")))
            .collect();
        let expected: Vec<String> = (0..40)
            .filter(|n| n % 4 != 0)
            .map(|n| format!("{writer}/{n}"))
            .collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
    }
}
