//! The guide's examples in other languages, run as they stand: what commits is an event, what rolls back is none.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use postroom::Position;
use postroom::table::{Table, named};
use postroom_testkit::{Fresh, fresh};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::Query;

const GUIDE: &str = "../../docs/guide/emit-from-other-languages.md";

/// The text of the guide's block with this title.
fn block(title: &str) -> String {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE)).unwrap();
    let mut lines = guide
        .lines()
        .skip_while(|line| !(line.starts_with("```") && line.ends_with(&format!("title={title}"))));
    assert!(lines.next().is_some(), "the guide has no block {title}");
    lines
        .take_while(|line| *line != "```")
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Runs a program on the block, which it gets as a file.
fn run(title: &str, program: &str, arguments: impl FnOnce(&str) -> Vec<String>, environment: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("example");
    fs::write(&file, block(title)).unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments(&file.display().to_string()))
        .envs(environment.iter().copied())
        .stdin(Stdio::from(fs::File::open(&file).unwrap()));
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("run {program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{title}: {said}");
}

fn python() -> String {
    std::env::var("POSTROOM_TEST_PYTHON")
        .expect("POSTROOM_TEST_PYTHON is not set: run `cargo xtask test`, or `eval \"$(cargo xtask services up)\"`")
}

/// Each example commits the order `…-1` and rolls back `…-2`.
async fn only_the_first_is_an_event(fresh: &Fresh, order: &str) {
    fresh.pulse().await.unwrap();
    let page = fresh.read(Position::START, 100).await.unwrap();
    let orders: Vec<&str> = page
        .entries
        .iter()
        .map(|entry| entry.event.aggregate_id.as_str())
        .collect();
    assert_eq!(orders, [order]);
    let entry = &page.entries[0];
    assert_eq!(entry.event.event_type, "shop.order.placed.v1");
    let payload: serde_json::Value = entry.event.decode().unwrap();
    assert_eq!(payload["order_id"], order);
}

/// Each example schedules the order `…-1`, and schedules and cancels `…-2`.
async fn only_the_first_waits(fresh: &Fresh, order: &str) {
    let mut select = Query::select();
    select.column("aggregate_id").from(named(fresh.db(), Table::Scheduled));
    let rows = fresh.db().query_all(&select).await.unwrap();
    let orders: Vec<String> = rows
        .iter()
        .map(|row| row.try_get("", "aggregate_id").unwrap())
        .collect();
    assert_eq!(orders, [order]);
    fresh.pulse().await.unwrap();
    let page = fresh.read(Position::START, 100).await.unwrap();
    assert!(page.entries.is_empty(), "an event has come before its time");
}

#[tokio::test]
async fn psql_schedules_and_emits_in_its_transaction() {
    let fresh = fresh::postgres().await;
    let url = fresh.url();
    let arguments = |file: &str| {
        vec![
            url.clone(),
            "-v".into(),
            "ON_ERROR_STOP=1".into(),
            "-f".into(),
            file.into(),
        ]
    };
    run("postgres-schedule", "psql", arguments, &[]);
    only_the_first_waits(&fresh, "psql-1").await;
    run("postgres-psql", "psql", arguments, &[]);
    only_the_first_is_an_event(&fresh, "psql-1").await;
}

#[tokio::test]
async fn psycopg_emits_in_its_transaction() {
    let fresh = fresh::postgres().await;
    run(
        "postgres-psycopg",
        &python(),
        |file| vec![file.into()],
        &[("DATABASE_URL", &fresh.url())],
    );
    only_the_first_is_an_event(&fresh, "psycopg-1").await;
}

#[tokio::test]
async fn the_mysql_client_schedules_and_emits_in_its_transaction() {
    let fresh = fresh::mysql().await;
    let url = fresh.url();
    let (server, database) = url.trim_start_matches("mysql://").split_once('/').unwrap();
    let (user, address) = server.split_once('@').unwrap();
    let (host, port) = address.split_once(':').unwrap();
    let user = user.split(':').next().unwrap();
    let arguments = ["-h", host, "-P", port, "-u", user, database]
        .map(str::to_owned)
        .to_vec();
    run("mysql-schedule", "mariadb", |_file| arguments.clone(), &[]);
    only_the_first_waits(&fresh, "mysql-1").await;
    run("mysql", "mariadb", |_file| arguments, &[]);
    only_the_first_is_an_event(&fresh, "mysql-1").await;
}

#[tokio::test]
async fn pymysql_emits_in_its_transaction() {
    let fresh = fresh::mysql().await;
    run(
        "mysql-pymysql",
        &python(),
        |file| vec![file.into()],
        &[("DATABASE_URL", &fresh.url())],
    );
    only_the_first_is_an_event(&fresh, "pymysql-1").await;
}

#[tokio::test]
async fn python_schedules_and_emits_in_sqlite_in_its_transaction() {
    let fresh = fresh::sqlite().await;
    let url = fresh.url();
    let file = [("DATABASE_FILE", url.trim_start_matches("sqlite://"))];
    run("sqlite-schedule", &python(), |file| vec![file.into()], &file);
    only_the_first_waits(&fresh, "sqlite-1").await;
    run("sqlite", &python(), |file| vec![file.into()], &file);
    only_the_first_is_an_event(&fresh, "sqlite-1").await;
}
