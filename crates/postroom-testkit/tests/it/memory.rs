//! How much memory a relay takes when everything is large and fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, Delays, Destination, Event, Receipt, Relay, Retry, Route, To, append, operate, table};
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use tokio_util::sync::CancellationToken;

const ROUTES: usize = 20;
const EVENTS: usize = 100;
const RSS_KIB_MAX: u64 = 200 << 10;
/// Entries are retried while others are still parked, but not so often that parking takes minutes.
const RETRY: Duration = Duration::from_secs(3);

/// Refuses everything, after a moment in which it has it in memory.
#[derive(Debug, Default)]
struct Refusing(AtomicUsize);

#[async_trait]
impl Destination for Refusing {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.0.fetch_add(batch.entries.len(), SeqCst);
        vec![Receipt::Refused("too large for me".into()); batch.entries.len()]
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_large_events_parked_by_each_of_twenty_routes_fit_into_200_mb() {
    const ALONE: &str = "POSTROOM_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // Memory is the process's: a process that runs this test alone, so that no other test is measured with it.
        let name = "memory::a_hundred_large_events_parked_by_each_of_twenty_routes_fit_into_200_mb";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let status = alone
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let fresh = fresh::postgres().await;
    for n in 0..EVENTS {
        let text = format!("\"{}\"", "x".repeat(999_000));
        let payload = postroom::parse_payload(&text).unwrap();
        let event = Event::new("suite.large.v1", "suite", n.to_string(), payload).unwrap();
        let tx = table::begin(fresh.db()).await.unwrap();
        append(&tx, &[event]).await.unwrap();
        tx.commit().await.unwrap();
    }
    let refusing = Arc::new(Refusing::default());
    let mut relay = Relay::new(fresh.store());
    for n in 0..ROUTES {
        relay = relay.route(Route {
            retry: Retry {
                delays: Delays::Fixed(RETRY),
                attempts_max: None,
                age_max: None,
            },
            ..Route::new(format!("r{n}"), To::Destination(Arc::<Refusing>::clone(&refusing)))
        });
    }
    let mut peak = 0;
    let mut sees = |what: &str| {
        peak = Ord::max(peak, resident_kib());
        assert!(peak < RSS_KIB_MAX, "{peak} KiB while {what}");
        peak
    };
    let stop = CancellationToken::new();
    let watch = async {
        let parked = async || -> u64 {
            let routes = operate::status(&*fresh).await.unwrap().routes;
            routes.iter().map(|route| route.retrying).sum()
        };
        let all_parked = async {
            while parked().await < (ROUTES * EVENTS) as u64 {
                sees("events are parked");
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        };
        // Two gigabytes are written.
        let in_time = tokio::time::timeout(Duration::from_secs(300), all_parked).await;
        in_time.expect("all are parked in time");
        let tried = refusing.0.load(SeqCst);
        until("they are retried", || {
            sees("events are retried");
            async { refusing.0.load(SeqCst) > tried + 3 * ROUTES }
        })
        .await;
        println!("{} KiB at most", sees("at the end"));
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay.run(stop.clone()), watch);
    ended.unwrap();
}
