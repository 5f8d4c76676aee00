//! Failures: declined cards, lost answers, rejected messages, and dead letters.

use std::time::Duration;

use postroom::dead::{self, Selection};
use postroom::{Dead, HOPS_MAX, Ordering, Retry, Verdict, clock, emit, table};
use postroom_testkit::wait::PATIENCE;
use postroom_testkit::{Fresh, fresh};
use serde_json::json;
use umbra::Umbra;
use umbra::billing::Play;
use umbra::billing::events::{PaymentSucceeded, SubscriptionStarted};
use umbra::notification::dm::Sent;

use crate::site::Site;

fn failed() -> Sent {
    Sent::Failed {
        says: "no route to Discord".to_owned(),
    }
}

#[test]
fn u_06_the_waits_are_one_five_and_fifteen_minutes_then_an_hour() {
    let retry = Umbra::default().retry;
    let now = clock::now();
    let waits: Vec<Option<u64>> = (1..=10)
        .map(|attempts| match retry.judge(attempts, now, now, 0.5) {
            Verdict::RetryAfter(wait) => Some(wait.as_secs() / 60),
            Verdict::Dead => None,
        })
        .collect();
    let minutes = [1, 5, 15, 60, 60, 60, 60, 60, 60].map(Some);
    assert_eq!(waits, [&minutes[..], &[None]].concat());
}

#[test]
fn u_06_events_are_handled_one_at_a_time_in_the_order_of_the_outbox() {
    for subscriber in umbra::module().subscribers {
        let is_calendar = subscriber.group == "umbra-charges";
        let expected = if is_calendar { Ordering::Key } else { Ordering::Strict };
        assert_eq!(
            (subscriber.ordering, subscriber.shards),
            (expected, 1),
            "{}",
            subscriber.group
        );
        let expected = Retry {
            attempts_max: if is_calendar { None } else { Some(10) },
            ..Umbra::default().retry
        };
        assert_eq!(subscriber.retry, expected, "{}", subscriber.group);
        // A person decides on the dead letter; what follows goes on, and handlers ignore what comes late.
        assert_eq!(subscriber.dead, Dead::Skip, "{}", subscriber.group);
    }
}

on_each_database! {
    tenth_failure: u_06_the_tenth_failure_is_a_dead_letter_sqlite, u_06_the_tenth_failure_is_a_dead_letter_postgres,
        u_06_the_tenth_failure_is_a_dead_letter_mariadb;
    a_day_later: u_03_the_next_attempt_is_scheduled_a_day_later_sqlite,
        u_03_the_next_attempt_is_scheduled_a_day_later_postgres, u_03_the_next_attempt_is_scheduled_a_day_later_mariadb;
    declined: u_02_a_card_that_is_declined_leaves_no_subscription_sqlite,
        u_02_a_card_that_is_declined_leaves_no_subscription_postgres,
        u_02_a_card_that_is_declined_leaves_no_subscription_mariadb;
}

async fn tenth_failure(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.quiet().await;
    site.dm.answer(vec![failed(); 10]);
    site.subscription("g1", &ada).await;
    let seen = json!({ "detected_pattern": "mass ban", "suspects": ["666"] });
    site.post("/guilds/g1/anti-nuke", seen).await;
    site.quiet().await;

    let letters = dead::list(site.fresh.db(), &Selection::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.route.as_str(), letter.attempts), ("umbra-notification", 10));
    assert_eq!(letter.entry.event.event_type, "SubscriptionStarted");
    assert!(letter.error.contains("no route to Discord"), "{}", letter.error);
    assert_eq!(
        site.dm.asked(),
        11,
        "ten attempts for the first, and one for the next, which waited"
    );
    assert_eq!(site.told(), ["URGENT: mass ban on your server"]);

    dead::retry(site.fresh.db(), &Selection::default(), "test")
        .await
        .unwrap();
    site.until(&format!("/users/{ada}/notices"), |notices| {
        notices.as_array().unwrap().len() == 2
    })
    .await;
    assert_eq!(site.told()[1], "Pro activated");
    site.stage.close().await;
}

#[tokio::test]
async fn a_message_that_discord_does_not_take_now_is_sent_once_later() {
    let site = Site::open(fresh::sqlite().await).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.quiet().await;
    let retry_after = Duration::from_secs(1);
    site.dm
        .answer([Sent::Limited { retry_after }, failed(), Sent::Delivered, Sent::Closed]);
    let id = site.subscription("g1", &ada).await;
    site.post(
        &format!("/subscriptions/{id}/upgrade"),
        json!({ "plan_code": "business" }),
    )
    .await;
    let notices = site
        .until(&format!("/users/{ada}/notices"), |notices| {
            notices.as_array().unwrap().len() == 2
        })
        .await;
    assert_eq!(site.told(), ["Pro activated"], "a user with closed messages gets none");
    assert_eq!(
        (&notices[0]["status"], &notices[1]["status"]),
        (&json!("delivered"), &json!("closed"))
    );
    assert_eq!(site.dm.asked(), 4);
    site.stage.close().await;
}

async fn declined(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "declined").await;
    site.guild("g1", &ada).await;
    let wanted = json!({ "guild_id": "g1", "user_id": ada, "plan_code": "pro" });
    let (code, problem) = site.request("POST", "/subscriptions", &wanted).await;
    assert_eq!((code, &problem["code"]), (402, &json!("card_declined")));
    assert!(
        problem["detail"].as_str().unwrap().contains("INSUFFICIENT_FUNDS"),
        "{problem}"
    );
    let subscription = site.get("/guilds/g1/subscription").await;
    assert_eq!(subscription["status"], "declined");
    site.cards.program("declined", [Play::Pay]);
    site.subscription("g1", &ada).await;
    site.quiet().await;
    assert_eq!(site.told(), ["Pro activated"]);
    assert_eq!(site.cards.charges().len(), 1);
    site.stage.close().await;
}

/// The answer to the first charge is lost. The card was charged, and the subscription starts when the outcome is known.
#[tokio::test]
async fn a_charge_whose_answer_is_lost_is_made_once() {
    let site = Site::open(fresh::sqlite().await).await;
    let ada = site.user("1001", "lost").await;
    site.guild("g1", &ada).await;
    let wanted = json!({ "guild_id": "g1", "user_id": ada, "plan_code": "pro" });
    let (code, subscription) = site.request("POST", "/subscriptions", &wanted).await;
    assert_eq!(
        (code, &subscription["status"]),
        (202, &json!("pending")),
        "{subscription}"
    );
    site.until("/guilds/g1/subscription", |one| one["status"] == "active")
        .await;
    site.until("/guilds/g1/license", |license| license["plan_code"] == "pro")
        .await;
    site.quiet().await;
    assert_eq!(site.told(), ["Pro activated"]);
    assert_eq!((site.cards.charges().len(), site.cards.asked()), (1, 2));
    site.stage.close().await;
}

/// An unavailable card API is neither a successful nor a failed payment.
#[tokio::test]
async fn a_renewal_that_cannot_be_asked_for_is_no_failed_payment() {
    let site = Site::with(fresh::sqlite().await, |umbra| {
        umbra.pace.period = Duration::from_millis(500);
    })
    .await;
    site.cards.program(
        "visa",
        [
            Play::Pay,
            Play::Fall,
            Play::Fall,
            Play::Lose,
            Play::Decline("EXPIRED_CARD"),
        ],
    );
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    site.until("/guilds/g1/subscription", |one| one["status"] == "canceled")
        .await;
    site.quiet().await;
    let events = site.events().await;
    let count = |event: &str| events.iter().filter(|one| *one == event).count();
    assert_eq!((count("PaymentSucceeded"), count("PaymentFailed")), (1, 3));
    assert_eq!(site.cards.charges().len(), 2);
    site.stage.close().await;
}

/// No outage of the card API, even a long one, makes a charge a dead letter.
#[tokio::test]
async fn a_card_api_that_is_away_for_long_makes_no_dead_letter() {
    let site = Site::open(fresh::sqlite().await).await;
    let outage = std::iter::repeat_n(Play::Fall, 30);
    let plays = [Play::Pay].into_iter().chain(outage).chain([Play::Pay]);
    site.cards.program("visa", plays);
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    site.let_time_pass().await;
    site.until_attempts("paid", 2).await;
    site.quiet().await;
    assert_eq!(
        site.cards.asked(),
        32,
        "two payments, and thirty calls without an answer"
    );
    let letters = dead::list(site.fresh.db(), &Selection::default(), None, 1).await;
    assert!(letters.unwrap().is_empty());
    site.check_money().await;
    site.stage.close().await;
}

/// Each renewal follows from the one before, but the renewals do not form a causal chain of events.
#[tokio::test]
async fn a_subscription_that_renews_itself_for_years_is_no_loop() {
    let site = Site::with(fresh::sqlite().await, |umbra| {
        umbra.pace.period = Duration::from_millis(1);
    })
    .await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    let id = site.subscription("g1", &ada).await;
    site.until(&format!("/audit/subscription/{id}"), |records| {
        records.as_array().unwrap().len() > usize::try_from(HOPS_MAX).unwrap() + 2
    })
    .await;
    site.post(
        &format!("/subscriptions/{id}/cancel"),
        json!({ "cancel_at_period_end": false }),
    )
    .await;
    site.stage.close().await;
}

/// With the real calendar, the next attempt after a failure is one day later.
async fn a_day_later(fresh: Fresh) {
    let day = Umbra::default().pace.retry_after;
    assert_eq!(day, Duration::from_secs(86_400));
    let change = |umbra: &mut Umbra| {
        umbra.pace.period = Duration::from_millis(100);
        umbra.pace.retry_after = day;
    };
    let site = Site::with(fresh, change).await;
    let ada = site.user("1001", "expires").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    site.until("/guilds/g1/subscription", |one| one["status"] == "past_due")
        .await;
    let wait = site.due_in().await;
    assert!(wait <= day && wait > day - PATIENCE, "the next charge is in {wait:?}");
    // Licensing grants a grace period. It learns of the failure through its own subscriber.
    site.until("/guilds/g1/license", |license| license["usable_plan"] == "pro")
        .await;
    site.stage.close().await;
}

/// Billing learns of the deletion of a guild later than licensing. The events it emits in between must not activate the
/// licence again.
#[tokio::test]
async fn a_payment_told_after_a_guild_is_gone_revives_no_licence() {
    let site = Site::open(fresh::sqlite().await).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    let subscription_id = site.subscription("g1", &ada).await;
    site.until("/guilds/g1/license", |license| license["plan_code"] == "pro")
        .await;
    site.ok("DELETE", "/guilds/g1", json!(null)).await;
    site.until("/guilds/g1/license", |license| license["status"] == "canceled")
        .await;
    site.quiet().await;
    let before = site.get("/guilds/g1/license").await;

    let tx = table::begin(site.fresh.db()).await.unwrap();
    let succeeded = PaymentSucceeded {
        subscription_id: subscription_id.clone(),
        attempt_id: "late".to_owned(),
        new_period_end: clock::now() + Duration::from_secs(90 * 86_400),
    };
    emit(&tx, &succeeded).await.unwrap();
    for subscription_id in [subscription_id, "another".to_owned()] {
        let started = SubscriptionStarted {
            subscription_id,
            guild_id: "g1".to_owned(),
            plan_code: "business".to_owned(),
        };
        emit(&tx, &started).await.unwrap();
    }
    tx.commit().await.unwrap();
    site.quiet().await;
    assert_eq!(site.get("/guilds/g1/license").await, before);
    let events = site.events().await;
    assert!(!events.contains(&"LicenseExtended".to_owned()), "{events:?}");
    let granted = events.iter().filter(|event| *event == "LicenseGranted").count();
    assert_eq!(granted, 2, "the free one, and Pro: {events:?}");
    site.stage.close().await;
}
