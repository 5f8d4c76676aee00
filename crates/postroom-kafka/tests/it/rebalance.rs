//! Rebalances under load: members join and leave.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use postroom::{Broker as _, ErrorKind, Message, Mode, Ordering, Start};
use postroom_testkit::wait::until;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::offset::marks;
use crate::publish::{deliver, entry, letters, name, topic};
use crate::site::KafkaSite;

const KEYS: i64 = 23;
const COUNT: i64 = 6000;

/// Numbers of the handled messages, in order.
type Log = Arc<Mutex<Vec<i64>>>;

fn number(message: &Message) -> i64 {
    let value: serde_json::Value = message.event().unwrap().decode().unwrap();
    value["n"].as_i64().unwrap()
}

/// Handles messages until `stop`, then leaves with messages in flight.
async fn work(site: Arc<KafkaSite>, name: String, log: Log, stop: CancellationToken) {
    let mut member = site.join(&name, &name, Start::Beginning).await;
    while let Some(messages) = stop.run_until_cancelled(member.next(100)).await {
        for messages in messages.unwrap().chunks(10) {
            if stop.is_cancelled() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
            log.lock().await.extend(messages.iter().map(number));
            // A partition is revoked only when its messages in flight are acknowledged, so this never fails.
            member.ack(&marks(messages)).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_under_load() {
    let (site, name) = (Arc::new(KafkaSite::shared()), name());
    site.create_with(&name, 4, &[]).await;
    let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
    let entries: Vec<_> = (0..COUNT).map(|n| entry(n, &format!("key-{}", n % KEYS), 20)).collect();
    let receipts = deliver(&*publisher, &entries, Ordering::Key).await;
    assert!(!letters(&receipts).contains(|letter| letter != '+'), "{receipts:?}");

    let log = Log::default();
    let (mut members, mut stops) = (JoinSet::new(), Vec::new());
    for nth in 0..10 {
        // Two members join for each one that leaves, and there is a backlog all the time.
        if nth % 3 == 2 {
            let stop: CancellationToken = stops.remove(0);
            stop.cancel();
        } else {
            let stop = CancellationToken::new();
            stops.push(stop.clone());
            members.spawn(work(Arc::clone(&site), name.clone(), Arc::clone(&log), stop));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let handled = || async { log.lock().await.iter().collect::<BTreeSet<_>>().len() };
    until("everything is handled", || async { handled().await == entries.len() }).await;
    stops.iter().for_each(CancellationToken::cancel);
    while let Some(ended) = members.join_next().await {
        ended.unwrap();
    }
    check(&log.lock().await);
}

/// Every message was handled once, and in order by key.
fn check(log: &[i64]) {
    let mut last: HashMap<i64, i64> = HashMap::new();
    for n in log {
        let before = last.insert(n % KEYS, *n);
        assert!(
            before.is_none_or(|before| before < *n),
            "key {}: {before:?} then {n}",
            n % KEYS
        );
    }
    assert_eq!(log.len(), usize::try_from(COUNT).unwrap(), "each message once");
}

/// A revoked partition waits until its messages in flight are acknowledged; the next member receives none of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_partition_waits_for_its_messages_in_flight() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 2, &[]).await;
    let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
    let entries: Vec<_> = (0..40).map(|n| entry(n, &format!("key-{n}"), 20)).collect();
    assert!(!letters(&deliver(&*publisher, &entries, Ordering::Key).await).contains('?'));
    let mut one = site.join(&name, &name, Start::Beginning).await;
    let mut held = Vec::new();
    while held.len() < 40 {
        held.extend(one.next(40).await.unwrap());
    }
    let mut other = site.join(&name, &name, Start::Beginning).await;
    let a_while = Duration::from_secs(5);
    assert!(tokio::time::timeout(a_while, other.next(100)).await.is_err(), "not yet");
    one.ack(&marks(&held)).await.unwrap();
    assert_eq!(site.behind(&name, &name).await, 0);
    assert!(
        tokio::time::timeout(a_while, other.next(100)).await.is_err(),
        "nothing twice"
    );
    deliver(&*publisher, &entries, Ordering::Key).await;
    let came = tokio::time::timeout(Duration::from_secs(60), other.next(100))
        .await
        .unwrap()
        .unwrap();
    assert!(!came.is_empty(), "the other member has a partition now");
}

/// A member that does not acknowledge before the timeout loses the partition and cannot acknowledge its messages any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_partition_is_not_committed() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 2, &[]).await;
    let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
    let entries: Vec<_> = (0..40).map(|n| entry(n, &format!("key-{n}"), 20)).collect();
    assert!(!letters(&deliver(&*publisher, &entries, Ordering::Key).await).contains('?'));
    let patience = Duration::from_secs(60);
    let mut slow = site.join(&name, &name, Start::Beginning).await;
    let mut held = Vec::new();
    while held.len() < 40 {
        held.extend(tokio::time::timeout(patience, slow.next(40)).await.unwrap().unwrap());
    }
    let mut other = site.join(&name, &name, Start::Beginning).await;
    let mut came = tokio::time::timeout(patience, other.next(100)).await.unwrap().unwrap();
    let partition = |message: &Message| message.origin.place.split(',').next().unwrap().to_owned();
    let lost = partition(&came[0]);
    let lost = held.iter().filter(|message| partition(message) == lost).count();
    assert!(0 < lost && lost < 40, "one of two partitions: {lost}");
    while came.len() < lost {
        came.extend(tokio::time::timeout(patience, other.next(100)).await.unwrap().unwrap());
    }
    let error = slow.ack(&marks(&held)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert!(error.report().contains(&name), "{error:?}");
    // The kept partition is committed, the lost one is not.
    let behind = site.behind(&name, &name).await;
    assert_eq!(behind, u64::try_from(lost).unwrap());
    other.ack(&marks(&came)).await.unwrap();
    assert_eq!(site.behind(&name, &name).await, 0);
}
