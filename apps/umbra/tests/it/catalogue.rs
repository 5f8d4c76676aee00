//! Every event of the catalogue: its subscribers, its payload, and a request that causes it.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom::operate;
use postroom_testkit::Fresh;
use postroom_testkit::wait::until;
use serde_json::{Value, json};

use crate::site::{Site, text};

/// The specified catalogue: event, aggregate, payload, and subscribers besides the audit.
const CATALOGUE: [(&str, &str, &str, &str); 30] = [
    ("BotInstalled", "guild", "guild_id installer_user_id", "licensing"),
    ("BotKicked", "guild", "guild_id", "licensing billing"),
    ("GuildOwnerChanged", "guild", "guild_id old_owner_id new_owner_id", ""),
    ("GuildDeleted", "guild", "guild_id", "licensing billing"),
    ("BillingKeyIssued", "billing_key", "user_id billing_key_id", ""),
    (
        "BillingKeyDeleted",
        "billing_key",
        "user_id billing_key_id",
        "licensing billing",
    ),
    (
        "SubscriptionStarted",
        "subscription",
        "subscription_id guild_id plan_code",
        "licensing notification",
    ),
    (
        "PaymentSucceeded",
        "subscription",
        "subscription_id attempt_id new_period_end",
        "licensing",
    ),
    (
        "PaymentFailed",
        "subscription",
        "subscription_id attempt_id retry_count",
        "notification",
    ),
    (
        "PaymentFailedFinal",
        "subscription",
        "subscription_id",
        "licensing notification",
    ),
    (
        "SubscriptionCanceled",
        "subscription",
        "subscription_id cancel_at_period_end",
        "notification",
    ),
    (
        "SubscriptionSuspended",
        "subscription",
        "subscription_id reason",
        "licensing",
    ),
    (
        "PlanUpgraded",
        "subscription",
        "subscription_id old_plan new_plan",
        "licensing notification",
    ),
    (
        "PlanDowngraded",
        "subscription",
        "subscription_id old_plan new_plan effective_at",
        "notification",
    ),
    ("LicenseGranted", "license", "license_id guild_id plan_code", ""),
    ("LicenseExtended", "license", "license_id new_expires_at", ""),
    (
        "LicenseDowngraded",
        "license",
        "license_id old_plan new_plan",
        "notification",
    ),
    ("LicenseSuspended", "license", "license_id reason", "notification"),
    ("LicenseCanceled", "license", "license_id", ""),
    ("SnapshotCreated", "snapshot", "snapshot_id guild_id trigger", ""),
    ("SnapshotDeleted", "snapshot", "snapshot_id guild_id", ""),
    (
        "RestoreStarted",
        "restore_job",
        "restore_job_id snapshot_id guild_id",
        "notification",
    ),
    (
        "RestoreCompleted",
        "restore_job",
        "restore_job_id result_summary",
        "notification",
    ),
    (
        "RestoreFailed",
        "restore_job",
        "restore_job_id error_summary",
        "notification",
    ),
    (
        "AntiNukeTriggered",
        "guild",
        "guild_id detected_pattern suspects",
        "notification",
    ),
    ("AntiNukeActioned", "guild", "guild_id actions_taken", "notification"),
    ("MemberJoinedViaWebJoin", "member", "member_id guild_id slug", ""),
    ("MemberRestored", "member", "member_id guild_id restored_roles", ""),
    ("UserRegistered", "user", "user_id discord_user_id", ""),
    ("UserSessionCreated", "user", "user_id session_id", ""),
];

/// An event that the specification does not list: the refund of a payment that is no longer wanted when its outcome is known.
const REFUNDED: (&str, &str, &str, &str) = (
    "PaymentRefunded",
    "subscription",
    "subscription_id attempt_id amount",
    "notification",
);

/// The specified events and the added one.
fn catalogue() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let billing_ends = CATALOGUE.iter().position(|(name, ..)| *name == "LicenseGranted");
    let mut all = CATALOGUE.to_vec();
    all.insert(billing_ends.unwrap(), REFUNDED);
    all
}

/// Subscriptions that the specification does not list, and their reasons.
const ADDED: [(&str, &str); 4] = [
    ("PlanDowngraded", "licensing"),  // to lower the licence when the smaller plan is paid
    ("BotInstalled", "notification"), // to learn the recipient of messages
    ("GuildOwnerChanged", "notification"),
    ("LicenseGranted", "notification"),
];

#[test]
fn u_01_the_catalogue_is_complete() {
    let module = umbra::module();
    let names: Vec<&str> = umbra::catalogue().collect();
    assert_eq!(names, catalogue().iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    for (name, aggregate_type, fields, _) in catalogue() {
        let event = module.events.iter().find(|event| event.name == name).unwrap();
        assert_eq!(event.aggregate_type, aggregate_type, "{name}");
        let schema = event.schema.as_value();
        let mut carried: Vec<&str> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut expected: Vec<&str> = fields.split(' ').collect();
        carried.sort_unstable();
        expected.sort_unstable();
        assert_eq!(carried, expected, "{name}");
        assert!(schema["description"].is_string(), "{name} is described");
    }
    let declared: Vec<&str> = module.events.iter().map(|event| event.name).collect();
    assert_eq!(declared.len(), 32, "and billing's internal event: {declared:?}");
}

#[test]
fn u_01_everybody_listens_to_what_concerns_them() {
    let module = umbra::module();
    for (name, _, _, listeners) in catalogue() {
        let mut expected: Vec<&str> = listeners.split_whitespace().chain(["audit"]).collect();
        expected.extend(ADDED.iter().filter(|(event, _)| *event == name).map(|(_, who)| *who));
        let listens = module.subscribers.iter().filter(|one| one.filter.matches(name));
        let mut found: Vec<&str> = listens.map(|one| one.group.trim_start_matches("umbra-")).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }
}

on_each_database! {
    every_event: u_01_every_event_is_audited_once_sqlite, u_01_every_event_is_audited_once_postgres,
        u_01_every_event_is_audited_once_mariadb;
    masked: u_09_a_sessions_id_is_masked_in_the_audit_sqlite, u_09_a_sessions_id_is_masked_in_the_audit_postgres,
        u_09_a_sessions_id_is_masked_in_the_audit_mariadb;
}

async fn every_event(fresh: Fresh) {
    let site = Site::with(fresh, |umbra| umbra.pace.period = Duration::from_secs(1)).await;
    let session_id = everything(&site).await;

    let events = site.events().await;
    for (name, ..) in CATALOGUE {
        assert!(events.iter().any(|event| event == name), "{name} never happened");
    }
    let rows: Vec<String> = site
        .rows()
        .await
        .into_iter()
        .filter(|row| row.starts_with("umbra_audit "))
        .collect();
    let mut audited: BTreeMap<&str, usize> = BTreeMap::new();
    let mut emitted: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, ..) in CATALOGUE {
        let is_it = |row: &&String| row.contains(&format!("event_type=Some(\"{name}\")"));
        audited.insert(name, rows.iter().filter(is_it).count());
        emitted.insert(name, events.iter().filter(|event| *event == name).count());
    }
    assert_eq!(audited, emitted);
    assert_eq!(audited.values().sum::<usize>(), rows.len());
    assert!(
        !rows.iter().any(|row| row.contains(&session_id)),
        "a session's id is in the audit"
    );
    site.stage.close().await;
}

async fn masked(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    let session = site.post(&format!("/users/{ada}/sessions"), json!(null)).await;
    site.quiet().await;
    let records = site.get(&format!("/audit/user/{ada}")).await;
    let created = &records.as_array().unwrap()[1];
    assert_eq!(created["event_type"], "UserSessionCreated");
    assert_eq!(created["payload"], json!({ "user_id": ada, "session_id": "***" }));
    assert!(!records.to_string().contains(&text(&session, "session_id")));
    site.stage.close().await;
}

/// Executes every kind of request and waits until nothing is scheduled. Returns the id of a session.
pub(crate) async fn everything(site: &Site) -> String {
    let ada = site.user("1001", "visa").await;
    let eve = site.user("1002", "expires").await;
    let session = site.post(&format!("/users/{ada}/sessions"), json!(null)).await;
    for guild_id in ["g1", "g2", "g3", "g4", "g5"] {
        site.guild(guild_id, &ada).await;
    }
    recover(site).await;
    join(site).await;
    site.ok("PUT", "/guilds/g1/owner", json!({ "owner_id": eve })).await;
    site.subscription("g2", &eve).await; // its payments fail
    let kicked = site.subscription("g3", &ada).await;
    site.subscription("g4", &ada).await;
    change_plans(site, &ada).await;
    site.ok("POST", "/guilds/g3/kick", json!(null)).await;
    site.ok("DELETE", "/guilds/g4", json!(null)).await;
    lose_a_card(site).await;
    site.until(&format!("/subscriptions/{kicked}"), |one| one["status"] == "suspended")
        .await;
    site.until("/guilds/g4/license", |license| license["status"] == "canceled")
        .await;
    site.until("/guilds/g2/subscription", |one| one["status"] == "canceled")
        .await;
    until_nothing_is_scheduled(site).await;
    text(&session, "session_id")
}

async fn recover(site: &Site) {
    let trigger = json!({ "trigger": "manual" });
    let snapshot = site.post("/guilds/g1/snapshots", trigger).await;
    let snapshot_id = text(&snapshot, "snapshot_id");
    for (end, body) in [
        ("complete", json!({ "result_summary": "12 channels, 7 roles" })),
        ("fail", json!({ "error_summary": "a role above mine" })),
    ] {
        let restore = site
            .post(&format!("/snapshots/{snapshot_id}/restores"), json!(null))
            .await;
        let restore_job_id = text(&restore, "restore_job_id");
        site.post(&format!("/restores/{restore_job_id}/{end}"), body).await;
    }
    site.ok("DELETE", &format!("/snapshots/{snapshot_id}"), json!(null))
        .await;
    let seen = json!({ "detected_pattern": "mass ban", "suspects": ["666"] });
    site.post("/guilds/g1/anti-nuke", seen).await;
    let done = json!({ "actions_taken": ["kicked 666"] });
    site.post("/guilds/g1/anti-nuke/actions", done).await;
}

async fn join(site: &Site) {
    let member = site.post("/guilds/g1/members", json!({ "slug": "welcome" })).await;
    let member_id = text(&member, "member_id");
    site.post(&format!("/members/{member_id}/restore"), json!({ "roles": ["mod"] }))
        .await;
}

/// Upgrades, downgrades with the next payment, and cancels at the end of the period.
async fn change_plans(site: &Site, user_id: &str) {
    let id = site.subscription("g1", user_id).await;
    site.post(
        &format!("/subscriptions/{id}/upgrade"),
        json!({ "plan_code": "business" }),
    )
    .await;
    site.post(&format!("/subscriptions/{id}/downgrade"), json!({ "plan_code": "pro" }))
        .await;
    site.until(&format!("/subscriptions/{id}"), |one| {
        one["plan_code"] == "pro" && one["next_plan_code"].is_null()
    })
    .await;
    site.post(
        &format!("/subscriptions/{id}/cancel"),
        json!({ "cancel_at_period_end": true }),
    )
    .await;
    site.until(&format!("/subscriptions/{id}"), |one| one["status"] == "canceled")
        .await;
    site.until("/guilds/g1/license", |license| license["plan_code"] == "pro")
        .await;
}

async fn lose_a_card(site: &Site) {
    let bob = site.post("/users", json!({ "discord_user_id": "1003" })).await;
    let bob = text(&bob, "user_id");
    let card = json!({ "card_token": "visa-bob" });
    let key = site.post(&format!("/users/{bob}/billing-keys"), card).await;
    site.subscription("g5", &bob).await;
    site.until("/guilds/g5/license", |license| license["plan_code"] == "pro")
        .await;
    let key = format!("/billing-keys/{}", text(&key, "billing_key_id"));
    site.ok("DELETE", &key, Value::Null).await;
    site.until("/guilds/g5/subscription", |one| one["status"] == "suspended")
        .await;
    site.until("/guilds/g5/license", |license| license["status"] == "suspended")
        .await;
}

/// Waits until all scheduled charges were made or dropped.
async fn until_nothing_is_scheduled(site: &Site) {
    let nothing_scheduled = async || operate::status(&*site.fresh).await.unwrap().scheduled == 0;
    until("no charge is scheduled", nothing_scheduled).await;
    site.quiet().await;
}
