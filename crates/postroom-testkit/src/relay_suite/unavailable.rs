//! Clauses about unavailable destinations: one entry that is always unavailable is not an outage, an outage burns no attempts, and a
//! destination is not asked before its time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom::dead::{self, Selection};
use postroom::operate::{self, Reason, RouteStatus};
use postroom::{Batch, Destination, Ordering, Probe, Receipt, Retry, Route, To, table};

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
    /// Does not answer.
    is_silent: AtomicBool,
    /// How long it wants to be left alone while it is away.
    after: Mutex<Option<Duration>>,
    /// When it was asked while it was away.
    asked_at: Mutex<Vec<Instant>>,
    delivered: Mutex<Vec<Noted>>,
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

    /// The notes of a key, in the order of their delivery.
    fn delivered_of(&self, key: &str) -> Vec<String> {
        let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = delivered.iter().filter(|noted| noted.key == key);
        of_key.map(|noted| noted.note.clone()).collect()
    }

    fn calls(&self, key: &str) -> u32 {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(key).copied().unwrap_or(0)
    }

    fn all_calls(&self) -> u32 {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.values().sum()
    }

    /// When it was asked while it was away.
    fn asked_at(&self) -> Vec<Instant> {
        self.asked_at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_after(&self, after: impl Into<Option<Duration>>) {
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) = after.into();
    }

    fn away(&self) -> Receipt {
        let mut asked_at = self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        asked_at.push(Instant::now());
        Receipt::Unavailable {
            says: "503 away".to_owned(),
            after: *self.after.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn answer(&self, noted: Noted) -> Receipt {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry(noted.key.clone()).or_default() += 1;
        match noted.key.as_str() {
            _ if self.is_away.load(SeqCst) => self.away(),
            "bad" => Receipt::unavailable("503 for this one"),
            "picky" if self.is_picky.load(SeqCst) => Receipt::Refused("not now".into()),
            _ => {
                let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
                delivered.push(noted);
                Receipt::Delivered
            }
        }
    }
}

#[async_trait]
impl Destination for Gateway {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let deliver = async |at: usize| match batch.entries.get(at) {
            Some(entry) => {
                let receipt = self.answer(entry.event.decode().expect("a note"));
                match self.is_silent.load(SeqCst) {
                    true => std::future::pending().await,
                    false => receipt,
                }
            }
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

async fn beside_good_ones(fresh: Fresh, ordering: Ordering, probe: Probe) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    emit_together(&office, [("bad".to_owned(), "first".to_owned())]).await;
    emit_together(&office, [("good".to_owned(), "second".to_owned())]).await;
    office.start(office.relay().route(Route {
        ordering,
        probe,
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
    beside_good_ones(fresh, Ordering::Key, Probe::Backoff).await;
}

/// The same without order.
pub async fn an_entry_that_is_always_unavailable_waits_alone_without_order(fresh: Fresh) {
    beside_good_ones(fresh, Ordering::None, Probe::Backoff).await;
}

/// The same on a route that probes once per interval: it costs the others a few intervals, and no more.
pub async fn an_entry_that_is_always_unavailable_does_not_stop_a_route_with_rare_probes(fresh: Fresh) {
    beside_good_ones(fresh, Ordering::Key, Probe::every(Duration::from_secs(1))).await;
}

/// The same for one at the head of the log, before anything was answered.
pub async fn an_unavailable_head_of_the_log_does_not_stop_a_route_with_rare_probes(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    office.start(office.relay().route(Route {
        probe: Probe::every(Duration::from_secs(1)),
        ..gateway.route(quick(3))
    }));
    office.emit(&[("bad", "first"), ("bad", "behind")]).await;
    office.until("it was probed", async || gateway.calls("bad") >= 2).await;
    assert_eq!(dead_attempts(&office).await, [0_u32; 0], "alone it may be an outage");
    good_ones(&office).await;
    office
        .until("the good ones pass", async || gateway.delivered() == GOOD)
        .await;
    office.stop().await;
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

/// A probe is stored before it is sent, and a relay that takes over counts from the stored time: on a busy machine the sending comes
/// this much later. Clocks of databases also round to milliseconds.
const SENT_LATER: Duration = Duration::from_millis(250);

/// No relay has asked again before the end of `wait`.
fn assert_apart(asked_at: &[Instant], wait: Duration) {
    let gaps: Vec<Duration> = asked_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps.iter().all(|gap| *gap + SENT_LATER >= wait),
        "{gaps:?}, not {wait:?} apart"
    );
}

async fn until_asked(office: &Office, gateway: &Gateway, times: usize) {
    let is_asked = async || gateway.asked_at().len() >= times;
    office.until(&format!("it was asked {times} times"), is_asked).await;
}

async fn status_of(office: &Office, route: &str) -> RouteStatus {
    let status = operate::status(&*office.store()).await.expect("status");
    let route = status.routes.into_iter().find(|known| known.route == route);
    route.expect("the route")
}

/// A route that probes once per interval sends one entry per interval while the destination is down, whatever is parked or due, and
/// whichever relay works it: one that is killed, also in the middle of a probe, is followed by one that waits as well.
pub async fn a_route_with_rare_probes_keeps_to_them_over_crashes(fresh: Fresh) {
    const EVERY: Duration = Duration::from_secs(2);
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    let route = || Route {
        probe: Probe::every(EVERY),
        ..gateway.route(quick(1_000_000))
    };
    gateway.is_picky.store(true, SeqCst);
    office.start(office.relay().route(route()));
    office.emit(&[("picky", "0"), ("good", "0")]).await;
    office
        .until("one is parked", async || gateway.calls("picky") >= 2)
        .await;
    gateway.is_away.store(true, SeqCst);
    until_asked(&office, &gateway, 1).await;
    let log = (0..20).map(|n| (format!("k{}", n % 4), n.to_string()));
    emit_together(&office, log).await;
    for kill in 0..3_usize {
        gateway.is_silent.store(kill == 1, SeqCst);
        until_asked(&office, &gateway, 2 * kill + 2).await;
        office.abort().await;
        if kill < 2 {
            office.give_leases_back().await; // the last one is taken over when it has run out
        }
        gateway.is_silent.store(false, SeqCst);
        office.start(office.relay().route(route()));
        until_asked(&office, &gateway, 2 * kill + 3).await;
    }
    assert_apart(&gateway.asked_at(), EVERY);
    gateway.is_picky.store(false, SeqCst);
    gateway.is_away.store(false, SeqCst);
    office.until_settled("gateway").await;
    office.until("it is up", async || downs(&office).await == 0).await;
    office.stop().await;
    assert_eq!(gateway.delivered_of("picky"), ["0"]);
    for key in 0..4 {
        let expected: Vec<String> = (0..20).filter(|n| n % 4 == key).map(|n| n.to_string()).collect();
        assert_eq!(gateway.delivered_of(&format!("k{key}")), expected);
    }
    assert_eq!(gateway.delivered(), 22, "each once");
    assert_eq!(dead_attempts(&office).await, [0_u32; 0]);
}

/// A destination that wants to be left alone for longer than its route would wait is left alone, also after a restart.
pub async fn a_destination_that_asks_for_a_longer_wait_gets_it(fresh: Fresh) {
    const AFTER: Duration = Duration::from_secs(3);
    let mut office = Office::open(fresh).await;
    let policies = [
        ("by-interval", Probe::every(Duration::from_secs(1))),
        ("by-backoff", Probe::Backoff),
    ];
    let gateways = policies.map(|_| Arc::new(Gateway::default()));
    let relay = |office: &Office| {
        let routes = policies.iter().zip(&gateways).map(|((name, probe), gateway)| Route {
            name: (*name).to_owned(),
            probe: *probe,
            ..gateway.route(quick(5))
        });
        routes.fold(office.relay(), |relay, route| relay.route(route))
    };
    for gateway in &gateways {
        gateway.is_away.store(true, SeqCst);
        gateway.set_after(AFTER);
    }
    office.start(relay(&office));
    office.emit(&[("a", "0")]).await;
    for gateway in &gateways {
        until_asked(&office, gateway, 1).await;
    }
    office.stop().await;
    office.start(relay(&office));
    for gateway in &gateways {
        until_asked(&office, gateway, 3).await;
        assert_apart(&gateway.asked_at(), AFTER);
        gateway.is_away.store(false, SeqCst);
    }
    for (name, _) in policies {
        office.until_settled(name).await;
    }
    office.stop().await;
    assert_eq!(gateways.map(|gateway| gateway.delivered()), [1, 1]);
}

/// A destination that has asked for a wait, and does not ask for another one while it is still away, is probed more and more rarely:
/// not all the time.
pub async fn a_destination_that_asks_for_no_further_wait_is_not_asked_without_pause(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    gateway.is_away.store(true, SeqCst);
    gateway.set_after(Duration::from_secs(1));
    office.start(office.relay().route(gateway.route(quick(5))));
    office.emit(&[("a", "0")]).await;
    until_asked(&office, &gateway, 1).await;
    gateway.set_after(None);
    until_asked(&office, &gateway, 2).await;
    let begun = Instant::now();
    let is_over = async || begun.elapsed() > Duration::from_secs(2);
    office.until("the outage lasts", is_over).await;
    let asked = gateway.asked_at().len();
    assert!(asked < 20, "it was asked {asked} times in {:?}", begun.elapsed());
    assert_eq!(
        status_of(&office, "gateway").await.probe_s,
        None,
        "no time is shown that has passed"
    );
    gateway.is_away.store(false, SeqCst);
    office.until_settled("gateway").await;
    office.until("it is up", async || downs(&office).await == 0).await;
    office.stop().await;
    assert_eq!(gateway.delivered(), 1);
}

/// Says after a while that it is unavailable, as the client of a broker does that does not answer.
#[derive(Debug, Default)]
struct Silent {
    answers: AtomicUsize,
}

#[async_trait]
impl Destination for Silent {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        self.answers.fetch_add(1, SeqCst);
        batch
            .entries
            .iter()
            .map(|_| Receipt::unavailable("no answer"))
            .collect()
    }
}

/// A destination that does not answer is shown as down after the first time, while nothing flows.
pub async fn a_destination_that_does_not_answer_is_shown_at_once(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let silent = Arc::new(Silent::default());
    office.start(
        office
            .relay()
            .route(Route::new("silent", To::Destination(Arc::clone(&silent) as _))),
    );
    office.emit(&[("a", "0")]).await;
    let is_shown = async || {
        let status = operate::status(&*office.store()).await.expect("status");
        let mut routes = status.routes.iter();
        routes.any(|route| route.down.as_deref() == Some("no answer"))
    };
    office.until("it is shown", is_shown).await;
    assert_eq!(silent.answers.load(SeqCst), 1, "after its first answer");
    office.abort().await;
}

/// An operator who has the next probe now gets also the entries that were put aside while the destination wanted to be left alone.
pub async fn a_probe_that_an_operator_asks_for_takes_what_was_put_aside(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    gateway.is_away.store(true, SeqCst);
    gateway.set_after(Duration::from_secs(900));
    let route = Route {
        probe: Probe::every(Duration::from_secs(1)),
        ..gateway.route(quick(5))
    };
    office.start(office.relay().route(route));
    let is_waiting = async || {
        let status = status_of(&office, "gateway").await;
        status.probe_s.is_some_and(|wait| wait > 800.0)
    };
    office.emit(&[("a", "0")]).await;
    until_asked(&office, &gateway, 1).await;
    office.until("the route waits", is_waiting).await;
    office.emit(&[("b", "1")]).await;
    set_paused(&office, false).await; // the probe puts the first entry aside, to see whether it fails alone
    until_asked(&office, &gateway, 2).await;
    office.until("the route waits again", is_waiting).await;
    gateway.is_away.store(false, SeqCst);
    set_paused(&office, false).await;
    office.until("both arrive", async || gateway.delivered() == 2).await;
    office.until_settled("gateway").await;
    office.stop().await;
}

/// Waits until the status shows why the destination is down, and that it is asked again in about an hour.
async fn until_waiting(office: &Office) {
    let is_waiting = async || {
        let status = status_of(office, "gateway").await;
        let is_later = status.probe_s.is_some_and(|wait| wait > 3500.0 && wait < 4000.0);
        is_later && status.down.as_deref() == Some("503 away")
    };
    office.until("the cause and the next probe are shown", is_waiting).await;
}

/// Status and reasons show why a destination is down and when it is asked again. An operator can have that now. A relay that waits
/// pauses, resumes, stops and starts as any other.
pub async fn an_operator_sees_the_next_probe_and_can_have_it_now(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let gateway = Arc::new(Gateway::default());
    let route = || Route {
        probe: Probe::every(Duration::from_secs(3600)),
        ..gateway.route(quick(1_000_000))
    };
    gateway.is_picky.store(true, SeqCst);
    office.start(office.relay().route(route()));
    office.emit(&[("picky", "0")]).await;
    office.until("it is parked", async || gateway.calls("picky") >= 2).await;
    gateway.is_away.store(true, SeqCst);
    until_asked(&office, &gateway, 1).await;
    until_waiting(&office).await;
    let reasons = operate::why(&*office.store()).await.expect("reasons");
    let is_shown = |reason: &Reason| matches!(reason, Reason::Down { probe_s: Some(wait), says, .. } if *wait > 3500.0 && says == "503 away");
    assert!(reasons.iter().any(is_shown), "{reasons:?}");

    set_paused(&office, false).await;
    until_asked(&office, &gateway, 2).await;
    until_waiting(&office).await;
    assert_eq!(gateway.asked_at().len(), 2, "one probe for one act");
    let audited = "select count(*) from postroom.admin_audit where action = 'route.resume' and detail like '%probe%'";
    let audited = match office.prefix() {
        "postroom." => audited.replace("detail", "detail::text"),
        _ => audited.to_owned(),
    };
    assert_eq!(office.number(&audited).await, 1);

    set_paused(&office, true).await;
    office.emit(&[("b", "1")]).await;
    gateway.is_picky.store(false, SeqCst);
    gateway.is_away.store(false, SeqCst);
    set_paused(&office, false).await;
    office.until("all arrive", async || gateway.delivered() == 2).await;
    office.until("it is up", async || downs(&office).await == 0).await;
    assert_eq!(status_of(&office, "gateway").await.probe_s, None);
    gateway.is_away.store(true, SeqCst);
    office.emit(&[("a", "2")]).await;
    until_waiting(&office).await;
    office.stop().await;
    office.start(office.relay().route(route()));
    office
        .until("it is worked", async || status_of(&office, "gateway").await.is_leased)
        .await;
    gateway.is_away.store(false, SeqCst);
    set_paused(&office, false).await;
    office
        .until("the last one arrives", async || gateway.delivered() == 3)
        .await;
    office.stop().await;
    assert_eq!(gateway.asked_at().len(), 3, "a restart asks nothing");
}

async fn set_paused(office: &Office, is_paused: bool) {
    let done = operate::set_paused(&*office.store(), "gateway", is_paused, "me").await;
    done.expect("pause or resume");
}
