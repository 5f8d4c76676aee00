//! Looking changes nothing: every command that only looks works for a user that may only read.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use uuid::Uuid;

use crate::harness::{Place, Said};

/// The user `nobody`: a test that runs as root would otherwise be allowed everything.
const NOBODY: u32 = 65_534;

const LOOKS: [&[&str]; 11] = [
    &["status"],
    &["status", "--json"],
    &["why"],
    &["why", "--json"],
    &["tail"],
    &["dead", "list"],
    &["dead", "show", "1"],
    &["doctor"],
    &["catalog", "list"],
    &["replay", "list"],
    &["replay", "--route", "hello-receipts", "--all", "--dry-run"],
];

/// A store with an event that was handled, one that was given up, and one that no relay has seen yet.
async fn furnish(place: &Place, url: &str) -> String {
    place.configure(&format!("[store]\nurl = \"{url}\"\n[modules.hello]\nenabled = true\n"));
    place.ok(&["migrate"]).await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    place.emit("1", r#"{"no":"order"}"#).await;
    place.wait_for_route("hello-receipts", |route| route["dead"] == 1).await;
    place.wait_for_route("hello-flaky", |route| route["dead"] == 1).await;
    relay.stop().await;
    place.emit("2", r#"{"no":"order"}"#).await
}

/// Every look succeeds for the restricted user, and shows the event that no relay has seen.
async fn all_looks_work(look: impl AsyncFn(&[&str]) -> Said, waiting: &str) {
    for arguments in LOOKS {
        let said = look(arguments).await;
        assert_eq!(said.code, Some(0), "{arguments:?}: {}{}", said.out, said.err);
    }
    let tail = look(&["tail"]).await.out;
    assert!(tail.contains(waiting), "{tail}");
    let way = look(&["why", waiting]).await;
    assert!(way.out.contains("pending"), "{}{}", way.out, way.err);
    let status = look(&["status", "--json"]).await.out;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["routes"][0]["backlog"], 1, "{status}");
    let acted = look(&["pause", "hello-receipts"]).await;
    assert_eq!(acted.code, Some(1), "this user may not write: {}", acted.out);
}

/// The row count of each table, to compare before and after.
async fn counts(db: &DatabaseConnection, tables: &[&str]) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in tables {
        let sql = format!("select count(*) as rows_there from {table}");
        let row = db.query_one_raw(sea_orm::Statement::from_string(db.get_database_backend(), sql));
        counts.push(row.await.unwrap().unwrap().try_get("", "rows_there").unwrap());
    }
    counts
}

/// The same address for another user, who has no password.
fn as_user(url: &str, user: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    format!("{scheme}://{user}@{place}")
}

async fn looks_alone(fresh: Fresh, grants: impl Fn(&str) -> Vec<String>, tables: &[&str]) -> String {
    let place = Place::new();
    let waiting = furnish(&place, &fresh.url()).await;
    let user = format!("watcher_{}", &Uuid::now_v7().simple().to_string()[16..]);
    for grant in grants(&user) {
        fresh.db().execute_unprepared(&grant).await.unwrap();
    }
    let before = counts(fresh.db(), tables).await;
    let url = as_user(&fresh.url(), &user);
    all_looks_work(
        async |arguments| place.run(&[arguments, &["--store", &url]].concat()).await,
        &waiting,
    )
    .await;
    assert_eq!(counts(fresh.db(), tables).await, before, "looking has written");
    let doctor = place.ok(&["doctor", "--store", &url]).await;
    let revokes = [format!("drop owned by {user}"), format!("drop user {user}")];
    for revoke in revokes.iter().skip(usize::from(url.starts_with("mysql"))) {
        fresh.db().execute_unprepared(revoke).await.unwrap();
    }
    doctor
}

#[tokio::test]
async fn a_role_that_may_only_select_can_monitor_postgres() {
    let grants = |user: &str| {
        vec![
            format!("create role {user} login"),
            format!("grant usage on schema postroom to {user}"),
            format!("grant select on all tables in schema postroom to {user}"),
        ]
    };
    let tables = ["postroom.outbox_tick", "postroom.outbox", "postroom.migration"];
    let doctor = looks_alone(fresh::postgres().await, grants, &tables).await;
    assert!(doctor.contains("may not see the open transactions"), "{doctor}");
    assert!(doctor.contains("grant pg_read_all_stats"), "{doctor}");
}

#[tokio::test]
async fn a_user_that_may_only_select_can_monitor_mysql() {
    let fresh = fresh::mysql().await;
    let database = fresh.url().rsplit_once('/').unwrap().1.to_owned();
    let grants = |user: &str| {
        vec![
            format!("create user {user}"),
            format!("grant select on {database}.* to {user}"),
        ]
    };
    let tables = ["postroom_incoming", "postroom_outbox", "postroom_migration"];
    let doctor = looks_alone(fresh, grants, &tables).await;
    assert!(doctor.contains("may not see open transactions"), "{doctor}");
    assert!(doctor.contains("grant process"), "{doctor}");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs a command as a user who owns nothing here.
async fn as_nobody(place: &Place, arguments: &[&str]) -> Said {
    let mut command = place.command(arguments);
    if std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().await.unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test]
async fn a_file_that_may_only_be_read_can_be_monitored_on_sqlite() {
    let place = Place::new();
    let folder = place.path().join("data");
    let file = folder.join("postroom.db");
    let url = format!("sqlite://{}", file.display());
    let waiting = furnish(&place, &url).await;
    set_mode(place.path(), 0o755);
    looks_at_files(&place, &folder, &waiting).await; // the log is still beside the file
    let db = sea_orm::Database::connect(&url).await.unwrap();
    db.execute_unprepared("pragma wal_checkpoint(truncate)").await.unwrap();
    db.close().await.unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "the log is folded in");
    looks_at_files(&place, &folder, &waiting).await;
}

async fn looks_at_files(place: &Place, folder: &Path, waiting: &str) {
    let contents = || {
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        // SQLite records its readers in the shared-memory file, so reading changes it.
        let lasting = files.filter(|file| file.extension().is_none_or(|kind| kind != "db-shm"));
        let mut contents: Vec<_> = lasting.map(|file| (std::fs::read(&file).unwrap(), file)).collect();
        contents.sort_by_key(|(_, file)| file.clone());
        contents
    };
    let before = contents();
    // A new store is its owner's alone; an administrator lets others read it.
    let let_read = |file: std::io::Result<std::fs::DirEntry>| set_mode(&file.unwrap().path(), 0o444);
    std::fs::read_dir(folder).unwrap().for_each(let_read);
    set_mode(folder, 0o555);
    all_looks_work(async |arguments| as_nobody(place, arguments).await, waiting).await;
    set_mode(folder, 0o755);
    before.iter().for_each(|(_, file)| set_mode(file, 0o644));
    assert!(contents() == before, "looking has changed the files");
}

/// A look at an empty database says what is missing, and leaves it empty.
#[tokio::test]
async fn a_look_at_an_empty_database_leaves_it_empty() {
    let place = Place::new();
    let file = place.path().join("empty.db");
    std::fs::write(&file, []).unwrap();
    let url = format!("sqlite://{}", file.display());
    for arguments in [&["status"][..], &["why"], &["tail"], &["dead", "list"], &["doctor"]] {
        let said = place.run(&[arguments, &["--store", &url]].concat()).await;
        assert_eq!(said.code, Some(1), "{}", said.out);
        assert!(
            format!("{}{}", said.out, said.err).contains("postroom migrate"),
            "{}",
            said.err
        );
    }
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
}
