//! The schema goes up, down and up again, and survives being interrupted.

use postroom::{Migration, Outbox, migration};
use postroom_mysql::Mysql;
use sqlx::AssertSqlSafe;

use crate::fresh::{Fresh, keys};

const TABLES: &str = "select count(*) from information_schema.tables
    where table_schema = database() and table_name like 'postroom\\_%' and table_name <> 'postroom_migration'";

#[tokio::test(flavor = "multi_thread")]
async fn migrations_go_up_and_down_and_up_again() {
    let fresh = Fresh::migrated().await;
    let all = fresh.store.migrations();
    assert_eq!(fresh.number(TABLES).await, 17);
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
    assert!(error.report().contains("apply the migrations"), "{error:?}");
    fresh.gone().await;
}

/// A migration of two tables and an index, which can break off.
const MODULE: &str = "create table module_a (id int primary key);\n
create index module_a_id on module_a (id);\n
create table module_b (id int primary key);\n";

fn module(up: &'static str) -> [Migration; 1] {
    let down = "drop table module_b;\ndrop table module_a;\n";
    [Migration {
        number: 1,
        name: "tables",
        up,
        down,
    }]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_was_killed_goes_on_where_it_was() {
    let fresh = Fresh::migrated().await;
    // Killed in its third statement: two are done, and how the third ended is not known.
    fresh.run("create table module_a (id int primary key)").await;
    fresh.run("create index module_a_id on module_a (id)").await;
    fresh
        .run("insert into postroom_migration (owner, number, name) values ('module (begun)', 1, '3')")
        .await;
    let applied = migration::up(fresh.store.db(), "module", &module(MODULE))
        .await
        .unwrap();
    assert_eq!(applied.len(), 1);
    assert_eq!(fresh.number("select count(*) from module_b").await, 0);
    assert_eq!(fresh.number(NOTES).await, 0, "the note is gone");
    fresh.gone().await;
}

const NOTES: &str = "select count(*) from postroom_migration where owner like '%(begun)'";

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_somebody_else_is_refused_however_often() {
    let fresh = Fresh::migrated().await;
    fresh.run("create table module_b (other int)").await;
    for attempt in 1..=3 {
        let error = migration::up(fresh.store.db(), "module", &module(MODULE))
            .await
            .unwrap_err();
        assert!(
            error.report().contains("'module_b' already exists"),
            "attempt {attempt}: {error:?}"
        );
    }
    fresh.run("drop table module_b").await;
    migration::up(fresh.store.db(), "module", &module(MODULE))
        .await
        .unwrap();
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_was_half_taken_back_is_applied_again() {
    let fresh = Fresh::migrated().await;
    let [whole] = module(MODULE);
    migration::up(fresh.store.db(), "module", &[whole]).await.unwrap();
    let broken = Migration {
        down: "drop table module_b;\nselect broken_off from nowhere;\n",
        ..whole
    };
    migration::down(fresh.store.db(), "module", &[broken])
        .await
        .unwrap_err();
    migration::up(fresh.store.db(), "module", &[whole]).await.unwrap();
    assert_eq!(fresh.number("select count(*) from module_b").await, 0);
    migration::down(fresh.store.db(), "module", &[whole]).await.unwrap();
    assert_eq!(fresh.number(NOTES).await, 0, "the notes are gone");
    fresh.gone().await;
}
