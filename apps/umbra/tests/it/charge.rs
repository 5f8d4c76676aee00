//! Charges with lost answers while subscriptions change: a paying user gets the plan or a refund.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom::dead::{self, Selection};
use postroom_testkit::{Fresh, fresh};
use serde_json::{Value, json};
use umbra::alert::CHARGES;
use umbra::billing::Play;

use crate::alert::found;
use crate::site::{Site, text};

on_each_database! {
    lost: u_03_a_charge_whose_answer_is_lost_is_paid_for_or_goes_back_sqlite,
        u_03_a_charge_whose_answer_is_lost_is_paid_for_or_goes_back_postgres,
        u_03_a_charge_whose_answer_is_lost_is_paid_for_or_goes_back_mariadb;
}

const DAY: Duration = Duration::from_secs(86_400);
const PRICE: i64 = 9_900;

/// The changes of a subscription while the outcome of its charge is unknown.
const MEANWHILE: [&str; 6] = [
    "kick",
    "delete-guild",
    "delete-card",
    "cancel",
    "cancel-at-end",
    "nothing",
];

/// A guild with a subscription. The guild id names the change and the outcome of the renewal.
struct Customer {
    guild_id: String,
    meanwhile: &'static str,
    is_paid: bool,
    billing_key_id: String,
    subscription_id: String,
}

impl Customer {
    async fn open(site: &Site, meanwhile: &'static str, is_paid: bool) -> Self {
        let guild_id = format!("{meanwhile}-{}", if is_paid { "paid" } else { "declined" });
        let user = site.post("/users", json!({ "discord_user_id": guild_id })).await;
        let user_id = text(&user, "user_id");
        let renewal = if is_paid {
            Play::Pay
        } else {
            Play::Decline("EXPIRED_CARD")
        };
        site.cards.program(&guild_id, [Play::Pay, renewal]);
        let card = json!({ "card_token": guild_id });
        let key = site.post(&format!("/users/{user_id}/billing-keys"), card).await;
        site.guild(&guild_id, &user_id).await;
        Self {
            subscription_id: site.subscription(&guild_id, &user_id).await,
            billing_key_id: text(&key, "billing_key_id"),
            guild_id,
            meanwhile,
            is_paid,
        }
    }

    /// Applies the change.
    async fn change(&self, site: &Site) {
        let cancel = format!("/subscriptions/{}/cancel", self.subscription_id);
        match self.meanwhile {
            "kick" => site.post(&format!("/guilds/{}/kick", self.guild_id), Value::Null).await,
            "delete-guild" => {
                let guild = format!("/guilds/{}", self.guild_id);
                site.ok("DELETE", &guild, Value::Null).await
            }
            "delete-card" => {
                let key = format!("/billing-keys/{}", self.billing_key_id);
                site.ok("DELETE", &key, Value::Null).await
            }
            "cancel" => site.post(&cancel, json!({ "cancel_at_period_end": false })).await,
            "cancel-at-end" => site.post(&cancel, json!({ "cancel_at_period_end": true })).await,
            _ => Value::Null,
        };
    }

    /// The status of the subscription before the outcome is known.
    fn before(&self) -> &'static str {
        match self.meanwhile {
            "kick" | "delete-card" => "suspended",
            "delete-guild" | "cancel" => "canceled",
            _ => "active",
        }
    }

    /// The final status of the subscription and of its renewal.
    fn after(&self) -> (&'static str, &'static str) {
        match (self.meanwhile, self.is_paid) {
            ("cancel-at-end" | "nothing", true) => ("active", "paid"),
            ("cancel-at-end", false) => ("canceled", "declined"),
            ("nothing", false) => ("past_due", "declined"),
            (_, true) => (self.before(), "refunded"),
            (_, false) => (self.before(), "declined"),
        }
    }
}

async fn lost(fresh: Fresh) {
    let site = Site::with(fresh, |umbra| umbra.pace.retry_after = DAY).await;
    let mut customers = Vec::new();
    for meanwhile in MEANWHILE {
        for is_paid in [true, false] {
            customers.push(Customer::open(&site, meanwhile, is_paid).await);
        }
    }
    site.quiet().await;

    site.cards.lose_answers(true);
    site.let_time_pass().await;
    site.until_attempts("asked", customers.len()).await;
    for customer in &customers {
        customer.change(&site).await;
    }
    for customer in &customers {
        let path = format!("/subscriptions/{}", customer.subscription_id);
        site.until(&path, |one| one["status"] == customer.before()).await;
    }
    site.cards.lose_answers(false);
    site.quiet().await;

    let attempts = site.attempts().await;
    for customer in &customers {
        let (status, fate) = customer.after();
        let guild_id = &customer.guild_id;
        let path = format!("/subscriptions/{}", customer.subscription_id);
        assert_eq!(site.get(&path).await["status"], status, "{guild_id}");
        let mut mine = attempts
            .iter()
            .filter(|one| one.subscription_id == customer.subscription_id);
        let (first, renewal) = (mine.next().unwrap(), mine.next().unwrap());
        assert_eq!(
            (first.status.as_str(), renewal.status.as_str()),
            ("paid", fate),
            "{guild_id}"
        );
    }
    site.check_money().await;
    check_told(&site, &customers).await;
    let letters = dead::list(site.fresh.db(), &Selection::default(), None, 1).await;
    assert!(letters.unwrap().is_empty());
    site.stage.close().await;
}

/// Checks the events and the messages of all these renewals.
async fn check_told(site: &Site, customers: &[Customer]) {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for event in site.events().await {
        *count.entry(event).or_default() += 1;
    }
    let refunds = customers.iter().filter(|one| one.after().1 == "refunded").count();
    assert_eq!(count["PaymentRefunded"], refunds);
    assert_eq!(count["PaymentSucceeded"], 2);
    assert_eq!(count["PaymentFailed"], 1, "only one that goes on is tried again");
    let says = format!("Your payment of {PRICE} won was returned");
    assert_eq!(site.told().iter().filter(|one| **one == says).count(), refunds);
    let audited = customers.iter().filter(|one| one.after().1 == "refunded");
    for customer in audited {
        let audit = site.audit(&format!("subscription/{}", customer.subscription_id)).await;
        assert!(audit.contains(&"PaymentRefunded".to_owned()), "{audit:?}");
    }
}

/// The guild is deleted before the first payment: the user gets a message, although the subscription never started.
#[tokio::test]
async fn who_would_have_paid_is_told_that_the_guild_is_gone() {
    let site = Site::with(fresh::sqlite().await, |umbra| umbra.pace.ask_after = DAY).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.cards.lose_answers(true);
    site.subscription("g1", &ada).await;
    site.ok("DELETE", "/guilds/g1", Value::Null).await;
    site.until("/guilds/g1/subscription", |one| one["status"] == "canceled")
        .await;
    site.quiet().await;
    assert_eq!(site.told(), ["Your subscription has ended"]);
    let letters = dead::list(site.fresh.db(), &Selection::default(), None, 1).await;
    assert!(letters.unwrap().is_empty());
    site.stage.close().await;
}

/// The answer to the first charge is lost, and the bot is removed before it is known: the subscription never starts, and the
/// payment is refunded.
#[tokio::test]
async fn a_first_charge_that_nobody_wants_any_more_goes_back() {
    let site = Site::with(fresh::sqlite().await, |umbra| umbra.pace.ask_after = DAY).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.cards.lose_answers(true);
    let subscription_id = site.subscription("g1", &ada).await;
    site.ok("POST", "/guilds/g1/kick", Value::Null).await;
    site.until("/guilds/g1/subscription", |one| one["status"] == "suspended")
        .await;
    site.cards.lose_answers(false);
    site.let_time_pass().await;
    site.until_attempts("refunded", 1).await;
    site.quiet().await;
    assert_eq!((site.cards.charges().len(), site.cards.balance()), (1, 0));
    site.check_money().await;
    assert_eq!(
        site.audit(&format!("subscription/{subscription_id}")).await,
        ["SubscriptionSuspended", "PaymentRefunded"]
    );
    assert!(
        site.told()
            .contains(&format!("Your payment of {PRICE} won was returned"))
    );
    site.stage.close().await;
}

/// A site with a paid renewal that is no longer wanted. Its card plays `refunds`.
async fn unwanted(refunds: &[Play]) -> Site {
    let site = Site::open(fresh::sqlite().await).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    let id = site.subscription("g1", &ada).await;
    site.cards.program_refunds("visa", refunds.to_vec());
    site.cards.lose_answers(true);
    site.let_time_pass().await;
    site.until_attempts("asked", 1).await;
    let at_once = json!({ "cancel_at_period_end": false });
    site.post(&format!("/subscriptions/{id}/cancel"), at_once).await;
    site.cards.lose_answers(false);
    site
}

#[tokio::test]
async fn money_goes_back_once_however_often_it_is_asked_for() {
    let site = unwanted(&[Play::Fall, Play::Fall, Play::Lose]).await;
    site.until_attempts("refunded", 1).await;
    site.quiet().await;
    assert_eq!((site.cards.refunds().len(), site.cards.balance()), (1, PRICE));
    site.check_money().await;
    site.stage.close().await;
}

/// A retry does not help: a person must find another way.
#[tokio::test]
async fn money_that_the_bank_does_not_take_back_is_a_dead_letter() {
    let site = unwanted(&[Play::Decline("ACCOUNT_CLOSED")]).await;
    site.until_attempts("refunding", 1).await;
    site.quiet().await;
    let letters = dead::list(site.fresh.db(), &Selection::default(), None, 2)
        .await
        .unwrap();
    assert_eq!((letters.len(), letters[0].route.as_str()), (1, "umbra-charges"));
    assert!(letters[0].error.contains("ACCOUNT_CLOSED"), "{}", letters[0].error);
    assert!(!site.events().await.contains(&"PaymentRefunded".to_owned()));
    assert_eq!(found(&site, [CHARGES]).await, [(1.0, true)], "the alert fires");
    site.stage.close().await;
}

/// A site with a subscription whose renewal was requested and whose answer is lost.
async fn lost_renewal(plan_code: &str) -> (Site, String) {
    let site = Site::open(fresh::sqlite().await).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    let wanted = json!({ "guild_id": "g1", "user_id": ada, "plan_code": plan_code });
    let id = text(&site.post("/subscriptions", wanted).await, "subscription_id");
    site.until("/guilds/g1/license", |license| license["plan_code"] == plan_code)
        .await;
    site.cards.lose_answers(true);
    site.let_time_pass().await;
    site.until_attempts("asked", 1).await;
    (site, id)
}

/// Waits for the answer and for the next renewal. Returns the charged amounts.
async fn renew_twice(site: &Site) -> Vec<i64> {
    site.cards.lose_answers(false);
    site.until_attempts("paid", 2).await;
    site.quiet().await;
    site.let_time_pass().await;
    site.until_attempts("paid", 3).await;
    site.quiet().await;
    site.check_money().await;
    site.cards.charges().iter().map(|charge| charge.amount).collect()
}

#[tokio::test]
async fn a_better_plan_does_not_change_a_charge_that_was_asked_for() {
    let (site, id) = lost_renewal("pro").await;
    let better = json!({ "plan_code": "business" });
    site.post(&format!("/subscriptions/{id}/upgrade"), better).await;
    let asked = site.cards.asked();
    assert_eq!(renew_twice(&site).await, [9_900, 9_900, 29_900]);
    assert!(site.cards.asked() > asked);
    assert_eq!(site.get(&format!("/subscriptions/{id}")).await["plan_code"], "business");
    site.stage.close().await;
}

/// The running charge is for the current plan. Subscription and licence are downgraded one period later, as announced to the
/// user.
#[tokio::test]
async fn a_smaller_plan_waits_for_a_charge_that_was_asked_for() {
    let (site, id) = lost_renewal("business").await;
    let path = format!("/subscriptions/{id}");
    let old_end = site.get(&path).await["period_end"].clone();
    site.post(&format!("{path}/downgrade"), json!({ "plan_code": "pro" }))
        .await;
    site.cards.lose_answers(false);
    site.until_attempts("paid", 2).await;
    site.quiet().await;
    let renewed = site.get(&path).await;
    assert_eq!(
        (&renewed["plan_code"], &renewed["next_plan_code"]),
        (&json!("business"), &json!("pro"))
    );
    assert_ne!(renewed["period_end"], old_end);
    assert_eq!(site.get("/guilds/g1/license").await["plan_code"], "business");
    let told: Vec<Value> = site
        .outbox()
        .await
        .iter()
        .filter(|event| event.event_type == "PlanDowngraded")
        .map(|event| event.decode().unwrap())
        .collect();
    assert_eq!(told[0]["effective_at"], renewed["period_end"]);
    assert_eq!(renew_twice(&site).await, [29_900, 29_900, 9_900]);
    assert_eq!(site.get(&path).await["plan_code"], "pro");
    site.until("/guilds/g1/license", |license| license["plan_code"] == "pro")
        .await;
    site.stage.close().await;
}
