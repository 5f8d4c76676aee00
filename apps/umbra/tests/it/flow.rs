//! The three flows, from the first request to the last effect, on each database.

use std::sync::Arc;
use std::time::Duration;

use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::{Fresh, fresh};
use serde_json::json;

use crate::repeat::replaying_changes_nothing;
use crate::site::{Site, text};

on_each_database! {
    first_subscription: u_02_first_subscription_sqlite, u_02_first_subscription_postgres, u_02_first_subscription_mariadb;
    failed_payments: u_03_failed_payments_sqlite, u_03_failed_payments_postgres, u_03_failed_payments_mariadb;
    bot_kicked: u_04_bot_kicked_sqlite, u_04_bot_kicked_postgres, u_04_bot_kicked_mariadb;
}

/// Example 1: a first subscription causes a licence and a message, and the audit records each event.
async fn first_subscription(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.until("/guilds/g1/license", |license| license["plan_code"] == "free")
        .await;
    let wanted = json!({ "guild_id": "g1", "user_id": ada, "plan_code": "pro" });
    let (code, subscription) = site.request("POST", "/subscriptions", &wanted).await;
    assert_eq!(
        (code, &subscription["status"]),
        (201, &json!("active")),
        "{subscription}"
    );
    let subscription_id = text(&subscription, "subscription_id");

    let license = site
        .until("/guilds/g1/license", |license| license["plan_code"] == "pro")
        .await;
    assert_eq!(
        (&license["status"], &license["usable_plan"]),
        (&json!("active"), &json!("pro"))
    );
    site.quiet().await;
    assert_eq!(site.told(), ["Pro activated"]);
    let notices = site.get(&format!("/users/{ada}/notices")).await;
    assert_eq!(notices[0]["content"], "Pro activated");
    assert_eq!(notices[0]["status"], "delivered");

    let license_id = text(&license, "license_id");
    assert_eq!(site.audit("guild/g1").await, ["BotInstalled"]);
    assert_eq!(
        site.audit(&format!("subscription/{subscription_id}")).await,
        ["SubscriptionStarted"]
    );
    assert_eq!(
        site.audit(&format!("license/{license_id}")).await,
        ["LicenseGranted", "LicenseGranted"],
        "the free one, and Pro"
    );
    let charges = site.cards.charges();
    assert_eq!((charges.len(), charges[0].amount), (1, 9_900));
    replaying_changes_nothing(&site, &[]).await;
    site.stage.close().await;
}

/// Example 2: a card is charged once and then declined. Three failures cause a message each, and the fourth one ends the
/// subscription.
async fn failed_payments(fresh: Fresh) {
    let site = Site::with(fresh, |umbra| umbra.pace.period = Duration::from_millis(300)).await;
    let ada = site.user("1001", "expires").await;
    site.guild("g1", &ada).await;
    let subscription_id = site.subscription("g1", &ada).await;

    let license = site
        .until("/guilds/g1/license", |license| {
            license["plan_code"] == "free" && license["expires_at"].is_null()
        })
        .await;
    let subscription = site
        .until("/guilds/g1/subscription", |one| one["status"] == "canceled")
        .await;
    assert_eq!(subscription["retry_count"], 4);
    site.until("/guilds/g1/license", |license| license["plan_code"] == "free")
        .await;
    site.quiet().await;
    assert_eq!(
        site.audit(&format!("subscription/{subscription_id}")).await,
        [
            "SubscriptionStarted",
            "PaymentFailed",
            "PaymentFailed",
            "PaymentFailed",
            "PaymentFailedFinal"
        ]
    );
    let license_id = text(&license, "license_id");
    assert_eq!(
        site.audit(&format!("license/{license_id}")).await,
        ["LicenseGranted", "LicenseGranted", "LicenseDowngraded"]
    );
    assert_eq!(
        site.told(),
        [
            "Pro activated",
            "Payment failed (1 of 3), we will try again in 24 hours",
            "Payment failed (2 of 3), we will try again in 24 hours",
            "Payment failed (3 of 3), we will try again in 24 hours",
            "Subscription canceled: payment failed four times",
            "Downgraded to Free",
        ]
    );
    assert_eq!(
        site.cards.charges().len(),
        1,
        "nothing was charged but the first period"
    );
    assert_eq!(site.cards.asked(), 5, "each failure is an attempt of its own");
    replaying_changes_nothing(&site, &[]).await;
    site.stage.close().await;
}

/// Example 3: licensing and billing both suspend. Billing's event then finds the licence already suspended, so the chain
/// ends.
async fn bot_kicked(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    let subscription_id = site.subscription("g1", &ada).await;
    site.quiet().await;

    site.ok("POST", "/guilds/g1/kick", json!(null)).await;
    let subscription = site
        .until("/guilds/g1/subscription", |one| one["status"] == "suspended")
        .await;
    assert_eq!(subscription["subscription_id"], subscription_id);
    let license = site
        .until("/guilds/g1/license", |license| license["status"] == "suspended")
        .await;
    assert_eq!(license["usable_plan"], "free");
    site.quiet().await;

    let events = site.events().await;
    let count = |event: &str| events.iter().filter(|one| *one == event).count();
    let counts = ["BotKicked", "LicenseSuspended", "SubscriptionSuspended"].map(count);
    assert_eq!(counts, [1, 1, 1], "{events:?}");
    let license_id = text(&license, "license_id");
    assert_eq!(site.audit("guild/g1").await, ["BotInstalled", "BotKicked"]);
    assert_eq!(
        site.audit(&format!("license/{license_id}")).await.last().unwrap(),
        "LicenseSuspended"
    );
    assert_eq!(
        site.told(),
        [
            "Pro activated",
            "Your licence is suspended: the bot was removed from your server"
        ]
    );

    // The bot is installed again, and the guild starts with the free plan. The old removal has no effect.
    site.guild("g1", &ada).await;
    site.until("/guilds/g1/license", |license| license["status"] == "active")
        .await;
    site.subscription("g1", &ada).await;
    site.until("/guilds/g1/license", |license| license["plan_code"] == "pro")
        .await;
    replaying_changes_nothing(&site, &[]).await;
    replaying_changes_nothing(&site, &["BotKicked", "SubscriptionSuspended"]).await;
    site.stage.close().await;
}

/// Examples 1 and 3 through a broker: the same handlers and the same result.
#[tokio::test]
async fn the_flows_go_through_a_broker_too() {
    let broker = Arc::new(MemoryBroker::default());
    let site = Site::through(fresh::sqlite().await, broker).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    site.until("/guilds/g1/license", |license| license["plan_code"] == "pro")
        .await;
    site.ok("POST", "/guilds/g1/kick", json!(null)).await;
    site.until("/guilds/g1/license", |license| license["status"] == "suspended")
        .await;
    site.until("/guilds/g1/subscription", |one| one["status"] == "suspended")
        .await;
    site.until(&format!("/users/{ada}/notices"), |notices| {
        notices.as_array().unwrap().len() == 2
    })
    .await;
    site.until("/audit/guild/g1", |records| records.as_array().unwrap().len() == 2)
        .await;
    site.stage.close().await;
}
