//! A dump restored elsewhere brings ticks whose xids mean nothing there.

use std::fs::File;
use std::process::{Command, Stdio};

use postroom::{Outbox, Position, Prune};
use postroom_postgres::append;

use crate::fresh::{Fresh, admin, drain, event, texts, url};

/// A database with something delivered, something late, and something no tick has seen; and the position of its reader.
async fn original() -> (Fresh, Position) {
    let db = Fresh::new().await;
    let mut position = Position::START;
    let mut slow = db.begin().await;
    append(&mut slow, &[event("a", "late")]).await.unwrap();
    db.commit(&["delivered"]).await;
    assert_eq!(db.texts(&mut position).await, ["delivered"]);
    db.cursor("route", position).await;
    slow.commit().await.unwrap();
    db.commit(&["unseen"]).await;
    (db, position)
}

async fn copy_of(db: &Fresh) -> Fresh {
    db.writers.close().await;
    let name = format!("{}_copy", db.name);
    // The template must have no sessions.
    admin(&format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{}'",
        db.name
    ))
    .await;
    admin(&format!("create database {name} template {}", db.name)).await;
    Fresh::open(name).await
}

#[tokio::test]
async fn a_copy_reads_on_exactly_once() {
    let (db, mut position) = original().await;
    let copy = copy_of(&db).await;
    // As if from a cluster that had come further: every xid given out here looks old.
    copy.sql("update postroom.outbox_tick set snapshot = '900000000:900000000:' where n = 1")
        .await;
    copy.commit(&["before the re-base"]).await;
    let got = copy.texts(&mut position).await;
    // The last tick now claims to have seen all that its old cluster had written; what it had not is told apart by id.
    assert_eq!(got, ["unseen", "before the re-base"]);
    copy.commit(&["after"]).await;
    assert_eq!(copy.texts(&mut position).await, ["after"]);
    assert_eq!(
        copy.number("select max(era)::bigint from postroom.outbox_tick").await,
        3,
        "re-based once"
    );
    assert_eq!(
        copy.texts(&mut Position::START.clone()).await.len(),
        5,
        "the start still reads everything"
    );
}

#[tokio::test]
async fn a_late_row_survives_the_move() {
    let (db, mut position) = original().await;
    let copy = copy_of(&db).await;
    copy.commit(&["before the re-base"]).await;
    assert_eq!(
        copy.texts(&mut position).await,
        ["late", "unseen", "before the re-base"]
    );
    copy.commit(&["after"]).await;
    assert_eq!(copy.texts(&mut position).await, ["after"]);
    copy.cursor("route", position).await;
    let all = Prune {
        keep: std::time::Duration::ZERO,
        batch: 100,
        archive: false,
    };
    assert_eq!(copy.store.prune(&all).await.unwrap(), 5, "rows of both eras go");
}

#[tokio::test]
async fn a_cursor_inside_a_window_survives_the_move() {
    let db = Fresh::new().await;
    db.commit(&["1", "2", "3", "4"]).await;
    db.pulse().await;
    let page = db.store.read(Position::START, 2).await.unwrap();
    let copy = copy_of(&db).await;
    copy.commit(&["5"]).await;
    assert_eq!(copy.texts(&mut page.next.clone()).await, ["3", "4", "5"]);
    assert_eq!(
        copy.texts(&mut page.after(page.entries[0].id).clone()).await,
        ["2", "3", "4", "5"]
    );
}

#[tokio::test]
async fn rivals_re_base_once() {
    let (db, position) = original().await;
    let copy = copy_of(&db).await;
    let stores = [copy.second().await, copy.second().await, copy.second().await];
    for pulse in futures::future::join_all(stores.iter().map(|store| store.pulse())).await {
        pulse.unwrap();
    }
    assert_eq!(
        copy.number("select max(era)::bigint from postroom.outbox_tick").await,
        3
    );
    assert_eq!(
        texts(&drain(&stores[2], &mut position.clone(), 10).await),
        ["late", "unseen"]
    );
}

#[tokio::test]
async fn a_restored_dump_reads_on_exactly_once() {
    let (db, mut position) = original().await;
    let name = format!("{}_restored", db.name);
    admin(&format!("create database {name}")).await;
    let mut dump = client("pg_dump");
    dump.args(["--dbname", &url(&db.name)]);
    let status = dump.stdout(File::create(dump_file(&name)).unwrap()).status();
    assert!(status.unwrap().success());
    let mut load = client("psql");
    load.args(["--quiet", "--set=ON_ERROR_STOP=1", "--dbname", &url(&name)]);
    let status = load
        .stdin(File::open(dump_file(&name)).unwrap())
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    std::fs::remove_file(dump_file(&name)).unwrap();

    let restored = Fresh::open(name).await;
    restored.commit(&["new"]).await;
    assert_eq!(restored.texts(&mut position).await, ["late", "unseen", "new"]);
    assert_eq!(
        db.texts(&mut db.store.head().await.unwrap()).await,
        ["late", "unseen"],
        "the original is not touched"
    );
}

/// A client program as new as the server. `cargo xtask` names a folder, or for newer servers a command that ends with one.
fn client(program: &str) -> Command {
    if let Ok(words) = std::env::var("POSTROOM_TEST_POSTGRES_CLIENTS") {
        let (run, folder) = words.rsplit_once(' ').unwrap();
        let (run, argument) = run.split_once(' ').unwrap();
        let mut command = Command::new(run);
        command.arg(argument).arg(format!("{folder}/{program}"));
        return command;
    }
    let folder = std::env::var("POSTROOM_TEST_POSTGRES_BIN").map_or_else(|_| String::new(), |folder| folder + "/");
    Command::new(format!("{folder}{program}"))
}

fn dump_file(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("{name}.sql"))
}
