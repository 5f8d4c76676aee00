use postroom::{Error, ErrorKind, Fault, Outbox, Position, table};
use postroom_postgres::{Postgres, append};
use sea_orm::ConnectionTrait;
use sqlx::{AssertSqlSafe, Executor};

use crate::fresh::{Fresh, event, url};

#[tokio::test]
async fn an_address_that_is_none_is_invalid() {
    for bad in [
        "",
        "postgres",
        "mysql://x/y",
        "postgres://h:port/d",
        "postgres://h/d?pooler=session",
        "sqlite://file",
    ] {
        let error = Postgres::connect(bad).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}: {error:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let error = Postgres::connect("postgres://postgres@127.0.0.1:1/nothing")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn missing_tables_say_what_to_run() {
    let db = Fresh::new().await;
    db.sql("drop schema postroom cascade").await;
    let error = db.store.pulse().await.unwrap_err();
    assert!(error.to_string().contains("apply the migrations"), "{error:?}");
    let error = db.store.read(Position::START, 1).await.unwrap_err();
    assert!(error.to_string().contains("apply the migrations"), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_was_cut_is_unavailable_and_then_replaced() {
    let db = Fresh::new().await;
    db.pulse().await;
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    db.writers.execute(cut).await.unwrap();
    let mut failures = 0;
    while let Err(error) = db.store.pulse().await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        failures += 1;
        assert!(failures < 10, "the pool never recovers");
    }
    let mut tx = db.begin().await;
    tx.execute("select pg_terminate_backend(pg_backend_pid())")
        .await
        .unwrap_err();
    let error = append(&mut tx, &[event("k", "x")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn a_standby_is_unavailable() {
    let db = Fresh::new().await;
    db.commit(&["one"]).await;
    db.sql(&format!(
        "alter database {} set default_transaction_read_only = on",
        db.name
    ))
    .await;
    let error = Postgres::connect(&url(&db.name))
        .await
        .unwrap()
        .pulse()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn a_full_disk_is_named() {
    let db = Fresh::new().await;
    db.sql(
        "create function full_disk() returns trigger language plpgsql as
         $$ begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$;
         create trigger full_disk before insert on postroom.outbox execute function full_disk()",
    )
    .await;
    let mut tx = db.begin().await;
    let error = append(&mut tx, &[event("k", "x")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("disk is full"), "{error}");
    drop(tx);
    db.sql("drop trigger full_disk on postroom.outbox").await;
    db.commit(&["again"]).await;
}

/// Runs a statement that fails in a handler's transaction, by sqlx and by SeaORM: both errors must have this kind and fault.
async fn fails_as(db: &Fresh, statement: &str, expected: (ErrorKind, Fault)) {
    let mut tx = table::begin(db.store.db()).await.unwrap();
    let failed = tx
        .postgres()
        .unwrap()
        .execute(AssertSqlSafe(statement.to_owned()))
        .await;
    let by_sqlx = Error::from(failed.unwrap_err());
    assert_eq!(
        (by_sqlx.kind(), Fault::of(&by_sqlx)),
        expected,
        "{statement}: {by_sqlx}"
    );
    drop(tx);
    let tx = table::begin(db.store.db()).await.unwrap();
    let by_sea_orm = Error::from(tx.execute_unprepared(statement).await.unwrap_err());
    assert_eq!(
        (by_sea_orm.kind(), Fault::of(&by_sea_orm)),
        expected,
        "{statement}: {by_sea_orm}"
    );
}

#[tokio::test]
async fn an_error_in_a_handler_has_the_kind_of_its_state() {
    let db = Fresh::new().await;
    for (state, kind, fault) in [
        ("08006", ErrorKind::Unavailable, Fault::Other),
        ("23505", ErrorKind::Conflict, Fault::Other),
        ("23514", ErrorKind::Failed, Fault::Other),
        ("25006", ErrorKind::Unavailable, Fault::Other),
        ("25P03", ErrorKind::Unavailable, Fault::Other),
        ("40001", ErrorKind::Unavailable, Fault::Other),
        ("40P01", ErrorKind::Unavailable, Fault::Other),
        ("53100", ErrorKind::Unavailable, Fault::DiskFull),
        ("53300", ErrorKind::Unavailable, Fault::Other),
        ("55P03", ErrorKind::Unavailable, Fault::Locked),
        ("57014", ErrorKind::Failed, Fault::Other),
        ("57P01", ErrorKind::Unavailable, Fault::Other),
        ("57P03", ErrorKind::Unavailable, Fault::Other),
        ("P0001", ErrorKind::Failed, Fault::Other),
    ] {
        let raise = format!("do $$ begin raise exception 'words' using errcode = '{state}'; end $$");
        fails_as(&db, &raise, (kind, fault)).await;
    }
    let words = "do $$ begin raise exception 'deadlock detected: Connection refused: disk is full'; end $$";
    fails_as(&db, words, (ErrorKind::Failed, Fault::Other)).await;
}

#[tokio::test]
async fn only_a_missing_table_of_postroom_is_named_so() {
    let db = Fresh::new().await;
    let missing = (ErrorKind::Failed, Fault::TablesMissing);
    fails_as(&db, "select 1 from postroom.nothing", missing).await;
    fails_as(&db, "select postroom.nothing()", missing).await;
    fails_as(&db, "select 1 from orders", (ErrorKind::Failed, Fault::Other)).await;
}
