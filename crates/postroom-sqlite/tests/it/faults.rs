use std::time::Duration;

use postroom::{Error, ErrorKind, Fault, Outbox, Position, table};
use postroom_sqlite::{Sqlite, pool_options};
use sea_orm::{ConnectionTrait, Statement};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::task::JoinSet;

use crate::{Fixture, event, with_payload};

/// A store on the fixture's file whose every connection has the given setting.
async fn with_setting(fixture: &Fixture, pragma: &'static str, value: &'static str) -> Sqlite {
    let options = SqliteConnectOptions::new()
        .filename(fixture.file())
        .busy_timeout(Duration::from_millis(50))
        .pragma(pragma, value);
    let writer = pool_options()
        .max_connections(1)
        .connect_with(options.clone())
        .await
        .unwrap();
    let readers = pool_options().max_connections(2).connect_with(options).await.unwrap();
    Sqlite::from_pools(writer, readers)
}

#[tokio::test]
async fn a_full_disk_fails_the_emit_clearly_and_later_emits_work() {
    let fixture = Fixture::new().await;
    let store = with_setting(&fixture, "max_page_count", "100").await;
    let large = with_payload("large", &format!("\"{}\"", "x".repeat(900_000)));
    for _ in 0..3 {
        let mut tx = store.begin().await.unwrap();
        let error = postroom_sqlite::append(&mut tx, &[event("small"), large.clone()])
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(
            error.to_string().contains("the disk or the database is full"),
            "{error}"
        );
        assert!(
            error.report().contains("database or disk is full"),
            "{}",
            error.report()
        );
        drop(tx);

        let tx = table::begin(store.db()).await.unwrap();
        let error = postroom::append(&tx, std::slice::from_ref(&large)).await.unwrap_err();
        assert_eq!(
            (error.kind(), Fault::of(&error)),
            (ErrorKind::Unavailable, Fault::DiskFull)
        );
        assert!(
            error.report().contains("database or disk is full"),
            "{}",
            error.report()
        );
        drop(tx);
    }
    assert!(
        fixture.ids_read().await.is_empty(),
        "nothing of the failed transactions is there"
    );

    fixture.commit(std::slice::from_ref(&large)).await;
    let roomy = with_setting(&fixture, "max_page_count", "1000000").await;
    let mut tx = roomy.begin().await.unwrap();
    postroom_sqlite::append(&mut tx, &[large]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(fixture.ids_read().await, ["large", "large"]);
}

#[tokio::test]
async fn a_full_database_recovers_on_the_same_store_when_room_is_made() {
    let fixture = Fixture::new().await;
    let large = with_payload("large", &format!("\"{}\"", "x".repeat(900_000)));
    fixture.sql("pragma max_page_count = 100").await;
    let mut tx = fixture.store.begin().await.unwrap();
    let error = postroom_sqlite::append(&mut tx, std::slice::from_ref(&large))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    drop(tx);
    fixture.sql("pragma max_page_count = 1000000").await;
    fixture.commit(&[large]).await;
    assert_eq!(fixture.ids_read().await, ["large"]);
}

/// When it is full SQLite may end the whole transaction by itself (here: a table without triggers; on a real disk:
/// at the commit). The driver does not notice and could not begin another one on that connection.
#[tokio::test]
async fn a_transaction_that_sqlite_has_ended_leaves_the_writer_usable() {
    let fixture = Fixture::new().await;
    fixture.sql("create table plain (content blob)").await;
    let store = with_setting(&fixture, "max_page_count", "100").await;
    for _ in 0..3 {
        let tx = table::begin(store.db()).await.unwrap();
        let error = tx
            .execute_unprepared("insert into plain values (zeroblob(1000000))")
            .await
            .unwrap_err();
        assert!(error.to_string().contains("database or disk is full"), "{error}");
        let error = tx.commit().await.unwrap_err();
        assert!(
            error.to_string().contains("no transaction is active"),
            "SQLite has ended it: {error}"
        );

        let mut tx = store.begin().await.unwrap();
        postroom_sqlite::append(&mut tx, &[event("fits")]).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(fixture.ids_read().await, ["fits"; 3]);
}

/// The pitfall of DEFERRED: a transaction that has read cannot become a writer once another has written, and no
/// timeout helps. Both ways to begin here take the write lock at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_that_read_first_are_never_refused() {
    let fixture = Fixture::new().await;
    fixture
        .sql("create table counter (n integer); insert into counter values (0)")
        .await;
    let mut writers = JoinSet::new();
    for n in 0..6 {
        let store = fixture.another().await;
        writers.spawn(async move {
            for _ in 0..20 {
                count_up(&store, n % 2 == 0).await;
            }
        });
    }
    writers.join_all().await;
    let mut tx = fixture.store.begin().await.unwrap();
    let n: i64 = sqlx::query_scalar("select n from counter")
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    assert_eq!(n, 120, "each saw what the one before had written");
}

async fn count_up(store: &Sqlite, through_sea_orm: bool) {
    if through_sea_orm {
        let tx = table::begin(store.db()).await.unwrap();
        let read = Statement::from_string(tx.get_database_backend(), "select n from counter");
        let n: i64 = tx.query_one_raw(read).await.unwrap().unwrap().try_get("", "n").unwrap();
        tx.execute_unprepared(&format!("update counter set n = {}", n + 1))
            .await
            .unwrap();
        tx.commit().await.unwrap();
    } else {
        let mut tx = store.begin().await.unwrap();
        let n: i64 = sqlx::query_scalar("select n from counter")
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        sqlx::query("update counter set n = ?")
            .bind(n + 1)
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
}

/// The twin that shows why: begun DEFERRED, the upgrade is refused at once although nobody holds the lock any more.
#[tokio::test]
async fn a_deferred_reader_that_turns_writer_is_refused() {
    let fixture = Fixture::new().await;
    let other = with_setting(&fixture, "cache_size", "100").await;
    let mut deferred = sqlx::Acquire::begin(other.db().get_sqlite_connection_pool())
        .await
        .unwrap();
    let _: i64 = sqlx::query_scalar("select count(*) from postroom_outbox")
        .fetch_one(&mut *deferred)
        .await
        .unwrap();
    fixture.commit(&[event("in between")]).await;
    let error = postroom_sqlite::append(&mut deferred, &[event("refused")])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.report().contains("database is locked"), "{}", error.report());
}

#[tokio::test]
async fn a_lock_that_is_never_released_is_reported_as_unavailable() {
    let fixture = Fixture::new().await;
    let impatient = with_setting(&fixture, "cache_size", "100").await;
    let holding = fixture.store.begin().await.unwrap();
    let error = impatient.begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.report().contains("database is locked"), "{}", error.report());
    let error = table::begin(impatient.db()).await.unwrap_err();
    assert_eq!(
        (error.kind(), Fault::of(&error)),
        (ErrorKind::Unavailable, Fault::Locked)
    );
    drop(holding);
    impatient.begin().await.unwrap().rollback().await.unwrap();
}

/// SQLite does not wait when a file is switched to WAL while another connection writes to it in the old mode.
#[tokio::test]
async fn opening_waits_for_a_writer_of_the_old_journal_mode() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.db");
    let mut old = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql("create table t (a); begin immediate; insert into t values (1)")
        .execute(&mut old)
        .await
        .unwrap();
    let mut opening = Box::pin(crate::migrated(&file));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut opening).await;
    assert!(early.is_err(), "it waits while the file is locked");
    sqlx::raw_sql("commit").execute(&mut old).await.unwrap();
    assert_eq!(opening.await.pulse().await.unwrap().head, 0);
}

#[tokio::test]
async fn what_is_not_a_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(
        &file,
        "this is not a database, it only lies where one should be\n".repeat(100),
    )
    .unwrap();
    let error = Sqlite::open(file.to_str().unwrap()).await.unwrap_err();
    assert!(
        error.report().contains("notes.txt") && error.report().contains("not a database"),
        "{}",
        error.report()
    );
    let error = Sqlite::open("/dev/null/x/postroom.db").await.unwrap_err();
    assert!(
        error.report().contains("create the folder /dev/null/x"),
        "{}",
        error.report()
    );
}

/// SQLite does not check encodings; a row written by a careless program must not stop the log.
#[tokio::test]
async fn text_that_is_not_utf8_is_read_with_the_broken_character_replaced() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            "insert into postroom_outbox (event_type, aggregate_type, aggregate_id, payload)
             values ('a.b', 'a', cast(x'61ff62' as text), cast(x'22ff22' as text))",
        )
        .await;
    fixture.commit(&[event("next")]).await;
    let page = fixture.store.read(Position::START, 10).await.unwrap();
    assert_eq!(crate::names(&page), ["a\u{fffd}b", "next"]);
    assert_eq!(page.entries[0].event.payload.get(), "\"\u{fffd}\"");
}

/// SQLite takes half a character for JSON, as JavaScript writes a string that it has cut.
#[tokio::test]
async fn headers_that_cannot_be_read_are_left_out() {
    let fixture = Fixture::new().await;
    fixture
        .sql(
            r#"insert into postroom_outbox (event_type, aggregate_type, aggregate_id, payload, headers)
             values ('a.b', 'a', 'cut', '"\ud800"', '{"note":"\ud800"}')"#,
        )
        .await;
    fixture.commit(&[event("next")]).await;
    let page = fixture.store.read(Position::START, 10).await.unwrap();
    assert_eq!(crate::names(&page), ["cut", "next"]);
    assert!(page.entries[0].event.headers.is_empty());
}

/// By sqlx and by SeaORM.
#[tokio::test]
async fn an_error_in_a_handler_has_the_kind_of_its_code() {
    let fixture = Fixture::new().await;
    fixture
        .sql("create table orders (id integer primary key, total integer check (total > 0)); insert into orders values (1, 1)")
        .await;
    for (statement, kind, fault) in [
        ("insert into orders values (1, 1)", ErrorKind::Conflict, Fault::Other),
        ("insert into orders values (2, 0)", ErrorKind::Failed, Fault::Other),
        (
            "select 1 from postroom_nothing",
            ErrorKind::Failed,
            Fault::TablesMissing,
        ),
        ("select 1 from nothing", ErrorKind::Failed, Fault::Other),
        ("select 'database is locked' from", ErrorKind::Failed, Fault::Other),
    ] {
        let mut tx = table::begin(fixture.store.db()).await.unwrap();
        let by_sqlx = sqlx::query(statement).execute(tx.sqlite().unwrap()).await;
        let by_sqlx = Error::from(by_sqlx.unwrap_err());
        assert_eq!(
            (by_sqlx.kind(), Fault::of(&by_sqlx)),
            (kind, fault),
            "{statement}: {by_sqlx}"
        );
        let by_sea_orm = Error::from(tx.execute_unprepared(statement).await.unwrap_err());
        assert_eq!(
            (by_sea_orm.kind(), Fault::of(&by_sea_orm)),
            (kind, fault),
            "{statement}: {by_sea_orm}"
        );
    }
}
