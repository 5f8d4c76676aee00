//! Clauses about statements that wait for a lock, and about processes that stand still inside a transaction. They need a database
//! that locks single rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom::{
    BoxError, Event, Fault, Handler, Idempotency, Outbox, Relay, Result, Subscriber, Trouble, Tx, clock, table,
};
use sea_orm::ConnectionTrait;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::fixture::{DEADLINE, Noted, Office, Scripted, noted};
use crate::Fresh;

/// More than any pool that lines could share by chance.
const BLOCKED: usize = 20;
/// Several leases of the suite.
const LOCKED: Duration = Duration::from_secs(12);
/// Events whose way is timed while locks are held.
const LOOKS: usize = 100;
/// An event that nothing holds up has its effect within this time, on a busy machine too.
const SOON: Duration = Duration::from_secs(5);

/// Handlers that wait for a locked row, and an open `cancel`, hold up their own subscribers and events only: the others have their
/// effects soon, no lease is lost, scheduled events are released. When the locks are gone, every event arrives.
pub async fn a_locked_table_holds_up_only_its_own_subscribers(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.execute("create table suite_locked (n int not null)").await;
    office.execute("insert into suite_locked (n) values (0)").await;
    let waiting = (0..BLOCKED).map(|n| Subscriber::matching(format!("waits-{n}"), ["suite.**"], count_locked));
    let relay = waiting.fold(office.relay(), |relay, subscriber| relay.subscriber(subscriber));
    office.start(relay.subscriber(Scripted::new("free").subscriber(3)));
    let before = latencies(&office, LOOKS, Duration::ZERO).await;
    let counted = "select n from suite_locked";
    let all = async |count: usize| office.number(counted).await == i64::try_from(count * BLOCKED).unwrap_or(0);
    office
        .until("all have their effects", async || all(before.len()).await)
        .await;
    let epoch = "select max(epoch) from postroom.outbox_cursor";
    assert_eq!(office.number(epoch).await, 1);

    let cancelling = cancel_and_stay_open(&office).await;
    let lock = table::begin(office.fresh.db()).await.expect("begin");
    let locked = lock.execute_unprepared("update suite_locked set n = n").await;
    locked.expect("lock");
    let during = latencies(&office, LOOKS, locked_for() / u32::try_from(LOOKS).unwrap_or(1)).await;
    let part = |sorted: &[Duration], percent: usize| sorted.get(sorted.len() * percent / 100 - 1).copied();
    println!(
        "p50, p99: {:?}, {:?} before the lock; {:?}, {:?} during the lock of {:?}",
        part(&before, 50),
        part(&before, 99),
        part(&during, 50),
        part(&during, 99),
        locked_for()
    );
    assert!(
        during.last() < Some(&SOON),
        "an event waited for a lock of another subscriber"
    );
    assert_eq!(office.number(epoch).await, 1, "a lease was lost");

    lock.rollback().await.expect("unlock");
    cancelling.commit().await.expect("cancel");
    let count = before.len() + during.len();
    office.until("every event has arrived", async || all(count).await).await;
    office.stop().await;
}

/// How long the locks are held: several leases of the suite, or as long as somebody wants to know.
fn locked_for() -> Duration {
    let seconds = std::env::var("POSTROOM_TEST_LOCKED_SECONDS").ok();
    seconds
        .and_then(|text| text.parse().ok())
        .map_or(LOCKED, Duration::from_secs)
}

/// Schedules events that are due at once, one after the other, and answers how long each took to have its effect, sorted.
async fn latencies(office: &Office, count: usize, pause: Duration) -> Vec<Duration> {
    let mut latencies = Vec::new();
    for _ in 0..count {
        let (begun, known) = (Instant::now(), office.effects("free").await.len());
        schedule_now(office, &known.to_string()).await;
        let has_effect = async || office.effects("free").await.len() > known;
        office.until("the free subscriber has its effect", has_effect).await;
        latencies.push(begun.elapsed());
        tokio::time::sleep(pause.saturating_sub(begun.elapsed())).await;
    }
    latencies.sort_unstable();
    latencies
}

/// A transaction that has cancelled an event which is due.
async fn cancel_and_stay_open(office: &Office) -> Tx {
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    let soon = clock::now() + Duration::from_secs(1);
    let id = postroom::emit_at(&tx, &noted("cancelled", "cancelled"), soon)
        .await
        .expect("schedule");
    tx.commit().await.expect("commit");
    let cancelling = table::begin(office.fresh.db()).await.expect("begin");
    assert!(postroom::cancel(&cancelling, id).await.expect("cancel"));
    cancelling
}

async fn schedule_now(office: &Office, note: &str) {
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    let scheduled = postroom::emit_at(&tx, &noted(note, note), clock::now()).await;
    scheduled.expect("schedule");
    tx.commit().await.expect("commit");
}

async fn count_locked(tx: &mut Tx, _event: &Event) -> Result<()> {
    tx.execute_unprepared("update suite_locked set n = n + 1").await?;
    Ok(())
}

/// A free lease whose row another session has locked is named as what is wrong, although no line ever worked here.
pub async fn a_lease_that_cannot_be_taken_is_named(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let relay = |office: &Office| office.relay().subscriber(Scripted::new("s").subscriber(3));
    office.start(relay(&office));
    office.emit(&[("k", "first")]).await;
    office.expect("s", &["first"]).await;
    office.stop().await;
    let lock = table::begin(office.fresh.db()).await.expect("begin");
    let row = format!("update {}outbox_cursor set is_paused = is_paused", office.prefix());
    lock.execute_unprepared(&row).await.expect("lock a lease");
    let posts = relay(&office);
    let health = posts.health();
    office.start(posts);
    let is_named = || {
        let is_locked = |trouble: &Trouble| matches!(trouble, Trouble::Store { fault: Fault::Locked, says } if says.contains("\"s\""));
        health.troubles().iter().any(is_locked)
    };
    let named = tokio::time::timeout(Duration::from_secs(20), async {
        while !is_named() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert!(
        named.await.is_ok(),
        "the locked lease is not named within 20 s: {:?}",
        health.troubles()
    );
    lock.rollback().await.expect("unlock");
    office.emit(&[("k", "second")]).await;
    office.expect("s", &["first", "second"]).await;
    office
        .until("nothing is wrong any more", async || health.troubles().is_empty())
        .await;
    office.stop().await;
}

/// A session that locks the row of one lease keeps neither the other leases from being renewed nor their routes from working.
pub async fn a_locked_lease_keeps_no_other_from_being_renewed(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let relay = ["locked", "free"].into_iter().fold(office.relay(), |relay, who| {
        relay.subscriber(Scripted::new(who).subscriber(3))
    });
    office.start(relay);
    office.emit(&[("k", "0")]).await;
    office.expect("locked", &["0"]).await;
    office.expect("free", &["0"]).await;
    let lock = table::begin(office.fresh.db()).await.expect("begin");
    let row = format!(
        "update {}outbox_cursor set is_paused = is_paused where route = 'locked'",
        office.prefix()
    );
    lock.execute_unprepared(&row).await.expect("lock a lease");
    let (locked, mut slowest, mut count) = (Instant::now(), Duration::ZERO, 1);
    while locked.elapsed() < LOCKED {
        let emitted = Instant::now();
        office.emit(&[("k", count.to_string().as_str())]).await;
        count += 1;
        let has_effect = async || office.effects("free").await.len() == count;
        office.until("the free route has its effect", has_effect).await;
        slowest = slowest.max(emitted.elapsed());
    }
    assert!(
        slowest < SOON,
        "an event waited {slowest:?} for a lease of another route"
    );
    let epoch = "select max(epoch) from postroom.outbox_cursor where route = 'free'";
    assert_eq!(office.number(epoch).await, 1, "the lease of the free route was lost");
    lock.rollback().await.expect("unlock");
    let has_all = async || office.effects("locked").await.len() == count;
    office.until("the locked route has caught up", has_all).await;
    office.stop().await;
}

/// An application that cancels a scheduled event and leaves its transaction open delays no other scheduled event, and the
/// cancelled one is released when that transaction rolls back.
pub async fn an_open_cancel_delays_no_other_scheduled_event(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    let due = clock::now() - Duration::from_secs(60);
    let id = postroom::emit_at(&tx, &noted("a", "cancelled"), due)
        .await
        .expect("schedule");
    tx.commit().await.expect("commit");
    let cancelling = table::begin(office.fresh.db()).await.expect("begin");
    assert!(postroom::cancel(&cancelling, id).await.expect("cancel"));
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    for count in 1..=3 {
        let scheduled = Instant::now();
        schedule_now(&office, &count.to_string()).await;
        let has_effect = async || office.effects("s").await.len() == count;
        office.until("the event is released", has_effect).await;
        assert!(scheduled.elapsed() < SOON, "it waited {:?}", scheduled.elapsed());
    }
    cancelling.rollback().await.expect("roll back");
    office.expect("s", &["1", "2", "3", "cancelled"]).await;
    office.stop().await;
}

/// A process that stands still inside a handler's transaction is replaced within the default lease and a moment, although it
/// holds row locks and unique keys. When it wakes up, its effect does not count: the fence alone sees to that.
pub async fn a_process_that_stands_still_in_a_transaction_is_replaced(fresh: Fresh) {
    let office = Office::open(fresh).await;
    office
        .execute("create table suite_once (note varchar(200) not null primary key)")
        .await;
    let (paused, wake_up) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let first = Handles {
        pauses: Some((paused.0, std::sync::Mutex::new(wake_up.1))),
    };
    let (stop, connecting) = (CancellationToken::new(), office.fresh.connecting());
    let stopped = stop.clone();
    let process = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move { relay(connecting.await, first).run(stopped).await })
    });
    office.emit(&[("a", "one")]).await;
    let stands_still = tokio::task::spawn_blocking(move || paused.1.recv_timeout(DEADLINE));
    stands_still.await.expect("no panic").expect("the handler runs");

    let begun = Instant::now();
    let mut second = JoinSet::new();
    second.spawn(relay(office.store(), Handles { pauses: None }).run(stop.clone()));
    let has_effect = async || office.effects("second").await.len() == 1;
    office.until("the other process takes over", has_effect).await;
    let took = begun.elapsed();
    wake_up.0.send(()).expect("wake it up");
    assert!(took < LEASE + SOON, "the take-over took {took:?}");
    office.emit(&[("a", "two")]).await;
    let are_handled = async || office.number("select count(*) from suite_once").await == 2;
    office.until("both are handled", are_handled).await;
    stop.cancel();
    while let Some(ended) = second.join_next().await {
        ended.expect("no panic").expect("the second relay ends well");
    }
    tokio::task::spawn_blocking(|| process.join())
        .await
        .expect("no panic")
        .expect("no panic")
        .expect("it ends well");
    let effects = office.number("select count(*) from suite_effect").await;
    assert_eq!(effects, 2, "the process that stood still has left an effect too");
    assert!(
        office.effects("first").await.is_empty(),
        "the process that stood still has left an effect"
    );
}

/// The default lease.
const LEASE: Duration = Duration::from_secs(10);

fn relay(outbox: Arc<dyn postroom::Inspect>, handles: Handles) -> Relay {
    let outbox: Arc<dyn Outbox> = outbox;
    Relay::new(outbox).subscriber(Subscriber {
        idempotency: Idempotency::Natural,
        ..Subscriber::matching("s", ["suite.**"], handles)
    })
}

/// Leaves an effect, and may block the thread of its runtime: nothing of its process moves any more.
struct Handles {
    pauses: Option<(
        std::sync::mpsc::Sender<()>,
        std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
    )>,
}

impl Handler for Handles {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        let noted: Noted = event.decode()?;
        let who = if self.pauses.is_some() { "first" } else { "second" };
        tx.execute_unprepared(&format!("insert into suite_once (note) values ('{}')", noted.note))
            .await?;
        let effect = format!(
            "insert into suite_effect (seq, who, note) values (0, '{who}', '{}')",
            noted.note
        );
        tx.execute_unprepared(&effect).await?;
        if let Some((paused, wake_up)) = &self.pauses {
            let wake_up = wake_up.lock().expect("one call at a time");
            if paused.send(()).is_ok() {
                wake_up.recv_timeout(DEADLINE).ok();
            }
        }
        Ok(())
    }
}
