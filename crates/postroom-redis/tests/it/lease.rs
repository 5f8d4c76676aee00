//! Leases of members that crash, pause, have slow handlers, join and leave.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use postroom::{ErrorKind, Event, Filter, Relay, Result, Subscriber, Tx, dead};
use postroom_redis::{Options, Redis};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::fresh;
use postroom_testkit::wait::{until, until_some};
use redis::AsyncTypedCommands;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::events::{PATIENCE, assert_whole, entries, join, marks, name, next, number, publish, receive};
use crate::site::{options, shared};

pub(crate) const LEASE: Duration = Duration::from_millis(1500);

pub(crate) fn short_lease() -> Options {
    Options {
        lease: LEASE,
        partitions: 2,
        ..options()
    }
}

/// Runs a member in its own runtime and drops the runtime at the end. To the server this looks like a crashed process: no task
/// runs any more, and no lease was released.
async fn in_crashing_runtime<T, F>(member: impl FnOnce() -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let live = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(member())
    };
    tokio::task::spawn_blocking(live).await.unwrap()
}

/// Joins a group with its own broker, receives messages, and crashes.
pub(crate) async fn receive_and_crash(
    (url, options): (String, Options),
    group: String,
    topic: String,
    count: usize,
) -> Vec<i64> {
    let live = async move || {
        let broker = Redis::open(&url, options).unwrap();
        let mut member = join(&broker, &group, &topic).await;
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.extend(next(&mut member, 100).await.iter().map(number));
        }
        std::mem::forget(member);
        taken
    };
    in_crashing_runtime(live).await
}

#[tokio::test]
async fn a_member_that_dies_is_replaced_within_the_lease() {
    let site = shared().await;
    let broker = Redis::open(&site.url, short_lease()).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    publish(&broker, &topic, &entries(0, 60, 5, 10)).await;
    let taken = receive_and_crash((site.url.clone(), short_lease()), group.clone(), topic.clone(), 60).await;
    assert_eq!(taken.len(), 60);
    let begin = Instant::now();
    publish(&broker, &topic, &entries(60, 90, 5, 10)).await;
    let mut successor = join(&broker, &group, &topic).await;
    let came = receive(&mut successor, 90).await;
    assert!(begin.elapsed() < LEASE * 2, "{:?}", begin.elapsed());
    assert_whole(&came, 90, 5);
    assert_eq!(came.len(), 90);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_paused_cannot_acknowledge_what_another_works() {
    let site = shared().await;
    let broker = Redis::open(&site.url, short_lease()).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    publish(&broker, &topic, &entries(0, 40, 5, 10)).await;
    let (has_taken, taken) = tokio::sync::oneshot::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let (url, to, of) = (site.url.clone(), topic.clone(), group.clone());
    let zombie = async move || {
        let broker = Redis::open(&url, short_lease()).unwrap();
        let mut member = join(&broker, &of, &to).await;
        let messages = next(&mut member, 100).await;
        has_taken.send(messages.len()).unwrap();
        resumed.recv().unwrap(); // blocks the thread, and with it the lease keeper
        member.ack(&marks(&messages)).await.map_err(|error| error.kind())
    };
    let mut lives = tokio::task::JoinSet::new();
    lives.spawn(in_crashing_runtime(zombie));
    assert!(timeout(PATIENCE, taken).await.unwrap().unwrap() > 0);
    let mut successor = join(&broker, &group, &topic).await;
    let mut came = Vec::new();
    let mut held = Vec::new();
    while came.len() < 40 {
        let messages = next(&mut successor, 100).await;
        came.extend(messages.iter().map(number));
        held.extend(messages);
    }
    assert_whole(&came, 40, 5);
    resume.send(()).unwrap();
    let answer = lives.join_next().await.unwrap().unwrap();
    assert_eq!(answer, Err(ErrorKind::Conflict));
    let pending = broker.lag(&group, &[topic]).await.unwrap();
    assert_eq!(
        pending.iter().map(|lag| lag.pending).sum::<u64>(),
        40,
        "the new member has all entries"
    );
    successor.ack(&marks(&held)).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_works_long_keeps_its_partitions() {
    let site = shared().await;
    let broker = Redis::open(&site.url, short_lease()).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    broker.create(&topic, 1).await.unwrap();
    publish(&broker, &topic, &entries(0, 20, 3, 10)).await;
    let mut member = join(&broker, &group, &topic).await;
    let messages = next(&mut member, 10).await;
    let mut other = join(&broker, &group, &topic).await;
    let idle = timeout(LEASE * 3, other.next(10)).await;
    assert!(idle.is_err(), "the other member received something: {idle:?}");
    member.ack(&marks(&messages)).await.unwrap();
}

#[tokio::test]
async fn members_get_equal_shares_as_they_come_and_go() {
    let site = shared().await;
    let broker = Redis::open(&site.url, short_lease()).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    broker.create(&topic, 4).await.unwrap();
    let mut members = vec![join(&broker, &group, &topic).await];
    for expected in [vec![4], vec![2, 2], vec![1, 1, 2]] {
        if members.len() < expected.len() {
            members.push(join(&broker, &group, &topic).await);
        }
        shares_become(&site, &mut members, &topic, &group, &expected).await;
    }
    members.truncate(1);
    shares_become(&site, &mut members, &topic, &group, &[4]).await;
}

/// Polls all members until each has leased the expected number of partitions.
async fn shares_become(
    site: &crate::site::Site,
    members: &mut [Box<dyn postroom::Subscription>],
    topic: &str,
    group: &str,
    expected: &[usize],
) {
    let mut client = site.client().await;
    let begin = Instant::now();
    loop {
        for member in &mut *members {
            timeout(Duration::from_millis(20), member.next(1)).await.unwrap_err();
        }
        let leases = client
            .hgetall(format!("postroom:{{{topic}}}:leases:{group}"))
            .await
            .unwrap();
        let holders: Vec<String> = leases
            .into_iter()
            .filter(|(field, _)| field.parse::<u16>().is_ok())
            .map(|(_, token)| token)
            .map(|token| token.rsplit(' ').next().unwrap().to_owned())
            .collect();
        let names: BTreeSet<&String> = holders.iter().collect();
        let mut shares: Vec<usize> = names
            .iter()
            .map(|name| holders.iter().filter(|h| h == name).count())
            .collect();
        shares.sort_unstable();
        if shares == expected {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{shares:?} instead of {expected:?}");
    }
}

/// Members join during a backlog: the first one releases partitions between two batches, although it always has more entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_comes_during_a_backlog_gets_its_share() {
    const COUNT: i64 = 12_000;
    let site = shared().await;
    let options = Options {
        lease: LEASE * 3,
        ..short_lease()
    };
    let broker = Redis::open(&site.url, options).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    broker.create(&topic, 4).await.unwrap();
    publish(&broker, &topic, &entries(0, COUNT, 40, 10)).await;
    let mut first = join(&broker, &group, &topic).await;
    let mut second = join(&broker, &group, &topic).await;
    let log = Mutex::new((Vec::new(), [0, 0]));
    let note = |at: usize, messages: &[postroom::Message]| {
        let mut log = log.lock().unwrap();
        log.0.extend(messages.iter().map(number));
        log.1[at] += messages.len();
    };
    let work = async |at: usize, member: &mut Box<dyn postroom::Subscription>| {
        while let Ok(messages) = timeout(LEASE * 4, member.next(100)).await {
            let messages = messages.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            note(at, &messages);
            member.ack(&marks(&messages)).await.unwrap();
        }
    };
    tokio::join!(work(0, &mut first), work(1, &mut second));
    let (came, shares) = log.into_inner().unwrap();
    assert_whole(&came, COUNT, 40);
    assert_eq!(came.len(), usize::try_from(COUNT).unwrap(), "each once");
    assert!(shares.iter().all(|share| *share > came.len() / 4), "{shares:?}");
}

/// An entry that crashes its members repeatedly is given up; entries delivered together with it are not.
#[tokio::test]
async fn an_entry_that_kills_its_members_is_given_up_alone() {
    const POISON: i64 = 3;
    let site = shared().await;
    let options = Options {
        deliveries_max: Some(4),
        lease: Duration::from_millis(600),
        partitions: 1,
        ..short_lease()
    };
    let broker = Redis::open(&site.url, options.clone()).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    publish(&broker, &topic, &entries(0, 10, 2, 10)).await;
    let (mut came, mut crashes) = (Vec::new(), 0);
    while came.len() < 10 {
        let (url, to, of, options) = (site.url.clone(), topic.clone(), group.clone(), options.clone());
        let left = 10 - came.len();
        let live = async move || {
            let broker = Redis::open(&url, options).unwrap();
            let mut member = join(&broker, &of, &to).await;
            let mut done = Vec::new();
            while done.len() < left {
                let messages = next(&mut member, 100).await;
                if messages
                    .iter()
                    .any(|one| number(one) == POISON && one.given_up.is_none())
                {
                    std::mem::forget(member);
                    return (done, true);
                }
                member.ack(&marks(&messages)).await.unwrap();
                done.extend(messages.iter().map(|one| (number(one), one.given_up.clone())));
            }
            (done, false)
        };
        let (done, is_dead) = in_crashing_runtime(live).await;
        came.extend(done);
        crashes += u32::from(is_dead);
        assert!(crashes <= 4, "the entry is never given up");
    }
    assert_eq!(crashes, 4);
    let why = "delivered 4 times and never acknowledged".to_owned();
    let expected = (0..10).map(|n| (n, (n == POISON).then(|| why.clone())));
    assert_eq!(came, expected.collect::<Vec<_>>());
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

async fn count(_tx: &mut Tx, _event: &Event) -> Result<()> {
    HANDLED.fetch_add(1, SeqCst);
    Ok(())
}

/// An entry that was given up becomes a dead letter, which can be listed and retried. No handler receives it before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_is_given_up_is_a_dead_letter() {
    let (site, fresh) = (shared().await, fresh::sqlite().await);
    let options = Options {
        deliveries_max: Some(1),
        lease: Duration::from_millis(600),
        partitions: 1,
        ..short_lease()
    };
    let broker = Redis::open(&site.url, options).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    let sent = entries(0, 1, 1, 10);
    publish(&broker, &topic, &sent).await;
    receive_and_crash((site.url.clone(), short_lease()), group.clone(), topic.clone(), 1).await;
    let subscriber = Subscriber::matching(group, ["shop.**"], count);
    let route = subscriber.fed_by(Arc::new(broker), vec![topic.clone()], Filter::all());
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(route).run(stop.clone());
    let letters = async || {
        let all = dead::Selection::default();
        dead::list(fresh.db(), &all, None, 10).await.unwrap().pop()
    };
    let watch = async {
        let letter = until_some("it is a dead letter", letters).await;
        let buried = async || shared().await.dead_letters(&topic).await;
        until("there is a copy", async || buried().await.len() == 1).await;
        assert_eq!(HANDLED.load(SeqCst), 0, "no handler receives it");
        let all = dead::Selection::default();
        assert_eq!(dead::retry(fresh.db(), &all, "ada").await.unwrap(), 1);
        until("it is handled after a retry", async || HANDLED.load(SeqCst) == 1).await;
        stop.cancel();
        letter
    };
    let (ended, letter) = tokio::join!(relay, watch);
    ended.unwrap();
    assert_eq!(letter.entry.event.id, sent[0].event.id);
    assert_eq!(letter.error, "delivered 1 times and never acknowledged");
}

/// Entries that are returned, or released by a member that leaves in order, do not count towards the delivery limit.
#[tokio::test]
async fn returned_entries_are_never_given_up() {
    let site = shared().await;
    let options = Options {
        deliveries_max: Some(3),
        partitions: 1,
        ..short_lease()
    };
    let broker = Redis::open(&site.url, options).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    publish(&broker, &topic, &entries(0, 10, 2, 10)).await;
    for _ in 0..4 {
        let mut member = join(&broker, &group, &topic).await;
        for _ in 0..3 {
            let messages = next(&mut member, 100).await;
            assert_eq!(
                messages.iter().map(number).collect::<Vec<_>>(),
                (0..10).collect::<Vec<_>>()
            );
            member.nack(&marks(&messages)).await.unwrap();
        }
        next(&mut member, 100).await;
    }
    let mut member = join(&broker, &group, &topic).await;
    assert_eq!(receive(&mut member, 10).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_dropped_next_loses_nothing() {
    let site = shared().await;
    let options = Options {
        deliveries_max: Some(2),
        ..short_lease()
    };
    let broker = Redis::open(&site.url, options).unwrap();
    let (topic, group) = (name("orders"), name("group"));
    let mut member = join(&broker, &group, &topic).await;
    publish(&broker, &topic, &entries(0, 300, 7, 10)).await;
    let (mut came, mut given_up) = (Vec::new(), 0);
    for attempt in 0_u32.. {
        // Drops every other future after a varying number of scheduler turns, so that it is at any point of the request.
        let patience = match attempt % 4 {
            0 => attempt / 4 % 3,
            2 => attempt / 4 % 50,
            _ => u32::MAX,
        };
        tokio::select! {
            biased;
            messages = member.next(1) => {
                let messages = messages.unwrap();
                came.extend(messages.iter().map(number));
                member.ack(&marks(&messages)).await.unwrap();
            }
            () = turns(patience) => given_up += 1,
        }
        if came.len() == 300 {
            break;
        }
    }
    assert!(given_up > 10, "{given_up} futures were dropped");
    assert_whole(&came, 300, 7);
}

async fn turns(count: u32) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}
