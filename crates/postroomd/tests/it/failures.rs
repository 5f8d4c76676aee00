//! `postroom verify --failures` on each store and through each broker, for a short time; and the proof that it can fail: engines
//! with one thing wrong each are caught.
//!
//! Longer with `POSTROOM_TEST_FAULT_SECONDS`: `POSTROOM_TEST_FAULT_SECONDS=120 cargo xtask test -- -p postroomd --test it failures
//! -- --nocapture` shows what happened.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test harness: what is missing has failed, and what was found is shown"
)]

use std::time::Duration;

use postroom_testkit::interpreter::{Interpreter, WITHOUT_FENCE};
use postroom_testkit::{Fresh, fresh, redis_server};
use sea_orm::ConnectionTrait as _;
use serde_json::Value;
use tokio::time::timeout;

use crate::broker_fault::length;
use crate::harness::Place;

/// How many seconds the faults go on.
const SECONDS: u64 = 12;
/// The timeout for the delivery of parked events after the run.
const REST: Duration = Duration::from_secs(300);

/// Runs `verify --failures`; returns whether it succeeded, and its report.
async fn verify(store: &str, through: Option<&str>, seconds: u64) -> (bool, Value) {
    let (place, length) = (Place::new(), length(seconds));
    let seconds = length.as_secs().to_string();
    let mut arguments = vec![
        "verify",
        "--failures",
        "--json",
        "--seconds",
        &seconds,
        "--store",
        store,
    ];
    arguments.extend(["--writers", "4"]);
    arguments.extend(through.into_iter().flat_map(|url| ["--through", url]));
    let output = timeout(length + REST, place.command(&arguments).output()).await;
    let output = output.unwrap_or_else(|_| panic!("it does not end")).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no report: {said}"));
    println!("{report}\n{said}");
    (output.status.success(), report)
}

/// Nothing is lost, invented, doubled or out of order, and what must happen for that to mean something has happened.
async fn survives(store: &str, through: Option<&str>) {
    // Kills meet fewer effects that are not committed where one writes at a time.
    let times = if store.starts_with("sqlite") { 3 } else { 1 };
    let (is_content, report) = verify(store, through, SECONDS * times).await;
    for wrong in ["lost", "phantom", "double_effects", "order_violations"] {
        assert_eq!(report[wrong], 0, "{wrong}: {report}");
    }
    for happened in [
        "interrupted",
        "paused",
        "parked",
        "held",
        "retried",
        "discarded",
        "replayed",
    ] {
        assert!(report[happened].as_u64() > Some(0), "{happened}: {report}");
    }
    assert!(is_content, "{report}");
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run `cargo xtask test`"))
}

/// Forgets at once what was handled.
const WITHOUT_INBOX: &str = "
    create function forget_handled() returns trigger language plpgsql as $$
    begin
        return null;
    end $$;
    create trigger forget_handled before insert on postroom.event_handled
        for each row execute function forget_handled();
";

/// Parks an entry under a key of its own, so that nothing waits behind it.
const WITHOUT_LANES: &str = "
    create function lose_lane() returns trigger language plpgsql as $$
    begin
        new.aggregate_id := new.aggregate_id || '.' || new.id;
        return new;
    end $$;
    create trigger lose_lane before insert on postroom.outbox_parked
        for each row execute function lose_lane();
";

async fn postgres_with(sql: &str) -> Fresh {
    let fresh = fresh::postgres().await;
    fresh.db().execute_unprepared(sql).await.unwrap();
    fresh
}

/// A short run on a busy machine may not meet the fault: a twin has several runs to be caught in.
const RUNS_MAX: u32 = 4;

async fn is_caught(twin: &str, count: &str, seconds: u64) {
    let mut reports = Vec::new();
    for _ in 0..RUNS_MAX {
        let (is_content, report) = verify(twin, None, seconds).await;
        if !is_content && report[count].as_u64() > Some(0) {
            return;
        }
        reports.push(report);
    }
    panic!("{count} was 0 in every run: {reports:#?}");
}

/// Each starts several processes and kills them: on two cores, they leave no time to others. `cargo xtask test` runs them one at a
/// time, after all others.
mod alone {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite() {
        survives(&fresh::sqlite().await.url(), None).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres() {
        survives(&fresh::postgres().await.url(), None).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mysql() {
        survives(&fresh::mysql().await.url(), None).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_through_kafka() {
        let fresh = fresh::postgres().await;
        survives(&fresh.url(), Some(&variable("POSTROOM_TEST_KAFKA_URL"))).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_through_rabbitmq() {
        let fresh = fresh::postgres().await;
        survives(&fresh.url(), Some(&variable("POSTROOM_TEST_RABBITMQ_URL"))).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_through_redis_and_nothing_is_left_there() {
        let (fresh, server) = (fresh::postgres().await, redis_server::redis(&[]).await);
        survives(&fresh.url(), Some(&server.url())).await;
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let left: Vec<String> = redis::cmd("KEYS")
            .arg("*verify*")
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(left, Vec::<String>::new());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_engine_without_an_inbox_is_caught() {
        is_caught(&postgres_with(WITHOUT_INBOX).await.url(), "double_effects", SECONDS).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_engine_that_lets_later_events_of_a_parked_key_pass_is_caught() {
        is_caught(&postgres_with(WITHOUT_LANES).await.url(), "order_violations", SECONDS).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_engine_without_a_fence_is_caught() {
        let fresh = fresh::postgres().await;
        let url = fresh.url();
        let (_, rest) = url.split_once('@').unwrap();
        let (server, _) = rest.split_once('/').unwrap();
        let interpreter = Interpreter::before(server, WITHOUT_FENCE).await;
        let twin = url.replace(server, &interpreter.address.to_string());
        is_caught(&twin, "double_effects", SECONDS * 2).await; // so that it is paused more often
    }
}
