//! Clauses about fairness: what operators do, and what fails, delays no event that has nothing to do with it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom::dead::{self, Selection};
use postroom::{Batch, Destination, Receipt, Route, To, operate};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::fixture::{Noted, Office, Scripted, quick};
use crate::Fresh;

/// Dead letters that are retried together.
const LETTERS: u32 = 30_000;
/// How long a new event may take meanwhile, on a busy machine.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// A destination that is slow with the key of each dead letter, and notes when new events arrive.
#[derive(Debug, Default)]
struct Slow {
    retried: AtomicUsize,
    arrived: Mutex<Vec<String>>,
}

#[async_trait]
impl Destination for Slow {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        for entry in batch.entries {
            let noted: Noted = entry.event.decode().expect("a note");
            if noted.note == "dead" {
                self.retried.fetch_add(1, SeqCst);
            } else {
                self.arrived
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(noted.note);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // what any destination takes
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

impl Slow {
    fn has(&self, note: &str) -> bool {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.iter().any(|known| known == note)
    }
}

/// Emits one event after the other and waits for each; answers the longest wait.
async fn longest_delay(office: &Office, slow: &Slow, is_over: impl AsyncFn() -> bool) -> Duration {
    let (mut longest, mut n) = (Duration::ZERO, 0);
    while n == 0 || !is_over().await {
        let note = format!("new {}", Uuid::now_v7());
        let begun = Instant::now();
        office.emit(&[("new", &note)]).await;
        office.until("the new event arrives", async || slow.has(&note)).await;
        longest = longest.max(begun.elapsed());
        n += 1;
    }
    longest
}

/// As many dead letters as the one there is, each of a key of its own.
fn copies_of_the_letter(prefix: &str, count: u32) -> String {
    let kept =
        "route, shard, event_id, event_type, source, aggregate_type, payload, headers, occurred_at, created_at, error";
    format!(
        "insert into {prefix}outbox_failed ({kept}, id, aggregate_id, state) select {kept}, id + n, cast(n as char(9)), 'dead' \
         from {prefix}outbox_failed, {} numbers where n <= {count}",
        super::fixture::numbers()
    )
}

/// After an operator has retried thousands of dead letters, new events of other keys arrive as always. `POSTROOM_TEST_DEAD_LETTERS` says
/// how many, up to 100,000.
pub async fn a_big_retry_delays_no_new_event(fresh: Fresh) {
    let asked = std::env::var("POSTROOM_TEST_DEAD_LETTERS").ok();
    let count: u32 = asked.map_or(LETTERS, |count| count.parse().expect("a number"));
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("sink").fails_on("dead");
    office.start(office.relay().subscriber(script.subscriber(1)));
    office.emit(&[("first", "dead")]).await;
    let letters = "select count(*) from postroom.outbox_failed";
    office
        .until("it is dead", async || office.number(letters).await == 1)
        .await;
    office.stop().await;
    office.execute(&copies_of_the_letter(office.prefix(), count)).await;
    let begun = Instant::now();
    let retried = dead::retry(office.fresh.db(), &Selection::default(), "me").await;
    assert_eq!(retried.expect("retry"), u64::from(count) + 1);
    println!("{count} dead letters were put back in {:?}", begun.elapsed());
    let slow = Arc::new(Slow::default());
    let route = Route::new("sink", To::Destination(Arc::<Slow>::clone(&slow)));
    office.start(office.relay().route(route));
    let begun = Instant::now();
    let is_over = async || begun.elapsed() > Duration::from_secs(5);
    let longest = longest_delay(&office, &slow, is_over).await;
    let delivered = slow.retried.load(SeqCst);
    println!(
        "{delivered} of them were delivered in {:?}; a new event took {longest:?} at most",
        begun.elapsed()
    );
    assert!(longest < DELAY_MAX, "a new event took {longest:?}");
    assert!(delivered > 0, "and the dead letters go on meanwhile");
    office.stop().await;
}

/// A destination that refuses the key `stuck`.
#[derive(Debug, Default)]
struct Refusing(Slow);

#[async_trait]
impl Destination for Refusing {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let receipts = self.0.deliver(batch).await;
        let refuse = |entry: &&postroom::Entry| entry.event.aggregate_id.starts_with("stuck");
        let judge = |(entry, receipt): (&&postroom::Entry, Receipt)| match refuse(entry) {
            true => Receipt::Refused("not now".into()),
            false => receipt,
        };
        batch.entries.iter().zip(receipts).map(judge).collect()
    }
}

/// An operator who pauses and resumes other routes again and again delays no event, although rows are parked.
pub async fn pausing_other_routes_delays_no_event(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let refusing = Arc::new(Refusing::default());
    let route = Route {
        retry: quick(1_000_000),
        ..Route::new("busy", To::Destination(Arc::<Refusing>::clone(&refusing)))
    };
    let other = Route::new("other", To::Destination(Arc::new(Slow::default())));
    office.start(office.relay().route(route).route(other));
    let stuck: Vec<String> = (0..300).map(|n| format!("stuck{n}")).collect();
    let pairs: Vec<(&str, &str)> = stuck.iter().map(|key| (key.as_str(), "dead")).collect();
    office.emit(&pairs).await;
    let parked = "select count(*) from postroom.outbox_parked where route = 'busy'";
    office
        .until("all are parked", async || office.number(parked).await == 300)
        .await;
    let begun = Instant::now();
    let is_over = async || begun.elapsed() > Duration::from_secs(2);
    let calm = longest_delay(&office, &refusing.0, is_over).await;
    let over = CancellationToken::new();
    let store = office.store();
    let pausing = async {
        let mut is_paused = true;
        while !over.is_cancelled() {
            let paused = operate::set_paused(&*store, "other", is_paused, "me").await;
            paused.expect("pause or resume");
            is_paused = !is_paused;
        }
    };
    let begun = Instant::now();
    let measuring = async {
        let is_over = async || begun.elapsed() > Duration::from_secs(4);
        let longest = longest_delay(&office, &refusing.0, is_over).await;
        over.cancel();
        longest
    };
    let ((), longest) = tokio::join!(pausing, measuring);
    println!("an event took {calm:?} at most before, and {longest:?} while an operator was at work");
    // On a busy machine both take longer; a line that loads its state with each act of the operator takes many times as long.
    assert!(
        longest < DELAY_MAX / 2 + 3 * calm,
        "an event took {longest:?}, and {calm:?} before"
    );
    office.stop().await;
}
