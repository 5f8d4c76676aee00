//! Clauses about operators who try a parked event before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use postroom::operate::{self, Carrier, DeliveryState, Letters, NextStep, Reason, RetriedNow};
use postroom::{
    Batch, Dead, Delays, Destination, ErrorKind, Filter, Ordering, Probe, Receipt, Retry, Route, Subscriber, To,
};
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::fixture::{Office, Scripted};
use crate::Fresh;

/// Nothing is retried within the time of a test.
fn in_an_hour() -> Retry {
    Retry {
        delays: Delays::Fixed(Duration::from_secs(3600)),
        attempts_max: None,
        age_max: None,
    }
}

async fn press(office: &Office, event_id: Uuid) -> postroom::Result<Vec<RetriedNow>> {
    operate::retry_now(&*office.store(), event_id, None, "kim").await
}

/// Waits until an event has this state on the one route.
async fn until_it_is(office: &Office, event_id: Uuid, state: DeliveryState) {
    let is_so = async || {
        let timeline = operate::timeline(&*office.store(), event_id).await.expect("timeline");
        timeline.deliveries.iter().any(|one| one.state == state)
    };
    office.until(&format!("the event is {state}"), is_so).await;
}

async fn acts(office: &Office) -> i64 {
    let acts = "select count(*) from postroom.admin_audit where actor = 'kim' and action = 'event.retry'";
    office.number(acts).await
}

/// A strict route stands behind an event that fails, for as long as its schedule says. An operator has it tried now, and everything
/// behind it follows in order.
pub async fn a_strict_route_goes_on_when_an_operator_retries_its_first_event(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    let strict = || Subscriber {
        retry: in_an_hour(),
        ..script.subscriber(1).ordering(Ordering::Strict)
    };
    office.start(office.relay().subscriber(strict()));
    let ids = office.emit(&[("a", "poison"), ("b", "behind"), ("a", "last")]).await;
    until_it_is(&office, ids[0], DeliveryState::Parked).await;
    let still = press(&office, ids[0]).await.expect("it is parked");
    assert!(still[0].early_s > 3000.0, "{still:?}");
    office
        .until("it fails again", async || script.calls("poison") == 2)
        .await;
    assert_eq!(office.effects("s").await, Vec::<String>::new(), "nothing has passed it");
    let waits = async || {
        press(&office, ids[0])
            .await
            .is_ok_and(|retried| retried[0].attempts == 2)
    };
    script.heal();
    office.until("it is parked with two attempts", waits).await;
    office.expect("s", &["poison", "behind", "last"]).await;
    office.stop().await;
    assert_eq!(acts(&office).await, 2);
}

/// With order by key, an operator has the first event of a key tried, and those behind it follow. One of those names the first.
pub async fn a_key_goes_on_when_an_operator_retries_its_first_event(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison").fails_on("other");
    office.start(office.relay().subscriber(Subscriber {
        retry: in_an_hour(),
        ..script.subscriber(1)
    }));
    let ids = office
        .emit(&[("a", "other"), ("b", "poison"), ("b", "behind"), ("c", "free")])
        .await;
    office.expect("s", &["free"]).await;
    until_it_is(&office, ids[2], DeliveryState::Waiting).await;
    let refused = press(&office, ids[2]).await.expect_err("another is in front");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(refused.next_steps(), [NextStep::RetryNow { event_id: ids[1] }]);
    script.heal();
    press(&office, ids[1]).await.expect("it is parked");
    office.expect("s", &["free", "poison", "behind"]).await;
    assert_eq!(script.calls("other"), 1, "the other key waits for its time");
    office.stop().await;
}

/// Refuses until it is well; then it takes entries while it is open.
#[derive(Debug)]
struct Counter {
    is_ill: AtomicBool,
    is_away: AtomicBool,
    door: Semaphore,
    began: AtomicUsize,
    taken: AtomicUsize,
}

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            is_ill: AtomicBool::new(true),
            is_away: AtomicBool::new(false),
            door: Semaphore::new(0),
            began: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        })
    }

    fn route(self: &Arc<Self>) -> Route {
        Route {
            retry: in_an_hour(),
            ..Route::new("counter", To::Destination(Arc::clone(self) as _))
        }
    }
}

#[async_trait]
impl Destination for Counter {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        self.began.fetch_add(1, SeqCst);
        if self.is_away.load(SeqCst) {
            return batch.entries.iter().map(|_| Receipt::unavailable("away")).collect();
        }
        if self.is_ill.load(SeqCst) {
            return batch.entries.iter().map(|_| Receipt::Refused("ill".into())).collect();
        }
        self.door.acquire().await.expect("a door").forget();
        self.taken.fetch_add(batch.entries.len(), SeqCst);
        batch.entries.iter().map(|_| Receipt::Delivered).collect()
    }
}

/// A destination without an inbox gets the event once, however many operators retry it, and also if they do while it is delivered.
pub async fn a_retry_that_many_ask_for_delivers_once(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let counter = Counter::new();
    office.start(office.relay().route(counter.route()));
    let ids = office.emit(&[("a", "one")]).await;
    until_it_is(&office, ids[0], DeliveryState::Parked).await;
    counter.is_ill.store(false, SeqCst);
    let pressed = futures::future::join_all((0..8).map(|_| press(&office, ids[0]))).await;
    let early = pressed
        .iter()
        .filter(|one| one.as_ref().expect("it is parked")[0].early_s > 0.0);
    assert_eq!(early.count(), 1, "one of them had it retried: {pressed:?}");
    office
        .until("it is being delivered", async || counter.began.load(SeqCst) == 2)
        .await;
    for _ in 0..3 {
        let meanwhile = press(&office, ids[0]).await.expect("it is parked still");
        assert!(meanwhile[0].early_s <= 0.0, "{meanwhile:?}");
    }
    counter.door.add_permits(10);
    office
        .until("it is gone", async || {
            office.number("select count(*) from postroom.outbox_parked").await == 0
        })
        .await;
    let gone = press(&office, ids[0]).await.expect_err("it is delivered");
    assert_eq!(gone.next_steps(), [NextStep::ShowEvent { event_id: ids[0] }]);
    office.emit(&[("a", "two")]).await;
    office.until_settled("counter").await;
    office.stop().await;
    assert_eq!(counter.taken.load(SeqCst), 2, "each once");
    assert_eq!(acts(&office).await, 1);
}

/// A retry that was asked for while the event was being tried does not try it once more when that fails: it waits by its schedule.
pub async fn a_retry_during_a_delivery_that_fails_changes_nothing(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("hang");
    office.start(office.relay().subscriber(Subscriber {
        retry: in_an_hour(),
        timeout: Duration::from_millis(600),
        ..script.subscriber(1)
    }));
    let ids = office.emit(&[("a", "hang")]).await;
    until_it_is(&office, ids[0], DeliveryState::Parked).await;
    press(&office, ids[0]).await.expect("it is parked");
    office
        .until("it is being tried", async || script.calls("hang") == 2)
        .await;
    let meanwhile = press(&office, ids[0]).await.expect("it is parked still");
    assert!(meanwhile[0].early_s <= 0.0, "{meanwhile:?}");
    let attempts = "select count(*) from postroom.outbox_parked where attempts = 2";
    office
        .until("the second try has failed", async || office.number(attempts).await == 1)
        .await;
    office.emit(&[("b", "free")]).await;
    office.expect("s", &["free"]).await;
    office.stop().await;
    assert_eq!(script.calls("hang"), 2);
}

/// A destination that is unavailable is asked at once, although its next probe is in an hour.
pub async fn a_retry_asks_a_destination_that_is_down(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let counter = Counter::new();
    office.start(office.relay().route(Route {
        probe: Probe::every(Duration::from_secs(3600)),
        ..counter.route()
    }));
    let ids = office.emit(&[("a", "one")]).await;
    until_it_is(&office, ids[0], DeliveryState::Parked).await;
    counter.is_away.store(true, SeqCst);
    press(&office, ids[0]).await.expect("it is parked");
    let is_down = async || {
        let status = operate::status(&*office.store()).await.expect("status");
        status.routes[0].probe_s.is_some_and(|wait| wait > 3000.0)
    };
    office.until("the destination is known to be down", is_down).await;
    counter.is_away.store(false, SeqCst);
    counter.is_ill.store(false, SeqCst);
    counter.door.add_permits(10);
    let retried = press(&office, ids[0]).await.expect("it is parked");
    assert!(retried[0].is_probed, "{retried:?}");
    office
        .until("it is asked now", async || counter.taken.load(SeqCst) == 1)
        .await;
    office.stop().await;
}

/// An event that waits for no retry is refused with what can be done about it.
pub async fn a_retry_of_what_waits_for_none_says_what_helps(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    office.start(office.relay().subscriber(script.subscriber(1).dead(Dead::Hold)));
    let ids = office.emit(&[("a", "one"), ("b", "poison"), ("b", "behind")]).await;
    office.expect("s", &["one"]).await;
    until_it_is(&office, ids[2], DeliveryState::Waiting).await;
    let refused = async |event_id| press(&office, event_id).await.expect_err("it waits for no retry");
    let delivered = refused(ids[0]).await;
    assert_eq!(delivered.kind(), ErrorKind::Conflict, "{delivered}");
    assert_eq!(delivered.next_steps(), [NextStep::ShowEvent { event_id: ids[0] }]);
    for dead in [ids[1], ids[2]] {
        let dead = refused(dead).await;
        let is_letter = |step: &NextStep| {
            matches!(
                step,
                NextStep::Retry {
                    letters: Letters::Id(_)
                }
            )
        };
        assert!(dead.next_steps().iter().all(is_letter), "{dead}");
        assert!(dead.to_string().contains("dead letter"), "{dead}");
    }
    let unknown = refused(Uuid::now_v7()).await;
    assert_eq!(unknown.kind(), ErrorKind::NotFound, "{unknown}");
    let elsewhere = operate::retry_now(&*office.store(), ids[1], Some("t"), "kim").await;
    assert_eq!(elsewhere.expect_err("no such route").kind(), ErrorKind::Conflict);
    office.stop().await;
    assert_eq!(acts(&office).await, 0, "nothing was done");
}

/// Behind an event that fails on a strict route wait all events that the route takes, and no others.
pub async fn why_counts_what_waits_behind_a_failing_event(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    let route = Subscriber {
        retry: in_an_hour(),
        filter: Filter::any_of(["suite.noted.v1"]),
        ..script.subscriber(1).ordering(Ordering::Strict)
    };
    let carrier = Carrier {
        ordering: Ordering::Strict,
        ..Carrier::new("s", route.filter.clone())
    };
    let by_key = Carrier::new("s", route.filter.clone());
    office.start(office.relay().subscriber(route));
    let ids = office.emit(&[("a", "before"), ("a", "poison")]).await;
    until_it_is(&office, ids[1], DeliveryState::Parked).await;
    office.emit(&[("b", "1"), ("c", "2"), ("a", "3")]).await;
    foreign(&office).await;
    let waiting = async |carrier: &Carrier| {
        let store = office.store();
        store.pulse().await.expect("pulse");
        let reasons = operate::why_among(&*store, std::slice::from_ref(carrier)).await;
        let reasons = reasons.expect("why");
        reasons.iter().find_map(|reason| match reason {
            Reason::Retrying {
                waiting,
                has_more: false,
                event_id,
                retry_s,
                ..
            } => {
                assert_eq!(*event_id, Some(ids[1]));
                assert!(retry_s.is_some_and(|wait| wait > 3000.0), "{retry_s:?}");
                Some(*waiting)
            }
            _ => None,
        })
    };
    let is_counted = async || waiting(&carrier).await == Some(3);
    office.until("three wait behind it", is_counted).await;
    assert_eq!(waiting(&by_key).await, Some(0), "with order by key they pass it");
    office.stop().await;
}

/// An event of a type that the route does not take.
async fn foreign(office: &Office) {
    let tx = postroom::table::begin(office.fresh.db()).await.expect("begin");
    let payload = postroom::parse_payload("{}").expect("a payload");
    let event = postroom::Event::new("suite.other.v1", "suite", "d", payload).expect("an event");
    postroom::append(&tx, &[event]).await.expect("append");
    tx.commit().await.expect("commit");
}
