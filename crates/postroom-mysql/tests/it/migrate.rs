//! The schema goes up, down and up again, and survives being interrupted.

use postroom::{Outbox, migration};
use postroom_mysql::Mysql;
use sqlx::AssertSqlSafe;

use crate::fresh::{Fresh, keys};

const TABLES: &str = "select count(*) from information_schema.tables
    where table_schema = database() and table_name like 'postroom\\_%' and table_name <> 'postroom_migration'";

#[tokio::test(flavor = "multi_thread")]
async fn migrations_go_up_and_down_and_up_again() {
    let fresh = Fresh::migrated().await;
    let all = fresh.store.migrations();
    assert_eq!(fresh.number(TABLES).await, 15);
    let db = fresh.store.db();
    for expected in all.iter().rev() {
        let taken_back = migration::down(db, "postroom", all).await.unwrap();
        assert_eq!(taken_back.unwrap().name, expected.name);
    }
    assert_eq!(fresh.number(TABLES).await, 0, "down leaves nothing");
    migration::up(db, "postroom", all).await.unwrap();
    fresh.commit("a").await;
    assert_eq!(keys(&fresh.store).await, ["a"]);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_broke_off_is_run_again() {
    let fresh = Fresh::empty("utf8mb4").await;
    for migration in fresh.store.migrations() {
        // All of its statements were executed, but the process died before it wrote that down.
        sqlx::raw_sql(AssertSqlSafe(migration.up))
            .execute(&fresh.pool)
            .await
            .unwrap();
    }
    fresh.migrate().await;
    fresh.commit("a").await;
    assert_eq!(keys(&fresh.store).await, ["a"]);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_migrate_at_once() {
    let fresh = Fresh::empty("utf8mb4").await;
    let other = fresh.second().await;
    let up = async |store: &Mysql| {
        migration::up(store.db(), "postroom", store.migrations())
            .await
            .unwrap()
            .len()
    };
    let (one, two) = tokio::join!(up(&fresh.store), up(&other));
    assert_eq!(one + two, fresh.store.migrations().len(), "each step is applied once");
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_tables_the_store_says_what_to_do() {
    let fresh = Fresh::empty("utf8mb4").await;
    let error = fresh.store.pulse().await.unwrap_err();
    assert!(error.report().contains("postroom migrate"), "{error:?}");
    fresh.gone().await;
}
