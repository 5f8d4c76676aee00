//! The contract of a [`Registry`](postroom_shared::Registry), one function per clause.
//!
//! An implementation runs all of them with one line: `postroom_testkit::registry_suite!(open);`, a function that opens the state of
//! two instances that share it.

#![expect(clippy::expect_used, reason = "a clause asserts: a failed call fails it")]

use std::collections::BTreeSet;
use std::time::Duration;

use postroom::ErrorKind;
use postroom_shared::registry::{Admitted, Connection, Eviction, Limits};
use postroom_shared::{Listener, SharedState};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::wait::{PATIENCE, until};

/// Two instances that share their state. One that has only local state gives the same state twice.
pub type Instances = [SharedState; 2];

/// Longer than a clause takes.
const LONG: Duration = Duration::from_mins(10);
/// A lease that a clause waits for.
const SHORT: Duration = Duration::from_millis(800);
/// No connection gave way.
const NONE: [Uuid; 0] = [];

/// Makes every clause a test of its own: `registry_suite!(open);`.
#[macro_export]
macro_rules! registry_suite {
    ($open:path) => {
        $crate::registry_suite! { $open;
            the_oldest_connection_gives_way_to_a_new_one
            concurrent_admissions_keep_the_limit_and_evict_each_connection_once
            admitting_a_connection_again_keeps_its_place_and_age
            evictions_are_announced_to_every_instance
            a_connection_keeps_its_place_while_it_is_renewed
            a_connection_that_was_not_renewed_comes_back_as_old_as_it_was
            the_registry_is_rebuilt_by_renewals_in_any_order
            a_connection_that_gave_way_is_refused
            leaving_gives_a_place_back_at_once
            a_sweep_removes_what_is_old_or_was_left_behind
            members_and_kinds_are_independent
            a_list_names_the_connections_with_a_place
            limits_that_cannot_be_kept_are_refused
        }
    };
    ($open:path; $($clause:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                $crate::registry_suite::$clause($open().await).await;
            }
        )*
    };
}

/// Limits of a kind that no other test has.
fn limits(limit: u32, lease: Duration) -> Limits {
    let kind = format!("test:{}", Uuid::now_v7());
    Limits {
        evictions: format!("{kind}:disconnect"),
        kind,
        limit,
        lease,
    }
}

fn new(member: &str) -> Connection {
    Connection::new(member, Uuid::now_v7())
}

async fn admit(shared: &SharedState, limits: &Limits, connection: &Connection) -> Admitted {
    let admitted = shared.registry.admit(limits, connection).await;
    admitted.expect("a registry that answers")
}

/// Admits a new connection of a member. Returns it with its age, and those that gave way.
async fn enter(shared: &SharedState, limits: &Limits, member: &str) -> (Connection, Vec<Uuid>) {
    let connection = new(member);
    match admit(shared, limits, &connection).await {
        Admitted::Yes { since, evicted } => (
            Connection {
                since: Some(since),
                ..connection
            },
            evicted,
        ),
        Admitted::Evicted => unreachable_newcomer(),
    }
}

#[expect(clippy::panic, reason = "a clause asserts")]
fn unreachable_newcomer<T>() -> T {
    panic!("a new connection gave way to itself")
}

async fn renew(shared: &SharedState, limits: &Limits, connections: &[&Connection]) -> Vec<Admitted> {
    let connections: Vec<Connection> = connections.iter().copied().cloned().collect();
    let renewed = shared.registry.renew(limits, &connections).await;
    renewed.expect("a registry that answers")
}

/// The answer to a connection that keeps its place, for which nothing gave way.
fn kept(connection: &Connection) -> Admitted {
    Admitted::Yes {
        since: connection.since.expect("a connection that was admitted"),
        evicted: Vec::new(),
    }
}

async fn leave(shared: &SharedState, limits: &Limits, connections: &[Connection]) {
    let left = shared.registry.leave(limits, connections).await;
    left.expect("a registry that answers");
}

async fn sweep(shared: &SharedState, limits: &Limits, lifetime: Duration) -> u64 {
    let swept = shared.registry.sweep(limits, lifetime).await;
    swept.expect("a registry that answers")
}

/// Contract 1: up to the limit nothing gives way; beyond it, the oldest does, whichever instance it is on.
pub async fn the_oldest_connection_gives_way_to_a_new_one([one, two]: Instances) {
    let limits = limits(3, LONG);
    let mut open: Vec<Connection> = Vec::new();
    for shared in [&one, &two, &one] {
        let (connection, evicted) = enter(shared, &limits, "42").await;
        assert_eq!(evicted, NONE);
        assert!(
            open.iter().all(|older| older.since < connection.since),
            "{connection:?} after {open:?}"
        );
        open.push(connection);
    }
    for shared in [&two, &one, &two, &one] {
        let (connection, evicted) = enter(shared, &limits, "42").await;
        assert!(
            open.iter().all(|older| older.since < connection.since),
            "{connection:?} after {open:?}"
        );
        assert_eq!(evicted, [open.remove(0).id]);
        open.push(connection);
    }
}

/// Contract 1: of many concurrent admissions over two instances, each new connection has a place, and each that gave way is named once.
pub async fn concurrent_admissions_keep_the_limit_and_evict_each_connection_once(instances: Instances) {
    let limits = limits(3, LONG);
    let mut admissions = JoinSet::new();
    for number in 0..40 {
        let [one, two] = instances.clone();
        let (shared, limits) = (if number % 2 == 0 { one } else { two }, limits.clone());
        admissions.spawn(async move {
            let mut all = Vec::new();
            for _ in 0..10 {
                all.push(enter(&shared, &limits, "42").await);
            }
            all
        });
    }
    let all = admissions.join_all().await.concat();
    assert!(
        all.iter().all(|(own, evicted)| !evicted.contains(&own.id)),
        "one gave way to itself"
    );
    let named: Vec<Uuid> = all.iter().flat_map(|(_, evicted)| evicted.clone()).collect();
    let evicted: BTreeSet<Uuid> = named.iter().copied().collect();
    assert_eq!(
        (named.len(), evicted.len()),
        (397, 397),
        "each that gave way is named once"
    );
    let ages: BTreeSet<Option<i64>> = all.iter().map(|(connection, _)| connection.since).collect();
    assert_eq!(ages.len(), all.len(), "two connections are equally old");
    let mut by_age: Vec<&Connection> = all.iter().map(|(connection, _)| connection).collect();
    by_age.sort_by_key(|connection| connection.since);
    let youngest = by_age.split_off(397);
    assert!(youngest.iter().all(|connection| !evicted.contains(&connection.id)));
    let answers = renew(&instances[0], &limits, &youngest).await;
    assert_eq!(
        answers,
        youngest.iter().map(|connection| kept(connection)).collect::<Vec<_>>()
    );
    let answers = renew(&instances[1], &limits, &by_age).await;
    assert_eq!(answers, vec![Admitted::Evicted; 397]);
}

/// Contract 1: a call that is repeated because its answer was lost changes nothing.
pub async fn admitting_a_connection_again_keeps_its_place_and_age([one, two]: Instances) {
    let limits = limits(2, LONG);
    let (first, _) = enter(&one, &limits, "42").await;
    let (second, _) = enter(&one, &limits, "42").await;
    assert_eq!(admit(&two, &limits, &first).await, kept(&first));
    let (_, evicted) = enter(&one, &limits, "42").await;
    assert_eq!(evicted, [first.id], "it is as old as it was");
    assert_eq!(admit(&one, &limits, &second).await, kept(&second));
    assert_eq!(admit(&one, &limits, &first).await, Admitted::Evicted);
}

/// Contract 2: listeners of both instances hear of each connection that gave way, once, in order.
pub async fn evictions_are_announced_to_every_instance([one, two]: Instances) {
    let limits = limits(1, LONG);
    let channels = [limits.evictions.as_str()];
    let mut listeners = Vec::new();
    for shared in [&one, &two] {
        listeners.push(shared.fan_out.listen(&channels).await.expect("a listener"));
    }
    let (first, _) = enter(&one, &limits, "\"42\"").await;
    let (second, _) = enter(&two, &limits, "\"42\"").await;
    enter(&one, &limits, "43").await;
    leave(&one, &limits, std::slice::from_ref(&second)).await;
    let (third, _) = enter(&one, &limits, "\"42\"").await;
    enter(&one, &limits, "\"42\"").await;
    for listener in &mut listeners {
        for connection in [&first, &third] {
            let announced = next(listener).await;
            assert_eq!(
                (announced.member.as_str(), announced.connection),
                ("\"42\"", connection.id)
            );
        }
    }
}

async fn next(listener: &mut Box<dyn Listener>) -> Eviction {
    let message = timeout(PATIENCE, listener.next()).await;
    let message = message.expect("no eviction was announced").expect("a message");
    Eviction::read(&message.body).expect("an eviction")
}

/// Contract 3: one connection is renewed for longer than the lease, the other is not and gives its place back.
pub async fn a_connection_keeps_its_place_while_it_is_renewed([one, two]: Instances) {
    let limits = limits(2, SHORT);
    let (renewed, _) = enter(&one, &limits, "42").await;
    let (other, _) = enter(&one, &limits, "43").await;
    enter(&one, &limits, "42").await;
    let end = Instant::now() + 2 * SHORT;
    while Instant::now() < end {
        let answers = renew(&two, &limits, &[&other, &renewed]).await;
        assert_eq!(answers, [kept(&other), kept(&renewed)]);
        sleep(SHORT / 8).await;
    }
    let (_, evicted) = enter(&two, &limits, "42").await;
    assert_eq!(evicted, NONE, "the lease of a connection that nobody renews has ended");
    let (_, evicted) = enter(&one, &limits, "42").await;
    assert_eq!(evicted, [renewed.id], "it is as old as it was");
}

/// Contract 3: a connection that is renewed too late is as old as it was; if younger ones have all places, it is refused.
pub async fn a_connection_that_was_not_renewed_comes_back_as_old_as_it_was([one, two]: Instances) {
    let limits = limits(2, SHORT);
    let (first, _) = enter(&one, &limits, "42").await;
    let (second, _) = enter(&one, &limits, "42").await;
    sleep(SHORT + SHORT / 4).await;
    let limits = Limits { lease: LONG, ..limits };
    let (third, evicted) = enter(&two, &limits, "42").await;
    assert_eq!(evicted, NONE, "both leases have ended");
    assert_eq!(renew(&one, &limits, &[&second]).await, [kept(&second)]);
    let (_, evicted) = enter(&two, &limits, "42").await;
    assert_eq!(evicted, [second.id], "the oldest, although it came back last");
    let answers = renew(&one, &limits, &[&first, &third]).await;
    assert_eq!(answers, [Admitted::Evicted, kept(&third)]);
}

/// Contract 3: after all is lost, renewals in any order leave the youngest connections.
pub async fn the_registry_is_rebuilt_by_renewals_in_any_order([one, two]: Instances) {
    let limits = limits(3, SHORT);
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(enter(&one, &limits, "42").await.0);
    }
    sleep(SHORT + SHORT / 4).await; // nothing has a place any more
    let limits = Limits { lease: LONG, ..limits };
    let (fourth, evicted) = enter(&two, &limits, "42").await;
    assert_eq!(evicted, NONE);
    let lost = |at: usize| open.get(at).expect("three connections");
    assert_eq!(renew(&two, &limits, &[lost(0)]).await, [kept(lost(0))]);
    assert_eq!(renew(&one, &limits, &[lost(2)]).await, [kept(lost(2))]);
    let first_gives_way = Admitted::Yes {
        since: lost(1).since.expect("an age"),
        evicted: vec![lost(0).id],
    };
    assert_eq!(
        renew(&one, &limits, &[lost(1), &fourth]).await,
        [first_gives_way, kept(&fourth)]
    );
}

/// Contract 4: a connection that gave way stays out, also when its place is free again.
pub async fn a_connection_that_gave_way_is_refused([one, two]: Instances) {
    let limits = limits(1, SHORT);
    let (first, _) = enter(&one, &limits, "42").await;
    let (second, evicted) = enter(&two, &limits, "42").await;
    let gave_way_at = Instant::now();
    assert_eq!(evicted, [first.id]);
    leave(&two, &limits, &[second]).await;
    while gave_way_at.elapsed() < SHORT * 7 / 4 {
        assert_eq!(renew(&one, &limits, &[&first]).await, [Admitted::Evicted]);
        assert_eq!(admit(&one, &limits, &first).await, Admitted::Evicted);
        sleep(SHORT / 8).await;
    }
    let comes_back = async || renew(&one, &limits, &[&first]).await == [kept(&first)];
    until("it is forgotten", comes_back).await;
}

/// Contract 5: a place that was left is free at once; leaving again, or leaving what has no place, does nothing.
pub async fn leaving_gives_a_place_back_at_once([one, two]: Instances) {
    let limits = limits(2, LONG);
    let (first, _) = enter(&one, &limits, "42").await;
    let (second, _) = enter(&one, &limits, "42").await;
    let (other, _) = enter(&one, &limits, "43").await;
    for _ in 0..2 {
        leave(&two, &limits, &[first.clone(), new("42"), new("44")]).await;
    }
    let (third, evicted) = enter(&two, &limits, "42").await;
    assert_eq!(evicted, NONE);
    let (fourth, evicted) = enter(&two, &limits, "42").await;
    assert_eq!(evicted, [second.id]);
    leave(&one, &limits, &[second]).await;
    leave(&one, &limits, &[]).await;
    let answers = renew(&one, &limits, &[&third, &fourth, &other]).await;
    assert_eq!(answers, [kept(&third), kept(&fourth), kept(&other)]);
    assert!(renew(&one, &limits, &[]).await.is_empty());
}

/// Contract 8: a list has the connections with a place, of all instances, the oldest first; asking changes nothing.
pub async fn a_list_names_the_connections_with_a_place([one, two]: Instances) {
    let limits = limits(2, SHORT);
    let list = async || two.registry.list(&limits, "42").await.expect("a registry that answers");
    assert!(list().await.is_empty());
    let (first, _) = enter(&one, &limits, "42").await;
    let (second, _) = enter(&two, &limits, "42").await;
    enter(&one, &limits, "43").await;
    for _ in 0..2 {
        assert_eq!(list().await, [first.clone(), second.clone()]);
    }
    let (third, evicted) = enter(&one, &limits, "42").await;
    assert_eq!(evicted, [first.id]);
    assert_eq!(list().await, [second.clone(), third.clone()]);
    leave(&one, &limits, &[second]).await;
    assert_eq!(list().await, std::slice::from_ref(&third));
    let is_over = async || list().await.is_empty();
    until("the lease ends, and the place with it", is_over).await;
    assert_eq!(
        renew(&one, &limits, &[&third]).await,
        [kept(&third)],
        "it was not forgotten"
    );
}

/// Contract 6: a sweep removes connections that are older than the lifetime, and those whose lease has ended, of all members.
pub async fn a_sweep_removes_what_is_old_or_was_left_behind([one, two]: Instances) {
    let limits = limits(2, LONG);
    assert_eq!(sweep(&one, &limits, LONG).await, 0);
    for member in ["42", "43", "{*}"] {
        enter(&one, &limits, member).await;
    }
    sleep(SHORT).await;
    let (young, _) = enter(&two, &limits, "42").await;
    let short = Limits {
        lease: Duration::from_millis(1),
        ..limits.clone()
    };
    enter(&one, &short, "45").await;
    let other = Limits {
        kind: format!("{}:other", limits.kind),
        ..limits.clone()
    };
    enter(&one, &other, "42").await;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(sweep(&two, &limits, LONG).await, 1, "the lease of one has ended");
    assert_eq!(sweep(&two, &limits, SHORT).await, 3, "three are too old");
    assert_eq!(sweep(&one, &limits, SHORT).await, 0);
    assert_eq!(renew(&one, &limits, &[&young]).await, [kept(&young)]);
    let (_, evicted) = enter(&one, &limits, "42").await;
    assert_eq!(evicted, NONE, "the place of the old one is free");
}

/// Contract 7: members whose names look alike, and kinds, have places of their own.
pub async fn members_and_kinds_are_independent([one, two]: Instances) {
    let limits = limits(1, LONG);
    let long = "x".repeat(1000);
    let members = [
        "4",
        "42",
        "42}",
        "{42}",
        "42}:lease",
        "42}:evicted",
        " ",
        "*",
        "한글",
        "\0",
        "\"",
        &long,
    ];
    let mut all = Vec::new();
    for member in members {
        let (connection, evicted) = enter(&one, &limits, member).await;
        assert_eq!(evicted, NONE, "{member:?}");
        all.push(connection);
    }
    let other = Limits {
        kind: format!("{}:lease", limits.kind),
        ..limits.clone()
    };
    let (_, evicted) = enter(&one, &other, "42").await;
    assert_eq!(evicted, NONE);
    let renewed: Vec<&Connection> = all.iter().collect();
    let expected: Vec<Admitted> = all.iter().map(kept).collect();
    assert_eq!(renew(&two, &limits, &renewed).await, expected);
    sleep(Duration::from_millis(5)).await;
    assert_eq!(sweep(&two, &limits, Duration::ZERO).await, members.len() as u64);
}

/// Contract 7, and what [`Limits`] says: no call pretends to keep a limit that cannot be kept.
pub async fn limits_that_cannot_be_kept_are_refused([one, _]: Instances) {
    let good = limits(1, LONG);
    let none = Limits {
        limit: 0,
        ..good.clone()
    };
    let braces = Limits {
        kind: "a{b".to_owned(),
        ..good.clone()
    };
    for (limits, member) in [(&good, ""), (&none, "42"), (&braces, "42")] {
        let error = one.registry.admit(limits, &new(member)).await;
        assert_eq!(error.expect_err("it was admitted").kind(), ErrorKind::Invalid);
        let error = one.registry.renew(limits, &[new(member)]).await;
        assert_eq!(error.expect_err("it was renewed").kind(), ErrorKind::Invalid);
    }
}
