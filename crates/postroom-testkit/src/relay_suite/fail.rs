//! Clauses about failure: what fails waits, retries, or becomes a dead letter; everything else goes on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom::dead::{self, DeadLetter, LetterState, Selection};
use postroom::operate::Reason;
use postroom::{Batch, Dead, Destination, Filter, Ordering, Receipt, Route, Start, Subscriber, To, operate, table};
use sea_orm::ConnectionTrait as _;

use super::fixture::{InBatches, Noted, Office, Scripted, numbers, quick};
use crate::Fresh;

async fn letters(office: &Office) -> Vec<DeadLetter> {
    let which = Selection {
        state: Some(LetterState::Dead),
        ..Selection::default()
    };
    dead::list(office.fresh.db(), &which, None, 100)
        .await
        .expect("list dead letters")
}

async fn until_dead(office: &Office, count: usize) -> Vec<DeadLetter> {
    office
        .until(&format!("{count} dead letters"), async || {
            letters(office).await.len() == count
        })
        .await;
    letters(office).await
}

/// A poison event holds its own key; events of other keys pass it.
pub async fn a_poison_event_holds_only_its_key(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    office.start(office.relay().subscriber(script.subscriber(1_000_000)));
    office
        .emit(&[
            ("a", "poison"),
            ("a", "behind"),
            ("b", "free"),
            ("a", "last"),
            ("c", "free too"),
        ])
        .await;
    office.expect("s", &["free", "free too"]).await;
    office
        .until("it is tried again", async || script.calls("poison") >= 3)
        .await;
    script.heal();
    office
        .expect("s", &["free", "free too", "poison", "behind", "last"])
        .await;
    office.emit(&[("a", "after")]).await;
    office
        .expect("s", &["free", "free too", "poison", "behind", "last", "after"])
        .await;
    office.stop().await;
    assert_eq!(office.number("select count(*) from postroom.outbox_parked").await, 0);
}

/// With `skip`, the key goes on without its dead letter, in order.
pub async fn a_dead_letter_lets_its_key_go_on(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(
        office
            .relay()
            .subscriber(Scripted::new("s").fails_on("poison").subscriber(3)),
    );
    office.emit(&[("a", "poison"), ("a", "behind"), ("a", "last")]).await;
    office.expect("s", &["behind", "last"]).await;
    let letter = &until_dead(&office, 1).await[0];
    assert_eq!((letter.attempts, letter.route.as_str()), (3, "s"));
    assert!(letter.error.contains("scripted to fail"), "{}", letter.error);
    office.stop().await;
}

async fn held(fresh: Fresh) -> (Office, Scripted, DeadLetter) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    office.start(office.relay().subscriber(Subscriber {
        dead: Dead::Hold,
        ..script.subscriber(2)
    }));
    office
        .emit(&[("a", "before"), ("a", "poison"), ("a", "behind"), ("b", "free")])
        .await;
    let letter = until_dead(&office, 1).await.remove(0);
    office.emit(&[("a", "last"), ("b", "free too")]).await;
    office.expect("s", &["before", "free", "free too"]).await;
    (office, script, letter)
}

/// With `hold`, the key waits for an operator; after a retry the letter and what waited behind it are delivered in order.
pub async fn a_dead_letter_holds_its_key_until_it_is_retried(fresh: Fresh) {
    let (mut office, script, letter) = held(fresh).await;
    script.heal();
    let which = Selection {
        dead_ids: vec![letter.dead_id],
        ..Selection::default()
    };
    assert_eq!(dead::retry(office.fresh.db(), &which, "me").await.expect("retry"), 1);
    office
        .expect("s", &["before", "free", "free too", "poison", "behind", "last"])
        .await;
    office.stop().await;
    assert_eq!(letters(&office).await.len(), 0);
}

/// With `hold`, discarding the letter frees the key; what waited is delivered in order, the letter stays with the reason.
pub async fn a_dead_letter_holds_its_key_until_it_is_discarded(fresh: Fresh) {
    let (mut office, _script, letter) = held(fresh).await;
    let which = Selection {
        dead_ids: vec![letter.dead_id],
        ..Selection::default()
    };
    let refused = dead::discard(office.fresh.db(), &which, "me", " ")
        .await
        .expect_err("a reason is needed");
    assert!(refused.to_string().contains("reason"), "{refused}");
    assert_eq!(
        dead::discard(office.fresh.db(), &which, "me", "a test")
            .await
            .expect("discard"),
        1
    );
    office
        .expect("s", &["before", "free", "free too", "behind", "last"])
        .await;
    office.stop().await;
    let kept = dead::list(office.fresh.db(), &Selection::default(), None, 10)
        .await
        .expect("list");
    assert_eq!(
        (kept[0].state, kept[0].reason.as_deref()),
        (LetterState::Discarded, Some("a test"))
    );
}

/// A subscriber that fails on everything holds up no other.
pub async fn a_failing_subscriber_holds_up_no_other(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let bad = Scripted::new("bad").fails_on("one").fails_on("two");
    let relay = office
        .relay()
        .subscriber(bad.subscriber(1_000_000))
        .subscriber(Scripted::new("good").subscriber(3));
    office.start(relay);
    office.emit(&[("a", "one"), ("b", "two")]).await;
    office.expect("good", &["one", "two"]).await;
    office.until("it is tried", async || bad.calls("one") > 0).await;
    office.stop().await;
    assert_eq!(office.effects("bad").await, Vec::<String>::new());
}

/// A panic in a handler is a failed attempt.
pub async fn a_handler_that_panics_takes_down_nothing(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(
        office
            .relay()
            .subscriber(Scripted::new("s").fails_on("panic").subscriber(2)),
    );
    office.emit(&[("a", "panic"), ("b", "free")]).await;
    office.expect("s", &["free"]).await;
    let letter = &until_dead(&office, 1).await[0];
    assert!(letter.error.contains("panicked: scripted to panic"), "{}", letter.error);
    office.stop().await;
}

/// A handler that does not return is ended by its time-out.
pub async fn a_handler_that_hangs_is_ended(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("hang");
    office.start(office.relay().subscriber(Subscriber {
        timeout: Duration::from_millis(100),
        ..script.subscriber(2)
    }));
    office.emit(&[("a", "hang"), ("b", "free")]).await;
    office.expect("s", &["free"]).await;
    let letter = &until_dead(&office, 1).await[0];
    assert!(letter.error.contains("took longer"), "{}", letter.error);
    office.stop().await;
}

/// A handler whose statement waits for a lock of somebody else's is ended by its timeout, as often as it is tried; other keys
/// flow meanwhile, and it succeeds when the lock is gone.
pub async fn a_handler_that_waits_for_a_lock_is_ended(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office
        .execute("create table suite_locked (id int not null primary key)")
        .await;
    office.execute("insert into suite_locked (id) values (1)").await;
    let lock = table::begin(office.fresh.db()).await.expect("begin");
    let locked = lock
        .execute_unprepared("update suite_locked set id = 1 where id = 1")
        .await;
    locked.expect("lock a row");
    let script = Scripted::new("s").fails_on("lock");
    office.start(office.relay().subscriber(Subscriber {
        timeout: Duration::from_millis(300),
        ..script.subscriber(2)
    }));
    office.emit(&[("a", "lock"), ("b", "free")]).await;
    office.expect("s", &["free"]).await;
    assert_eq!(until_dead(&office, 1).await[0].attempts, 2);
    office.emit(&[("b", "free again")]).await;
    office.expect("s", &["free", "free again"]).await;
    lock.rollback().await.expect("let go");
    let retried = dead::retry(office.fresh.db(), &Selection::default(), "suite").await;
    assert_eq!(retried.expect("retry"), 1);
    office.expect("s", &["free", "free again", "lock"]).await;
    office.stop().await;
}

/// An event that can never be handled is a dead letter after one attempt.
pub async fn an_invalid_event_is_a_dead_letter_at_once(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("invalid");
    office.start(office.relay().subscriber(script.subscriber(10)));
    office.emit(&[("a", "invalid"), ("a", "next")]).await;
    office.expect("s", &["next"]).await;
    assert_eq!(until_dead(&office, 1).await[0].attempts, 1);
    assert_eq!(script.calls("invalid"), 1);
    office.stop().await;
}

/// One poison event in a batch is found; the others have their effect.
pub async fn a_poison_event_in_a_batch_is_found(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    office
        .emit(&[
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", "poison"),
            ("e", "4"),
            ("f", "5"),
        ])
        .await;
    let subscriber = Subscriber {
        retry: quick(2),
        ..Subscriber::in_batches("s", ["suite.**"], InBatches(script))
    };
    office.start(office.relay().subscriber(subscriber));
    office.expect("s", &["1", "2", "3", "4", "5"]).await;
    until_dead(&office, 1).await;
    office.stop().await;
}

/// A strict route stands still at a failed entry, whatever the key, until it succeeds or is given up.
pub async fn a_strict_route_lets_nothing_pass(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison").fails_on("dies");
    office.start(office.relay().subscriber(Subscriber {
        ordering: Ordering::Strict,
        ..script.subscriber(40)
    }));
    office.emit(&[("a", "first"), ("b", "poison"), ("c", "behind")]).await;
    office
        .until("it is tried again", async || script.calls("poison") >= 3)
        .await;
    assert_eq!(office.effects("s").await, ["first"]);
    script.heal();
    office.expect("s", &["first", "poison", "behind"]).await;
    let script = script.fails_on("dies");
    office.emit(&[("a", "dies"), ("b", "lives")]).await;
    office.expect("s", &["first", "poison", "behind", "lives"]).await;
    assert_eq!(script.calls("dies"), 40);
    until_dead(&office, 1).await;
    office.stop().await;
}

/// Without order a failed entry waits alone, and later ones of its key pass it.
pub async fn without_order_an_entry_waits_alone(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    office.start(office.relay().subscriber(Subscriber {
        ordering: Ordering::None,
        ..script.subscriber(1_000_000)
    }));
    office.emit(&[("a", "poison"), ("a", "passes")]).await;
    office.expect("s", &["passes"]).await;
    script.heal();
    office.expect("s", &["passes", "poison"]).await;
    office.stop().await;
}

/// A destination that can be switched off.
#[derive(Debug, Default)]
struct Switch {
    is_up: AtomicBool,
    largest_while_down: AtomicUsize,
    calls_while_down: AtomicUsize,
    seen: Mutex<Vec<String>>,
}

#[async_trait]
impl Destination for Switch {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        if !self.is_up.load(SeqCst) {
            if self.calls_while_down.fetch_add(1, SeqCst) > 0 {
                self.largest_while_down.fetch_max(batch.entries.len(), SeqCst);
            }
            return vec![Receipt::unavailable("switched off"); batch.entries.len()];
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in batch.entries {
            seen.push(entry.event.decode::<Noted>().expect("a note").note);
        }
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

/// While a destination is down nothing is lost or given up; it is probed with one entry, then the backlog drains in order.
pub async fn a_destination_that_is_down_is_probed_and_then_drained(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let switch = Arc::new(Switch::default());
    let route = Route {
        retry: quick(2),
        ..Route::new("switch", To::Destination(Arc::<Switch>::clone(&switch)))
    };
    office.start(office.relay().route(route.clone()));
    let notes: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
    let pairs: Vec<(&str, &str)> = notes.iter().map(|note| ("a", note.as_str())).collect();
    office.emit(&pairs).await;
    office
        .until("it is probed", async || switch.calls_while_down.load(SeqCst) >= 4)
        .await;
    assert_eq!(
        switch.largest_while_down.load(SeqCst),
        1,
        "a destination that is down is probed, not flooded"
    );
    let said = downs(&office).await;
    assert!(said.iter().all(|says| says.ends_with("switched off")), "{said:?}");
    assert_eq!(said.len(), 1, "whoever looks at the store sees why");
    office.stop().await;
    assert_eq!(downs(&office).await.len(), 1, "also while no relay delivers it");
    office.start(office.relay().route(route));
    switch.is_up.store(true, SeqCst);
    office.until_settled("switch").await;
    office.until("it is up", async || downs(&office).await.is_empty()).await;
    office.stop().await;
    assert_eq!(*switch.seen.lock().unwrap_or_else(PoisonError::into_inner), notes);
    assert_eq!(letters(&office).await.len(), 0, "an outage gives nothing up");
}

/// Dead letters of a route that was forgotten wait until it is there again; if its keys are cut otherwise then, each goes to
/// the shard that works its key now.
pub async fn dead_letters_follow_their_route_when_it_is_cut_anew(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let notes: Vec<String> = (0..8).map(|n| n.to_string()).collect();
    let script = notes
        .iter()
        .fold(Scripted::new("s"), |script, note| script.fails_on(note));
    office.start(office.relay().subscriber(Subscriber {
        shards: 4,
        ..script.subscriber(1)
    }));
    let pairs: Vec<(&str, &str)> = notes.iter().map(|note| (note.as_str(), note.as_str())).collect();
    office.emit(&pairs).await;
    until_dead(&office, 8).await;
    office.stop().await;
    operate::forget(&*office.store(), "s", "me").await.expect("forget");
    let of_route = Selection {
        routes: vec!["s".to_owned()],
        ..Selection::default()
    };
    let refused = dead::retry(office.fresh.db(), &of_route, "me").await;
    let refused = refused.expect_err("no relay delivers it");
    assert!(refused.to_string().contains("is not there any more"), "{refused}");
    let all = Selection::default();
    assert_eq!(dead::retry(office.fresh.db(), &all, "me").await.expect("retry"), 0);
    script.heal();
    office.start(office.relay().subscriber(Subscriber {
        start: Start::Head,
        ..script.subscriber(1)
    }));
    let registered = async || office.number("select count(*) from postroom.outbox_cursor").await == 1;
    office.until("the route is there again", registered).await;
    assert_eq!(dead::retry(office.fresh.db(), &of_route, "me").await.expect("retry"), 8);
    office
        .until("all have their effect", async || office.effects("s").await.len() == 8)
        .await;
    office.stop().await;
}

/// An event that a route has accepted is delivered, even if the filter of the route no longer matches it.
pub async fn what_waits_is_delivered_though_the_filter_has_changed(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    office.start(office.relay().subscriber(script.subscriber(1_000_000)));
    office.emit(&[("a", "poison"), ("a", "behind")]).await;
    let waiting = "select count(*) from postroom.outbox_parked";
    office
        .until("both wait", async || office.number(waiting).await == 2)
        .await;
    office.stop().await;
    script.heal();
    office.start(office.relay().subscriber(Subscriber {
        filter: Filter::any_of(["other.**"]),
        ..script.subscriber(3)
    }));
    office.expect("s", &["poison", "behind"]).await;
    office.stop().await;
}

/// More keys than one statement could name are retried all the same: a hundred thousand dead letters hold up no line.
pub async fn more_keys_than_a_statement_can_name_are_retried(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let refusing = Route {
        retry: quick(1_000_000),
        ..Route::new("sink", To::Destination(Arc::new(Refusing)))
    };
    office.start(office.relay().route(refusing));
    office.emit(&[("first", "one")]).await;
    let parked = "select count(*) from postroom.outbox_parked";
    office
        .until("it is parked", async || office.number(parked).await == 1)
        .await;
    office.stop().await;
    office.execute(&copies_of_what_is_parked(office.prefix(), 70_000)).await;
    let switch = Arc::new(Switch::default());
    switch.is_up.store(true, SeqCst);
    let route = Route::new("sink", To::Destination(Arc::<Switch>::clone(&switch)));
    office.start(office.relay().route(route));
    let left = async || office.number(parked).await;
    // A busy machine takes minutes for so many: each part has the time of a whole clause.
    for part in [50_000, 30_000, 10_000, 0] {
        office.until("they are delivered", async || left().await <= part).await;
    }
    office.stop().await;
    assert_eq!(switch.seen.lock().unwrap_or_else(PoisonError::into_inner).len(), 70_001);
}

/// As many copies of the one row that is parked, each of a key of its own, as an operator's retry leaves them.
fn copies_of_what_is_parked(prefix: &str, count: u32) -> String {
    let kept = "route, shard, event_id, event_type, source, aggregate_type, payload, headers, occurred_at, created_at";
    format!(
        "insert into {prefix}outbox_parked ({kept}, id, aggregate_id, state, origin) \
         select {kept}, id + n, cast(n as char(9)), 'wait', 'dead' from {prefix}outbox_parked, {} numbers \
         where n <= {count}",
        numbers()
    )
}

/// A destination that takes nothing.
#[derive(Debug)]
struct Refusing;

#[async_trait]
impl Destination for Refusing {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        vec![Receipt::Refused("not now".into()); batch.entries.len()]
    }
}

/// A destination that refuses once and is away then.
#[derive(Debug, Default)]
struct Leaving {
    calls: Mutex<Vec<Instant>>,
}

#[async_trait]
impl Destination for Leaving {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(Instant::now());
        let receipt = match calls.len() {
            1 => Receipt::Refused("not now".into()),
            _ => Receipt::unavailable("away"),
        };
        vec![receipt; batch.entries.len()]
    }
}

/// A destination that is away while something parked is due is probed more and more rarely, as one is that the log waits for.
pub async fn what_is_due_probes_more_and_more_rarely(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let leaving = Arc::new(Leaving::default());
    let route = Route {
        retry: quick(1_000_000),
        ..Route::new("leaving", To::Destination(Arc::<Leaving>::clone(&leaving)))
    };
    office.start(office.relay().route(route));
    office.emit(&[("a", "one")]).await;
    let calls = || leaving.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    office
        .until("it is probed several times", async || calls().len() >= 7)
        .await;
    // The waits between are at least half of 100, 200, 400, 800 and 1600 ms.
    let took = calls()[6] - calls()[1];
    assert!(took >= Duration::from_millis(1_550), "{took:?}");
    office.stop().await;
}

/// The errors that `why` reports for unavailable destinations.
async fn downs(office: &Office) -> Vec<String> {
    let reasons = operate::why(&*office.store()).await.expect("reasons");
    reasons
        .into_iter()
        .filter_map(|reason| match reason {
            Reason::Down { says, .. } => Some(says),
            _ => None,
        })
        .collect()
}

/// Parked entries, their attempts and what waits behind them survive a restart.
pub async fn what_waits_survives_a_restart(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    office.start(office.relay().subscriber(script.subscriber(1_000_000)));
    office.emit(&[("a", "poison"), ("a", "behind"), ("b", "free")]).await;
    office.expect("s", &["free"]).await;
    office.until("it was tried", async || script.calls("poison") >= 2).await;
    office.stop().await;
    assert!(office.number("select max(attempts) from postroom.outbox_parked").await >= 2);
    script.heal();
    office.start(office.relay().subscriber(script.subscriber(1_000_000)));
    office.expect("s", &["free", "poison", "behind"]).await;
    office.stop().await;
}

/// Two dead letters of one key, retried together, go one after the other; the second one waits for the first one's retries.
pub async fn dead_letters_of_one_key_are_retried_in_order(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("1").fails_on("2");
    office.start(office.relay().subscriber(script.subscriber(3)));
    office.emit(&[("a", "1"), ("a", "2")]).await;
    until_dead(&office, 2).await;
    let before = script.calls("2");
    dead::retry(office.fresh.db(), &Selection::default(), "me")
        .await
        .expect("retry");
    until_dead(&office, 2).await;
    assert_eq!(script.calls("1"), 6, "three attempts each time");
    assert_eq!(script.calls("2"), before + 3, "and none while it waited");
    script.heal();
    dead::retry(office.fresh.db(), &Selection::default(), "me")
        .await
        .expect("retry");
    office.expect("s", &["1", "2"]).await;
    office.stop().await;
}

/// A handler that swallows an error of its database costs its neighbours nothing, whatever the error did to the transaction.
pub async fn a_swallowed_error_costs_nobody_else_an_effect(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office
        .emit(&[("a", "1"), ("b", "swallow"), ("c", "2"), ("d", "3")])
        .await;
    office.start(
        office
            .relay()
            .subscriber(Scripted::new("s").fails_on("swallow").subscriber(2)),
    );
    let others = async || {
        let effects = office.effects("s").await;
        effects.iter().filter(|note| *note != "swallow").eq(["1", "2", "3"])
    };
    office.until("the others have their effect", others).await;
    office.until_settled("s").await;
    assert!(others().await);
    office.stop().await;
}

/// Two operators who press *retry* at the same time retry each letter once.
pub async fn two_operators_retry_at_once(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("1").fails_on("2").fails_on("3");
    office.start(office.relay().subscriber(script.subscriber(1)));
    office.emit(&[("a", "1"), ("b", "2"), ("c", "3")]).await;
    until_dead(&office, 3).await;
    script.heal();
    let (all, other) = (Selection::default(), office.fresh.second().await);
    let (one, two) = tokio::join!(
        dead::retry(office.fresh.db(), &all, "one"),
        dead::retry(other.db(), &all, "two")
    );
    assert_eq!(one.expect("retry") + two.expect("retry"), 3);
    office
        .until("all have their effect", async || office.effects("s").await.len() == 3)
        .await;
    office.stop().await;
    let acts = office
        .number("select count(*) from postroom.admin_audit where action = 'dead.retry'")
        .await;
    assert_eq!(acts, 3);
}
