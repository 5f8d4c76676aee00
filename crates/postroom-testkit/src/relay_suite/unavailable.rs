//! Clauses about unavailable destinations: one entry that is always unavailable is not an outage, and an outage burns no attempts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom::dead::{self, Selection};
use postroom::{Batch, Destination, Ordering, Receipt, Retry, Route, To, table};

use super::fixture::{Noted, Office, noted, quick};
use crate::Fresh;

/// Good entries that must pass beside a bad one.
const GOOD: usize = 2_000;
/// Far more than they take, and far less than at ten per second.
const GOOD_MAX: Duration = Duration::from_secs(40);

/// A destination that answers `Unavailable` for the key `bad`, or for everything while it is away.
#[derive(Debug, Default)]
struct Gateway {
    is_away: AtomicBool,
    /// Refuses the key `picky` instead of delivering it.
    is_picky: AtomicBool,
    delivered: Mutex<Vec<String>>,
    calls: Mutex<HashMap<String, u32>>,
}

impl Gateway {
    fn route(self: &Arc<Self>, retry: Retry) -> Route {
        let gateway = Arc::<Self>::clone(self);
        Route {
            retry,
            ..Route::new("gateway", To::Destination(gateway))
        }
    }

    fn delivered(&self) -> usize {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn calls(&self, key: &str) -> u32 {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(key).copied().unwrap_or(0)
    }

    fn all_calls(&self) -> u32 {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.values().sum()
    }

    fn answer(&self, noted: Noted) -> Receipt {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry(noted.key.clone()).or_default() += 1;
        match noted.key.as_str() {
            _ if self.is_away.load(SeqCst) => Receipt::Unavailable("503 away".into()),
            "bad" => Receipt::Unavailable("503 for this one".into()),
            "picky" if self.is_picky.load(SeqCst) => Receipt::Refused("not now".into()),
            _ => {
                let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
                delivered.push(noted.note);
                Receipt::Delivered
            }
        }
    }
}

#[async_trait]
impl Destination for Gateway {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let deliver = async |at: usize| match batch.entries.get(at) {
            Some(entry) => self.answer(entry.event.decode().expect("a note")),
            None => Receipt::Held,
        };
        batch.in_lanes(8, deliver).await
    }
}

async fn emit_together(office: &Office, notes: impl IntoIterator<Item = (String, String)>) {
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    for (key, note) in notes {
        postroom::emit(&tx, &noted(&key, &note)).await.expect("emit");
    }
    tx.commit().await.expect("commit");
}

async fn good_ones(office: &Office) {
    let good = (0..GOOD).map(|n| (format!("good-{}", n % 100), n.to_string()));
    emit_together(office, good).await;
}

async fn dead_attempts(office: &Office) -> Vec<u32> {
    let which = Selection::default();
    let letters = dead::list(office.fresh.db(), &which, None, 100).await;
    letters.expect("list").iter().map(|letter| letter.attempts).collect()
}

/// Emits another good entry each time until the bad one is given up.
async fn until_bad_is_dead(office: &Office, attempts: u32) {
    let is_dead = async || {
        office.emit(&[("other", "other")]).await;
        !dead_attempts(office).await.is_empty()
    };
    office.until("the bad entry is a dead letter", is_dead).await;
    assert_eq!(dead_attempts(office).await, [attempts]);
}

async fn downs(office: &Office) -> i64 {
    office.number("select count(*) from postroom.outbox_down").await
}

async fn beside_good_ones(fresh: Fresh, ordering: Ordering) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    emit_together(&office, [("bad".to_owned(), "first".to_owned())]).await;
    emit_together(&office, [("good".to_owned(), "second".to_owned())]).await;
    office.start(office.relay().route(Route {
        ordering,
        ..gateway.route(quick(5))
    }));
    office.until("it was retried", async || gateway.calls("bad") >= 2).await;
    let begun = Instant::now();
    good_ones(&office).await;
    office
        .until("the good ones pass", async || gateway.delivered() > GOOD)
        .await;
    assert!(begun.elapsed() < GOOD_MAX, "took {:?}", begun.elapsed());
    until_bad_is_dead(&office, 5).await;
    office.until_settled("gateway").await;
    office.stop().await;
    assert_eq!(downs(&office).await, 0, "no outage is left on record");
}

/// One entry that is always unavailable holds its own key: the others pass at full speed, and it is given up by policy.
pub async fn an_entry_that_is_always_unavailable_holds_only_its_key(fresh: Fresh) {
    beside_good_ones(fresh, Ordering::Key).await;
}

/// The same without order.
pub async fn an_entry_that_is_always_unavailable_waits_alone_without_order(fresh: Fresh) {
    beside_good_ones(fresh, Ordering::None).await;
}

/// One that comes alone, as the first of its log, blocks nothing that comes later.
pub async fn an_unavailable_entry_at_the_head_of_the_log_lets_others_pass(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    office.start(office.relay().route(gateway.route(quick(3))));
    office.emit(&[("bad", "first"), ("bad", "behind")]).await;
    office.until("it was probed", async || gateway.calls("bad") >= 3).await;
    assert_eq!(dead_attempts(&office).await, [0_u32; 0], "alone it may be an outage");
    let begun = Instant::now();
    good_ones(&office).await;
    office
        .until("the good ones pass", async || gateway.delivered() == GOOD)
        .await;
    assert!(begun.elapsed() < GOOD_MAX, "took {:?}", begun.elapsed());
    office.stop().await;
}

/// A strict route waits for an unavailable entry as for an outage; only its age ends that.
pub async fn a_strict_route_waits_for_an_unavailable_entry_until_it_is_too_old(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    let retry = Retry {
        age_max: Some(Duration::from_secs(4)),
        ..quick(2)
    };
    office.start(office.relay().route(Route {
        ordering: Ordering::Strict,
        ..gateway.route(retry)
    }));
    office.emit(&[("good", "0"), ("bad", "1"), ("good", "2")]).await;
    office.until("it was probed", async || gateway.calls("bad") >= 4).await;
    assert_eq!(gateway.delivered(), 1, "nothing passes it");
    office
        .until("the route goes on", async || gateway.delivered() == 2)
        .await;
    assert_eq!(dead_attempts(&office).await, [0], "given up by age");
    office.stop().await;
}

/// While everything is unavailable no attempt is counted: neither of what is parked nor of what the log holds. The destination is
/// tried more and more rarely meanwhile.
pub async fn an_outage_burns_no_attempts(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    gateway.is_picky.store(true, SeqCst);
    let retry = Retry {
        delays: postroom::Delays::Fixed(Duration::from_millis(300)),
        ..quick(1_000)
    };
    office.start(office.relay().route(gateway.route(retry)));
    office.emit(&[("picky", "parked"), ("good", "0")]).await;
    let attempts = "select coalesce(max(attempts), 0) from postroom.outbox_parked";
    office
        .until("one is parked", async || office.number(attempts).await > 0)
        .await;
    gateway.is_away.store(true, SeqCst);
    let calls = gateway.all_calls();
    office
        .until("it was tried again", async || gateway.all_calls() > calls)
        .await;
    let (counted, calls, begun) = (office.number(attempts).await, gateway.all_calls(), Instant::now());
    let log: Vec<(String, String)> = (0..50).map(|n| (format!("k{n}"), n.to_string())).collect();
    emit_together(&office, log).await;
    let is_over = async || begun.elapsed() > Duration::from_secs(4);
    office.until("the outage lasts", is_over).await;
    assert_eq!(office.number(attempts).await, counted, "an outage burns no attempts");
    let tried = gateway.all_calls() - calls;
    // One batch of all, then probes of the log and of what is parked: each waits longer than the one before.
    assert!(tried < 51 + 200, "{tried} entries were sent in {:?}", begun.elapsed());
    assert_eq!(downs(&office).await, 1, "the outage is on record");
    gateway.is_away.store(false, SeqCst);
    gateway.is_picky.store(false, SeqCst);
    office.until("all arrive", async || gateway.delivered() == 52).await;
    office.until("it is up", async || downs(&office).await == 0).await;
    assert_eq!(dead_attempts(&office).await, [0_u32; 0]);
    office.stop().await;
}

/// A restart in the middle forgets no attempt, and a bad entry dies all the same.
pub async fn attempts_of_an_unavailable_entry_survive_a_restart(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    office.start(office.relay().route(gateway.route(quick(40))));
    office.emit(&[("bad", "first"), ("good", "second")]).await;
    let attempts = "select coalesce(max(attempts), 0) from postroom.outbox_parked";
    let is_counted = async || {
        office.emit(&[("other", "other")]).await;
        office.number(attempts).await >= 2
    };
    office.until("attempts were counted", is_counted).await;
    office.stop().await;
    let counted = office.number(attempts).await;
    office.start(office.relay().route(gateway.route(quick(40))));
    let is_more = async || {
        office.emit(&[("other", "other")]).await;
        office.number(attempts).await > counted
    };
    office.until("another attempt was counted", is_more).await;
    office.stop().await;
}
