//! Processes that wait, die or compete in the middle of a charge.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use postroom::{BoxTask, ExternalTask, Handling};
use postroom_testkit::stage::Stage;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Duration, timeout};
use umbra::Umbra;
use umbra::billing::card::{Answer, CardApi, Charge};

use crate::site::Site;

on_each_database! {
    slow: u_03_a_slow_card_api_holds_up_nobody_sqlite, u_03_a_slow_card_api_holds_up_nobody_postgres,
        u_03_a_slow_card_api_holds_up_nobody_mariadb;
    killed: u_03_a_process_killed_during_a_charge_sqlite, u_03_a_process_killed_during_a_charge_postgres,
        u_03_a_process_killed_during_a_charge_mariadb;
}

const DAY: Duration = Duration::from_secs(86_400);

/// The points where a call of the card API can be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    BeforeCharge,
    AfterCharge,
    BeforeRefund,
    AfterRefund,
}

/// A card API that stops the first call at a given point until the gate is opened.
#[derive(Debug)]
struct Gated {
    cards: Arc<dyn CardApi>,
    stops_at: Mutex<Option<Point>>,
    has_stopped: AtomicBool,
    gate: Semaphore,
}

impl Gated {
    fn around(umbra: &mut Umbra) -> Arc<Self> {
        let gated = Arc::new(Self {
            cards: Arc::clone(&umbra.cards),
            stops_at: Mutex::default(),
            has_stopped: AtomicBool::default(),
            gate: Semaphore::new(0),
        });
        umbra.cards = Arc::clone(&gated) as _;
        gated
    }

    fn stop_at(&self, point: Point) {
        self.has_stopped.store(false, SeqCst);
        *self.stops_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(point);
    }

    async fn pass(&self, point: Point) {
        let stops = self
            .stops_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take_if(|stop| *stop == point);
        if stops.is_some() {
            self.has_stopped.store(true, SeqCst);
            self.gate.acquire().await.unwrap().forget();
        }
    }

    async fn until_stopped(&self) {
        until("a call reaches the point", async || self.has_stopped.load(SeqCst)).await;
    }
}

#[async_trait]
impl CardApi for Gated {
    async fn charge(&self, charge: &Charge) -> Answer {
        self.pass(Point::BeforeCharge).await;
        let answer = self.cards.charge(charge).await;
        self.pass(Point::AfterCharge).await;
        answer
    }

    async fn refund(&self, charge: &Charge) -> Answer {
        self.pass(Point::BeforeRefund).await;
        let answer = self.cards.refund(charge).await;
        self.pass(Point::AfterRefund).await;
        answer
    }
}

/// A site with a card API that can be stopped, and the settings for another process on the same store.
async fn gated(fresh: Fresh, change: impl FnOnce(&mut Umbra)) -> (Site, Arc<Gated>, Umbra) {
    let mut made = None;
    let site = Site::with(fresh, |umbra| {
        change(umbra);
        made = Some((Gated::around(umbra), umbra.clone()));
    })
    .await;
    let (gated, umbra) = made.unwrap();
    (site, gated, umbra)
}

/// The card API answers one renewal slowly. Meanwhile its subscription can be changed, another one is renewed, and no
/// transaction is open.
async fn slow(fresh: Fresh) {
    let (site, cards, _) = gated(fresh, |_| ()).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.guild("g2", &ada).await;
    site.subscription("g1", &ada).await;
    site.subscription("g2", &ada).await;
    site.quiet().await;

    cards.stop_at(Point::AfterCharge);
    site.let_time_pass().await;
    cards.until_stopped().await;
    site.until_attempts("asked", 1).await;
    site.until_attempts("paid", 3).await;
    let attempts = site.attempts().await;
    let asked = attempts.iter().find(|one| one.status == "asked").unwrap();
    let cancel = format!("/subscriptions/{}/cancel", asked.subscription_id);
    let at_end = json!({ "cancel_at_period_end": true });
    let canceled = timeout(Duration::from_secs(10), site.post(&cancel, at_end)).await;
    assert_eq!(canceled.unwrap()["cancel_at_period_end"], true);
    let nothing_open = async || site.fresh.open_transactions().await.unwrap().is_empty();
    until("no transaction stays open", nothing_open).await;
    site.until_attempts("asked", 1).await;

    cards.gate.add_permits(1);
    site.until_attempts("paid", 4).await;
    site.quiet().await;
    site.check_money().await;
    site.stage.close().await;
}

/// A process dies before or after the card API has executed a call. The next process continues from there.
async fn killed(fresh: Fresh) {
    let (mut site, cards, umbra) = gated(fresh, |_| ()).await;
    let ada = site.user("1001", "visa").await;
    for (at, (point, fate)) in [
        (Point::BeforeCharge, "paid"),
        (Point::AfterCharge, "paid"),
        (Point::BeforeRefund, "refunded"),
        (Point::AfterRefund, "refunded"),
    ]
    .into_iter()
    .enumerate()
    {
        let guild_id = format!("g{at}");
        site.guild(&guild_id, &ada).await;
        let id = site.subscription(&guild_id, &ada).await;
        if fate == "refunded" {
            refund_stops_at(&site, &cards, &id, point).await;
        } else {
            cards.stop_at(point);
            site.let_time_pass().await;
        }
        cards.until_stopped().await;
        let next = Stage::open(site.fresh.store(), vec![umbra.clone().module()], None).await;
        drop(std::mem::replace(&mut site.stage, next));
        let has_come = async || renewal_of(&site, &id).await == fate;
        until(&format!("{point:?}: it is {fate}"), has_come).await;
        // Suspend this subscription, so that the next `let_time_pass` does not renew it.
        site.request("POST", &format!("/guilds/{guild_id}/kick"), &Value::Null)
            .await;
        site.until(&format!("/subscriptions/{id}"), |one| one["status"] != "active")
            .await;
        site.quiet().await;
        site.check_money().await;
    }
    assert_eq!((site.cards.charges().len(), site.cards.refunds().len()), (8, 2));
    site.stage.close().await;
}

/// Loses the answer to a renewal and cancels the subscription. The process that repeats the charge and refunds it stops at
/// `point`.
async fn refund_stops_at(site: &Site, cards: &Gated, subscription_id: &str, point: Point) {
    site.cards.lose_answers(true);
    site.let_time_pass().await;
    site.until_attempts("asked", 1).await;
    let at_once = json!({ "cancel_at_period_end": false });
    site.post(&format!("/subscriptions/{subscription_id}/cancel"), at_once)
        .await;
    cards.stop_at(point);
    site.cards.lose_answers(false);
}

/// The status of the second charge of a subscription.
async fn renewal_of(site: &Site, subscription_id: &str) -> String {
    let attempts = site.attempts().await;
    let mut mine = attempts.iter().filter(|one| one.subscription_id == subscription_id);
    mine.nth(1).map(|one| one.status.clone()).unwrap_or_default()
}

/// The request and, because it takes long, the schedule of another process ask for the same first charge: it is charged once
/// and stored once.
#[tokio::test]
async fn two_who_ask_for_one_charge_write_it_down_once() {
    let (site, cards, umbra) = gated(fresh::sqlite().await, |_| ()).await;
    let other = Stage::open(site.fresh.store(), vec![umbra.module()], None).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    cards.stop_at(Point::AfterCharge);
    let wanted = json!({ "guild_id": "g1", "user_id": ada, "plan_code": "pro" });
    let ((code, answer), ()) = tokio::join!(site.request("POST", "/subscriptions", &wanted), async {
        site.until("/guilds/g1/subscription", |one| one["status"] == "active")
            .await;
        cards.gate.add_permits(1);
    });
    assert_eq!((code, &answer["status"]), (201, &json!("active")), "{answer}");
    site.quiet().await;
    assert_eq!((site.cards.charges().len(), site.cards.asked()), (1, 2));
    site.check_money().await;
    other.close().await;
    site.stage.close().await;
}

/// The same, but the bot is removed in between: the payment is refunded once, and the request fails with a conflict.
#[tokio::test]
async fn two_who_ask_for_one_charge_give_it_back_once() {
    let (site, cards, umbra) = gated(fresh::sqlite().await, |umbra| umbra.pace.ask_after = DAY).await;
    let other = Stage::open(site.fresh.store(), vec![umbra.module()], None).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    cards.stop_at(Point::AfterCharge);
    let wanted = json!({ "guild_id": "g1", "user_id": ada, "plan_code": "pro" });
    let ((code, answer), ()) = tokio::join!(site.request("POST", "/subscriptions", &wanted), async {
        cards.until_stopped().await;
        site.post("/guilds/g1/kick", Value::Null).await;
        site.until("/guilds/g1/subscription", |one| one["status"] == "suspended")
            .await;
        site.let_time_pass().await;
        site.until_attempts("refunded", 1).await;
        cards.gate.add_permits(1);
    });
    assert_eq!((code, &answer["code"]), (409, &json!("not_active")), "{answer}");
    site.quiet().await;
    assert_eq!((site.cards.refunds().len(), site.cards.balance()), (1, 0));
    site.check_money().await;
    other.close().await;
    site.stage.close().await;
}

/// A process that lost its lease is still running when the next one has finished the charge: the outcome is stored once.
#[tokio::test]
async fn a_process_that_comes_late_finds_it_written_down() {
    for point in [Point::AfterCharge, Point::AfterRefund] {
        let (site, cards, umbra) = gated(fresh::sqlite().await, |_| ()).await;
        let ada = site.user("1001", "visa").await;
        site.guild("g1", &ada).await;
        let id = site.subscription("g1", &ada).await;
        refund_stops_at(&site, &cards, &id, point).await;
        cards.until_stopped().await;

        let outbox = site.outbox().await;
        let due = outbox.iter().rfind(|event| event.event_type == "ChargeRequested");
        charges(umbra)
            .run(&site.fresh.db().clone().into(), due.unwrap())
            .await
            .unwrap();
        site.until_attempts("refunded", 1).await;
        cards.gate.add_permits(1);
        site.quiet().await;
        assert_eq!(site.cards.refunds().len(), 1);
        site.check_money().await;
        site.stage.close().await;
    }
}

/// The handler of charges, in a separate process.
fn charges(umbra: Umbra) -> BoxTask {
    let mut subscribers = umbra.module().subscribers.into_iter();
    let charges = subscribers.find(|one| one.group == "umbra-charges").unwrap();
    match charges.handling {
        Handling::External(task) => task,
        other => panic!("charges are made {other:?}"),
    }
}
