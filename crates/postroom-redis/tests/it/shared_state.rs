//! The suites of the shared state on Redis, and what all of its ports have in common.

use std::sync::Arc;
use std::time::Duration;

use postroom::ErrorKind;
use postroom_redis::{Options, Redis};
use postroom_shared::registry::{Admitted, Connection, Limits};
use postroom_shared::tally::Change;
use postroom_shared::{Message, SharedState};
use postroom_testkit::{fan_out_suite, registry_suite, tally_suite, ticket_suite};
use redis::AsyncTypedCommands;
use tokio::time::Instant;
use uuid::Uuid;

use crate::site::{Site, options, own, private, shared};

/// Two instances with connections of their own, as two processes have them.
pub(crate) fn two(url: &str) -> registry_suite::Instances {
    [(); 2].map(|()| Redis::open(url, options()).unwrap().shared_state())
}

async fn instances() -> registry_suite::Instances {
    two(&shared().await.url)
}

async fn fan_outs() -> fan_out_suite::Instances {
    instances().await.map(|shared| shared.fan_out)
}

fn two_tallies(url: &str) -> tally_suite::Instances {
    [(); 2].map(|()| Arc::new(Redis::open(url, options()).unwrap().tally().keeping(tally_suite::KEPT)) as _)
}

async fn tallies() -> tally_suite::Instances {
    two_tallies(&shared().await.url)
}

async fn tickets() -> ticket_suite::Instances {
    instances().await.map(|shared| shared.tickets)
}

mod fan_out {
    postroom_testkit::fan_out_suite!(super::fan_outs);
}

mod registry {
    postroom_testkit::registry_suite!(super::instances);
}

mod tally {
    postroom_testkit::tally_suite!(super::tallies);
}

mod ticket {
    postroom_testkit::ticket_suite!(super::tickets);
}

/// The limits that notifications have.
pub(crate) fn notifications() -> Limits {
    Limits {
        kind: "sse:notification".to_owned(),
        evictions: "sse:notification:disconnect".to_owned(),
        limit: 3,
        lease: Duration::from_secs(60),
    }
}

pub(crate) fn change(counter: &str, delta: i64) -> Change {
    Change {
        counter: counter.to_owned(),
        id: Uuid::now_v7().to_string(),
        delta,
    }
}

/// Admits a new connection of a member. Returns it with its age, and those that gave way.
pub(crate) async fn enter(shared: &SharedState, member: &str) -> (Connection, Vec<Uuid>) {
    let connection = Connection::new(member, Uuid::now_v7());
    match shared.registry.admit(&notifications(), &connection).await.unwrap() {
        Admitted::Yes { since, evicted } => {
            let since = Some(since);
            (Connection { since, ..connection }, evicted)
        }
        Admitted::Evicted => panic!("a new connection gave way to itself"),
    }
}

pub(crate) async fn keys(site: &Site) -> Vec<String> {
    let mut keys = site.client().await.keys("*").await.unwrap();
    keys.sort();
    keys
}

/// One call of each port, so that all of its keys are there.
async fn use_all(shared: &SharedState) {
    for _ in 0..4 {
        enter(shared, "42").await;
    }
    let one = Duration::from_mins(1);
    shared.rate_limiter.take("203.0.113.9", 5, one).await.unwrap();
    shared.tally.add(&[change("count:comment:delta:{7}", 1)]).await.unwrap();
    shared.tickets.issue("42", one).await.unwrap();
    shared.fan_out.publish(&[Message::new("news", "1")]).await.unwrap();
}

#[tokio::test]
async fn every_key_has_the_name_that_other_programs_know_and_goes_by_itself() {
    let site = private().await;
    use_all(&site.broker.shared_state()).await;
    let mut client = site.client().await;
    let all = keys(&site).await;
    let known: Vec<&str> = all.iter().map(String::as_str).filter(|key| key.contains('{')).collect();
    let expected = [
        "count:comment:delta:{7}",
        "count:comment:delta:{7}:changes",
        "count:comment:delta:{7}:ends",
        "sse:notification:{42}",
        "sse:notification:{42}:evicted",
        "sse:notification:{42}:lease",
    ];
    assert_eq!(known, expected, "{all:?}");
    assert_eq!(all.len(), expected.len() + 2, "a rate and a ticket: {all:?}");
    for key in &all {
        let left: i64 = redis::cmd("PTTL").arg(key).query_async(&mut client).await.unwrap();
        assert!(left > 0, "{key} stays for ever");
    }
}

/// A node of a cluster refuses a call whose keys are in different slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_stays_on_one_node_of_a_cluster() {
    let site = own(&["--cluster-enabled", "yes"], options()).await;
    let mut client = site.client().await;
    let mut slots = redis::cmd("CLUSTER");
    slots.arg("ADDSLOTSRANGE").arg(0).arg(16383);
    slots.exec_async(&mut client).await.unwrap();
    let is_up = async || {
        let mut info = redis::cmd("CLUSTER");
        let info: String = info.arg("INFO").query_async(&mut site.client().await).await.unwrap();
        info.contains("cluster_state:ok")
    };
    postroom_testkit::wait::until("the cluster is up", is_up).await;
    use_all(&site.broker.shared_state()).await;
    registry_suite::members_and_kinds_are_independent(two(&site.url)).await;
    registry_suite::leaving_gives_a_place_back_at_once(two(&site.url)).await;
    tally_suite::counters_are_independent(two_tallies(&site.url)).await;
    let mut slots = Vec::new();
    for key in keys(&site)
        .await
        .iter()
        .filter(|key| key.starts_with("sse:notification:{42}"))
    {
        let mut slot = redis::cmd("CLUSTER");
        let slot: u16 = slot.arg("KEYSLOT").arg(key).query_async(&mut client).await.unwrap();
        slots.push(slot);
    }
    assert_eq!(slots.len(), 3);
    assert!(slots.iter().all(|slot| *slot == slots[0]), "{slots:?}");
}

#[tokio::test]
async fn systems_with_prefixes_share_a_server_and_nothing_else() {
    let site = private().await;
    let system = |prefix: &str| site.broker.prefixed_shared_state(prefix).unwrap();
    let (shop, forum, plain) = (system("shop:"), system("forum:"), system(""));
    let channel = notifications().evictions;
    let mut listener = shop.fan_out.listen(&[&channel]).await.unwrap();
    let ticket = shop.tickets.issue("42", Duration::from_mins(1)).await.unwrap();
    for other in [&forum, &plain] {
        use_all(other).await;
        assert_eq!(other.tickets.redeem(&ticket).await.unwrap(), None);
    }
    for _ in 0..3 {
        let (_, evicted) = enter(&shop, "42").await;
        assert!(evicted.is_empty(), "the others have taken no place");
    }
    let (_, evicted) = enter(&shop, "42").await;
    assert_eq!(evicted.len(), 1);
    let message = listener.next().await.unwrap();
    assert_eq!(message.channel, channel, "without the prefix");
    let body = String::from_utf8(message.body).unwrap();
    assert!(
        body.contains(&evicted[0].to_string()),
        "the first that it heard: {body}"
    );
    assert_eq!(
        shop.tally.read(&["count:comment:delta:{7}".to_owned()]).await.unwrap(),
        [0]
    );
    let own = |prefix: &str, all: &[String]| all.iter().filter(|key| key.starts_with(prefix)).count();
    let all = keys(&site).await;
    assert_eq!((own("shop:", &all), own("forum:", &all)), (4, 7), "{all:?}");
    let error = site.broker.prefixed_shared_state("{shop}").unwrap_err();
    assert!(error.report().contains("hash tag"), "{error}");
}

/// One call after another: each port is away, and there again.
#[tokio::test]
async fn n_08_a_server_that_is_killed_is_an_error_in_time_and_works_again_when_it_is_back() {
    let mut site = private().await;
    let shared = site.broker.shared_state();
    use_all(&shared).await;
    let (first, _) = enter(&shared, "43").await;
    site.server.as_mut().unwrap().kill().unwrap();
    assert_unavailable(&shared).await;
    site.server.as_mut().unwrap().restart().await.unwrap();
    use_all(&shared).await;
    let renewed = shared
        .registry
        .renew(&notifications(), std::slice::from_ref(&first))
        .await
        .unwrap();
    let kept = Admitted::Yes {
        since: first.since.unwrap(),
        evicted: Vec::new(),
    };
    assert_eq!(renewed, [kept]);
}

/// A server that is paused answers nothing, and resets nothing.
#[tokio::test]
async fn n_08_a_silent_server_is_an_error_in_time() {
    let mut site = private().await;
    let shared = site.broker.shared_state();
    use_all(&shared).await;
    site.server.as_mut().unwrap().process().unwrap().stop().unwrap();
    assert_unavailable(&shared).await;
    site.server.as_mut().unwrap().process().unwrap().cont().unwrap();
    use_all(&shared).await;
}

async fn assert_unavailable(shared: &SharedState) {
    let began = Instant::now();
    let connection = Connection::new("42", Uuid::now_v7());
    let one = Duration::from_mins(1);
    let errors = [
        shared.registry.admit(&notifications(), &connection).await.err(),
        shared
            .registry
            .renew(&notifications(), std::slice::from_ref(&connection))
            .await
            .err(),
        shared.registry.leave(&notifications(), &[connection]).await.err(),
        shared.registry.sweep(&notifications(), one).await.err(),
        shared.tally.add(&[change("a", 1)]).await.err(),
        shared.tally.read(&["a".to_owned()]).await.err(),
        shared.tickets.issue("42", one).await.err(),
        shared.tickets.redeem("42").await.err(),
        shared.fan_out.publish(&[Message::new("news", "1")]).await.err(),
        shared.fan_out.listen(&["news"]).await.err(),
    ];
    for (at, error) in errors.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("call {at} succeeded"));
        assert_eq!(error.kind(), ErrorKind::Unavailable, "call {at}: {error}");
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(30), "ten calls took {took:?}");
}

/// The server forgets scripts when it restarts, or by hand; a call brings them again.
#[tokio::test]
async fn a_server_that_has_forgotten_its_scripts_gets_them_again() {
    let site = private().await;
    let shared = site.broker.shared_state();
    use_all(&shared).await;
    let members: Vec<Connection> = (0..1200)
        .map(|number| Connection::new(number.to_string(), Uuid::now_v7()))
        .collect();
    let mut flush = redis::cmd("SCRIPT");
    flush.arg("FLUSH").exec_async(&mut site.client().await).await.unwrap();
    let renewed = shared.registry.renew(&notifications(), &members).await.unwrap();
    assert!(renewed.iter().all(|answer| matches!(answer, Admitted::Yes { .. })));
    assert_eq!(renewed.len(), members.len());
}

#[test]
fn opening_connects_to_nothing() {
    let redis = Redis::open("redis://127.0.0.1:1/", Options::default()).unwrap();
    assert!(redis.shared_state().is_shared);
}
