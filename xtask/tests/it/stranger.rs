//! A crate outside this workspace that depends on Postroom by path, as a user's crate does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program on plain sqlx: it names neither SeaORM nor `async_trait`.
const GOOD: &str = r#"
use std::sync::Arc;
use postroom::{CancellationToken, Database, DomainEvent, Event, Relay, Subscriber, Tx};
use postroom_postgres::Postgres;

#[derive(serde::Serialize, serde::Deserialize)]
struct OrderPlaced { order_id: String, total: i64 }

impl DomainEvent for OrderPlaced {
    const TYPE: &'static str = "shop.order.placed.v1";
    const AGGREGATE_TYPE: &'static str = "order";
    fn aggregate_id(&self) -> String { self.order_id.clone() }
}

async fn count(tx: &mut Tx, order: OrderPlaced) -> Result<(), sqlx::Error> {
    let connection = tx.postgres().expect("PostgreSQL");
    sqlx::query("update sales set total = total + $1").bind(order.total).execute(connection).await?;
    Ok(())
}

async fn log(_tx: &mut Tx, event: &Event) -> Result<(), std::io::Error> {
    println!("{}", event.id);
    Ok(())
}

async fn fold(_tx: &mut Tx, events: &[&Event]) -> postroom::Result<()> {
    println!("{}", events.len());
    Ok(())
}

async fn mail(db: &Database, event: &Event) -> postroom::Result<()> {
    let tx = db.begin().await?;
    println!("{}", event.id);
    tx.commit().await
}

#[tokio::main]
async fn main() -> postroom::Result<()> {
    let store = Arc::new(Postgres::connect("postgres://app@127.0.0.1/app").await?);
    store.migrate().await?;
    Relay::new(store)
        .subscriber(Subscriber::on::<OrderPlaced>("count", count))
        .subscriber(Subscriber::matching("log", ["shop.**"], log))
        .subscriber(Subscriber::in_batches("fold", ["shop.**"], fold))
        .subscriber(Subscriber::external("mail", ["shop.**"], mail))
        .run(CancellationToken::new())
        .await
}
"#;

/// A handler that takes its transaction as a shared reference.
const WRONG_TRANSACTION: &str = r#"
async fn log(_tx: &postroom::Tx, _event: &postroom::Event) -> postroom::Result<()> { Ok(()) }
fn main() { postroom::Subscriber::matching("log", ["shop.**"], log); }
"#;

/// A handler that returns nothing.
const WRONG_ANSWER: &str = r#"
async fn log(_tx: &mut postroom::Tx, _event: &postroom::Event) {}
fn main() { postroom::Subscriber::matching("log", ["shop.**"], log); }
"#;

/// Something that is no function.
const NO_FUNCTION: &str = r#"
fn main() { postroom::Subscriber::matching("log", ["shop.**"], 7); }
"#;

#[test]
fn a_crate_outside_the_workspace_builds_and_its_mistakes_are_explained() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = tempfile::tempdir().unwrap();
    let programs = [
        ("good", GOOD),
        ("wrong_transaction", WRONG_TRANSACTION),
        ("wrong_answer", WRONG_ANSWER),
        ("no_function", NO_FUNCTION),
    ];
    write(folder.path(), &root, &programs);
    let check = |program: &str| check(folder.path(), &root, program);

    let good = check("good");
    assert!(good.status.success(), "{}", words(&good));
    says(
        &check("wrong_transaction"),
        &["expected function signature `for<'a> fn(&'a mut Tx, &'a Event) -> _`"],
    );
    says(
        &check("wrong_answer"),
        &["to be a future that resolves to `Result<(), _>`"],
    );
    says(
        &check("no_function"),
        &[
            "`{integer}` is not a handler",
            "write an `async fn(&mut Tx, &Event) -> Result<(), E>`",
        ],
    );
}

fn write(folder: &Path, root: &Path, programs: &[(&str, &str)]) {
    let crates = root.join("crates").canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = \"stranger\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         postroom = {{ path = {:?} }}\npostroom-postgres = {{ path = {:?} }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n\
         sqlx = {{ version = \"0.9\", default-features = false, features = [\"postgres\"] }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n",
        crates.join("postroom"),
        crates.join("postroom-postgres"),
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    fs::create_dir_all(folder.join("src/bin")).unwrap();
    for (name, text) in programs {
        fs::write(folder.join(format!("src/bin/{name}.rs")), text).unwrap();
    }
}

fn check(folder: &Path, root: &Path, program: &str) -> Output {
    Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--bin", program])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", root.join("target/stranger"))
        .output()
        .unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The compiler refuses the program, and says these words.
fn says(output: &Output, expected: &[&str]) {
    assert!(!output.status.success(), "it compiles");
    let words = words(output);
    for part in expected {
        assert!(words.contains(part), "{part:?} is not in:\n{words}");
    }
}
