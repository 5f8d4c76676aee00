//! The three flows, from the first request to the last effect, on each database.

use std::time::Duration;

use postroom_testkit::{Fresh, fresh};
use serde_json::{Value, json};

use crate::site::{Site, text};

/// A test on each database.
macro_rules! on_each_database {
    ($($name:ident: $sqlite:ident, $postgres:ident, $mariadb:ident;)+) => {
        $(
            #[tokio::test]
            async fn $sqlite() {
                $name(fresh::sqlite().await).await;
            }

            #[tokio::test]
            async fn $postgres() {
                $name(fresh::postgres().await).await;
            }

            #[tokio::test]
            async fn $mariadb() {
                $name(fresh::mysql().await).await;
            }
        )+
    };
}
pub(crate) use on_each_database;

on_each_database! {
    first_subscription: u_02_first_subscription_sqlite, u_02_first_subscription_postgres, u_02_first_subscription_mariadb;
}

/// Example 1: a first subscription brings a licence and a message, and the audit has each event.
async fn first_subscription(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.until("/guilds/g1/license", |license| license["plan_code"] == "free")
        .await;
    let wanted = json!({ "guild_id": "g1", "user_id": ada, "plan_code": "pro" });
    let (code, subscription) = site.request("POST", "/subscriptions", &wanted).await;
    assert_eq!((code, &subscription["status"]), (201, &json!("active")), "{subscription}");
    let subscription_id = text(&subscription, "subscription_id");

    let license = site.until("/guilds/g1/license", |license| license["plan_code"] == "pro").await;
    assert_eq!((&license["status"], &license["usable_plan"]), (&json!("active"), &json!("pro")));
    site.quiet().await;
    assert_eq!(site.told(), ["Pro activated"]);
    let notices = site.get(&format!("/users/{ada}/notices")).await;
    assert_eq!(notices[0]["content"], "Pro activated");
    assert_eq!(notices[0]["status"], "delivered");

    let license_id = text(&license, "license_id");
    assert_eq!(site.audit("guild/g1").await, ["BotInstalled"]);
    assert_eq!(site.audit(&format!("subscription/{subscription_id}")).await, ["SubscriptionStarted"]);
    assert_eq!(
        site.audit(&format!("license/{license_id}")).await,
        ["LicenseGranted", "LicenseGranted"],
        "the free one, and Pro"
    );
    let charges = site.cards.charges();
    assert_eq!((charges.len(), charges[0].amount), (1, 9_900));
    site.stage.close().await;
}
