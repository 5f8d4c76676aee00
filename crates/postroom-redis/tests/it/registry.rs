//! The registry beyond its suite: storms, what other programs see and put there, and lost state.

use std::collections::BTreeSet;
use std::time::Duration;

use postroom::clock;
use postroom_shared::SharedState;
use postroom_shared::registry::{Admitted, Connection, Eviction};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::events::PATIENCE;
use crate::shared_state::{enter, keys, notifications, two};
use crate::site::{private, shared};

const KEY: &str = "sse:notification:{42}";
const LIFETIME: Duration = Duration::from_mins(30);

async fn renew(shared: &SharedState, connections: &[&Connection]) -> Vec<Admitted> {
    let connections: Vec<Connection> = connections.iter().copied().cloned().collect();
    shared.registry.renew(&notifications(), &connections).await.unwrap()
}

fn kept(connection: &Connection) -> Admitted {
    Admitted::Yes {
        since: connection.since.unwrap(),
        evicted: Vec::new(),
    }
}

async fn places(client: &mut MultiplexedConnection) -> Vec<(String, f64)> {
    client.zrange_withscores(KEY, 0, -1).await.unwrap()
}

async fn put(client: &mut MultiplexedConnection, id: &str, since_ms: i64) {
    client.zadd(KEY, id, since_ms).await.unwrap();
}

fn now_ms() -> i64 {
    i64::try_from(clock::now().unix_timestamp_nanos() / 1_000_000).unwrap()
}

/// How many connections a member has at most, seen from outside while `stop` is not cancelled; and how often it was looked at.
async fn watch(mut client: MultiplexedConnection, stop: CancellationToken) -> (usize, usize) {
    let (mut most, mut looks) = (0, 0);
    while !stop.is_cancelled() {
        most = most.max(client.zcard(KEY).await.unwrap());
        looks += 1;
    }
    (most, looks)
}

/// Hazard 25: ZADD, ZCARD and ZPOPMIN one after another drop below the limit, and evict the newcomer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_06_a_storm_of_2000_connections_keeps_three_and_evicts_no_newcomer() {
    let site = private().await;
    let stop = CancellationToken::new();
    let mut watching = JoinSet::new();
    watching.spawn(watch(site.client().await, stop.clone()));
    let instances: Vec<SharedState> = [two(&site.url), two(&site.url)].into_iter().flatten().collect();
    let began = Instant::now();
    let mut storm = JoinSet::new();
    for number in 0..40 {
        let shared = instances[number % instances.len()].clone();
        storm.spawn(async move {
            let mut all = Vec::new();
            for _ in 0..50 {
                all.push(enter(&shared, "42").await);
            }
            all
        });
    }
    let all = storm.join_all().await.concat();
    let took = began.elapsed();
    stop.cancel();
    let (most, looks) = watching.join_next().await.unwrap().unwrap();
    println!("2000 admissions in {took:?}; {looks} looks saw at most {most} connections");
    assert_eq!(most, 3, "in {looks} looks");
    assert!(all.iter().all(|(own, evicted)| !evicted.contains(&own.id)));
    let named: Vec<Uuid> = all.iter().flat_map(|(_, evicted)| evicted.clone()).collect();
    let evicted: BTreeSet<Uuid> = named.iter().copied().collect();
    assert_eq!((named.len(), evicted.len()), (1997, 1997));
    let left = places(&mut site.client().await).await;
    let left: BTreeSet<Uuid> = left.iter().map(|(id, _)| id.parse().unwrap()).collect();
    let all: BTreeSet<Uuid> = all.iter().map(|(connection, _)| connection.id).collect();
    assert_eq!(left.len(), 3);
    assert_eq!(left, all.difference(&evicted).copied().collect());
}

#[tokio::test]
async fn n_06_the_set_of_a_member_has_its_connections_with_the_time_of_each() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let before = now_ms();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(enter(&shared, "42").await.0);
    }
    let expected: Vec<(String, f64)> = open
        .iter()
        .map(|connection| (connection.id.to_string(), connection.since.unwrap() as f64))
        .collect();
    assert_eq!(places(&mut site.client().await).await, expected);
    let since = open[0].since.unwrap();
    assert!((before - 1000..=now_ms() + 1000).contains(&since), "{since} is not now");
}

#[tokio::test]
async fn n_06_evictions_are_announced_in_the_form_that_other_programs_read_and_write() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let channel = notifications().evictions;
    assert_eq!(channel, "sse:notification:disconnect");
    let mut listener = shared.fan_out.listen(&[&channel]).await.unwrap();
    let (first, _) = enter(&shared, "42").await;
    for _ in 0..3 {
        enter(&shared, "42").await;
    }
    let announced = listener.next().await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&announced.body).unwrap();
    assert_eq!(body, serde_json::json!({ "memberId": "42", "connectionId": first.id }));
    let by_hand = format!(r#"{{"memberId":"42","connectionId":"{}"}}"#, first.id);
    let heard = site.client().await.publish(&channel, &by_hand).await.unwrap();
    assert_eq!(heard, 1);
    let message = listener.next().await.unwrap();
    assert_eq!(Eviction::read(&message.body).unwrap().connection, first.id);
}

#[tokio::test]
async fn n_06_after_flushall_renewals_bring_back_the_old_order() {
    let site = private().await;
    let [one, two] = two(&site.url);
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(enter(&one, "42").await.0);
    }
    let before = places(&mut site.client().await).await;
    let [first, second, third] = [&open[0], &open[1], &open[2]];
    site.client().await.flushall().await.unwrap();
    assert_eq!(renew(&two, &[third]).await, [kept(third)]);
    assert_eq!(renew(&one, &[second, first]).await, [kept(second), kept(first)]);
    assert_eq!(places(&mut site.client().await).await, before);
    let (_, evicted) = enter(&two, "42").await;
    assert_eq!(evicted, [first.id], "the oldest gives way, as before");
}

#[tokio::test]
async fn n_07_a_ghost_counts_until_it_is_swept_and_a_young_one_stays() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let mut client = site.client().await;
    let lifetime_ms = i64::try_from(LIFETIME.as_millis()).unwrap();
    let [ghost, young] = [Uuid::now_v7(), Uuid::now_v7()].map(|id| id.to_string());
    put(&mut client, &ghost, now_ms() - lifetime_ms - 1000).await;
    put(&mut client, &young, now_ms() - lifetime_ms + 60_000).await;
    let other = format!("{KEY}:lease:of another kind}}");
    client.zadd(&other, "a", 1).await.unwrap();
    client.zadd("sse:notifications:{42}", "a", 1).await.unwrap();
    client.set("sse:notification:{43}", "no set").await.unwrap();
    for number in 0..2500 {
        let since = now_ms() - lifetime_ms - 1000;
        client
            .zadd(format!("sse:notification:{{many-{number}}}"), "ghost", since)
            .await
            .unwrap();
    }
    let sweep = async || shared.registry.sweep(&notifications(), LIFETIME).await.unwrap();
    let began = Instant::now();
    assert_eq!(sweep().await, 2502, "the ghosts, and that of a member with an odd name");
    println!("2505 keys were swept in {:?}", began.elapsed());
    assert_eq!(sweep().await, 0);
    assert_eq!(places(&mut client).await.len(), 1);
    let mut left = keys(&site).await;
    left.retain(|key| !key.contains("{42}"));
    assert_eq!(left, ["sse:notification:{43}"], "and what is no set of connections");
    for _ in 0..2 {
        assert!(enter(&shared, "42").await.1.is_empty());
    }
    let (_, evicted) = enter(&shared, "42").await;
    assert_eq!(
        evicted,
        [young.parse::<Uuid>().unwrap()],
        "it counts, and it is the oldest"
    );
}

#[tokio::test]
async fn what_other_programs_put_into_the_set_never_evicts_a_newcomer() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let mut client = site.client().await;
    let mut listener = shared.fan_out.listen(&[&notifications().evictions]).await.unwrap();
    put(&mut client, "from tomorrow", now_ms() + 86_400_000).await;
    client.zadd(KEY, "no time", f64::MAX).await.unwrap();
    client.zadd(KEY, "half", 0.5).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..5 {
        let (connection, evicted) = enter(&shared, "42").await;
        assert!(
            open.iter()
                .all(|(older, _): &(Connection, _)| older.since < connection.since)
        );
        open.push((connection, evicted));
    }
    let named: Vec<Uuid> = open.iter().flat_map(|(_, evicted)| evicted.clone()).collect();
    assert_eq!(named, [open[0].0.id, open[1].0.id], "only ids of connections are named");
    let mut announced = Vec::new();
    for _ in 0..4 {
        let message = timeout(PATIENCE, listener.next()).await.unwrap().unwrap();
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        announced.push(body["connectionId"].as_str().unwrap().to_owned());
    }
    let evicted = named.iter().map(Uuid::to_string);
    let expected: Vec<String> = ["half", "from tomorrow"]
        .map(str::to_owned)
        .into_iter()
        .chain(evicted)
        .collect();
    assert_eq!(announced, expected, "all are announced");
}

#[tokio::test]
async fn a_key_that_is_no_set_refuses_its_member_not_for_ever() {
    let site = private().await;
    let shared = site.broker.shared_state();
    for key in [KEY.to_owned(), format!("{KEY}:lease"), format!("{KEY}:evicted")] {
        site.client().await.set(&key, "no set").await.unwrap();
        let (connection, _) = enter(&shared, "42").await;
        assert_eq!(renew(&shared, &[&connection]).await, [kept(&connection)], "{key}");
        shared.registry.leave(&notifications(), &[connection]).await.unwrap();
    }
}

/// A lost lease set makes its connections look like those of other programs, until they are renewed.
#[tokio::test]
async fn a_lost_key_is_made_again_by_renewals() {
    let site = private().await;
    let shared = site.broker.shared_state();
    let (first, _) = enter(&shared, "42").await;
    let (second, _) = enter(&shared, "42").await;
    for key in [format!("{KEY}:lease"), KEY.to_owned()] {
        site.client().await.del(&key).await.unwrap();
        let answers = renew(&shared, &[&second, &first]).await;
        assert_eq!(answers, [kept(&second), kept(&first)], "{key}");
        let cards = async |key: &str| site.client().await.zcard(key).await.unwrap();
        assert_eq!(
            (cards(KEY).await, cards(&format!("{KEY}:lease")).await),
            (2, 2),
            "{key}"
        );
    }
}

/// A hub with 20,000 connections renews so many within every 20 seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_connections_are_renewed_in_one_call() {
    let site = shared().await;
    let shared = site.broker.shared_state();
    let mut limits = notifications();
    limits.kind = format!("test:{}", Uuid::now_v7());
    let connections: Vec<Connection> = (0..20_000)
        .map(|number| Connection {
            since: Some(now_ms()),
            ..Connection::new((number / 2).to_string(), Uuid::now_v7())
        })
        .collect();
    for _ in 0..2 {
        let began = Instant::now();
        let renewed = shared.registry.renew(&limits, &connections).await.unwrap();
        println!(
            "20,000 connections of 10,000 members were renewed in {:?}",
            began.elapsed()
        );
        assert!(renewed.iter().all(|answer| matches!(answer, Admitted::Yes { .. })));
    }
    let began = Instant::now();
    shared.registry.leave(&limits, &connections).await.unwrap();
    println!("they left in {:?}", began.elapsed());
    assert_eq!(shared.registry.sweep(&limits, Duration::ZERO).await.unwrap(), 0);
}
