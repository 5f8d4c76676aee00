//! When routes stand still, the process says so soon, and names the cause first.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use std::io::Write as _;
use std::time::{Duration, Instant};

use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait as _, TransactionTrait as _};
use serde_json::Value;

use crate::harness::{Daemon, Place};

/// Twenty seconds are promised; a busy machine gets some more.
const SOON: Duration = Duration::from_secs(30);

async fn relay_on(place: &Place, url: &str) -> Daemon {
    place.configure(&format!("[store]\nurl = \"{url}\"\n[modules.hello]\nenabled = true\n"));
    place.ok(&["migrate"]).await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    relay.wait_for("/health/ready", |code, _| code == 200).await;
    place
        .wait_for_route("hello-receipts", |route| route["is_leased"] == true)
        .await;
    relay
}

/// Waits until `/health/ready` reports `wanted` as its first trouble, and returns that report.
async fn first_trouble(relay: &Daemon, since: Instant, wanted: &str) -> String {
    let is_told = |code, body: &str| code == 503 && first(body).contains(wanted);
    let health = relay.wait_for("/health/ready", is_told).await;
    assert!(since.elapsed() < SOON, "it took {:?}: {health}", since.elapsed());
    first(&health)
}

fn first(health: &str) -> String {
    let health: Value = serde_json::from_str(health).unwrap();
    health["troubles"][0].as_str().unwrap_or_default().to_owned()
}

/// Asks `why`, run by another program if need be, until its first reason is of this kind.
async fn until_why_begins(place: &Place, runner: &[&str], store: &str, what: &str) -> Value {
    let deadline = Instant::now() + SOON;
    loop {
        let mut why = place.command_with(runner, &["why", "--json", "--store", store]);
        let said = why.output().await.unwrap();
        let reasons: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        if reasons[0]["what"] == what {
            return reasons;
        }
        assert!(Instant::now() < deadline, "why does not begin with {what}: {said:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn the_blocking_transaction_is_named_first(fresh: Fresh, lock: &str) {
    let place = Place::new();
    let relay = relay_on(&place, &fresh.url()).await;
    let writers = fresh.writers(1).await;
    let blocker = writers.begin().await.unwrap();
    blocker.execute_unprepared(lock).await.unwrap();
    let since = Instant::now();
    let reasons = until_why_begins(&place, &[], &fresh.url(), "blocking").await;
    assert!(reasons[0]["says"].as_str().unwrap().contains("wait"), "{reasons}");
    let trouble = first_trouble(&relay, since, "has a transaction open").await;
    assert!(trouble.contains("end that session"), "{trouble}");
    blocker.rollback().await.unwrap();
    relay.wait_for("/health/ready", |code, _| code == 200).await;
    relay.stop().await;
}

#[tokio::test]
async fn a_locked_table_is_told_with_who_holds_it_on_postgres() {
    let lock = "lock table postroom.outbox_cursor in access exclusive mode";
    the_blocking_transaction_is_named_first(fresh::postgres().await, lock).await;
}

#[tokio::test]
async fn locked_rows_are_told_with_who_holds_them_on_mysql() {
    let lock = "update postroom_outbox_cursor set is_paused = is_paused";
    the_blocking_transaction_is_named_first(fresh::mysql().await, lock).await;
}

/// The store lies on a file system of eight megabytes, which only the daemon's mount namespace has.
#[tokio::test]
async fn a_full_disk_is_named_first_on_sqlite() {
    let place = Place::new();
    let folder = place.path().join("postroom-data");
    std::fs::create_dir(&folder).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=8m tmpfs {} && exec \"$0\" \"$@\"",
        folder.display()
    );
    let up = place
        .start_with(
            &["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &mount],
            &["up"],
        )
        .await;
    up.wait_for("/health/ready", |code, _| code == 200).await;
    let inside = format!("/proc/{}/root{}", up.pid(), folder.display());
    let filler = format!("{inside}/filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let since = Instant::now();
    let trouble = first_trouble(&up, since, "disk is full").await;
    assert!(trouble.contains("make room"), "{trouble}");
    let (code, answer) = up
        .request(
            "POST",
            "/hello/orders",
            r#"{"customer":"ada","item":"lamp","quantity":1}"#,
        )
        .await;
    assert_eq!(code, 503, "{answer}");
    assert!(answer.contains("disk is full and nothing was recorded"), "{answer}");
    let pid = up.pid().to_string();
    let inside = [
        "nsenter",
        "--target",
        &pid,
        "--user",
        "--mount",
        "--preserve-credentials",
    ];
    let store = format!("sqlite://{}", folder.join("postroom.db").display());
    until_why_begins(&place, &inside, &store, "lapsed").await;
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    up.wait_for("/health/ready", |code, _| code == 200).await;
    up.stop().await;
}
