//! Alerts as the program tells them.

#![expect(clippy::unwrap_used, reason = "what goes wrong fails the test")]

use postroom::Outbox as _;
use postroom_sqlite::Sqlite;
use postroom_testkit::fake_messenger::{FakeMessenger, ROUTING_KEY};
use postroom_testkit::wait::until;
use sea_orm::ConnectionTrait as _;
use serde_json::Value;

use crate::harness::{Daemon, Place};

/// An event that the ledger's subscribers cannot read.
const BROKEN: [&str; 9] = [
    "emit",
    "--type",
    "ledger.transaction.posted.v1",
    "--aggregate-type",
    "account",
    "--aggregate-id",
    "a",
    "--payload",
    "{}",
];

/// A hundred events that have waited for six minutes.
const LATE: &str = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100)
    insert into postroom_outbox (event_id, event_type, aggregate_type, aggregate_id, payload, created_at)
    select printf('00000000-0000-7000-8000-%012d', i), 'ledger.transaction.posted.v1', 'account', 'a', '{}',
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-6 minutes') from n";

async fn rule(serve: &Daemon, name: &str) -> Value {
    let (code, page) = serve.request("GET", "/alerts", "").await;
    assert_eq!(code, 200, "{page}");
    let page: Value = serde_json::from_str(&page).unwrap();
    let found = page.as_array().unwrap().iter().find(|rule| rule["rule"] == name);
    found.unwrap().clone()
}

#[tokio::test]
async fn slack_and_pagerduty_are_told_as_configured() {
    let (place, slack, pagerduty) = (
        Place::migrated().await,
        FakeMessenger::slack().await,
        FakeMessenger::pagerduty().await,
    );
    place.configure(&format!(
        "[alerts]\nevery = \"1s\"\nslack = \"{}\"\npagerduty = \"{ROUTING_KEY}\"\npagerduty_url = \"{}\"",
        slack.url, pagerduty.url
    ));
    let checked = place.ok(&["config", "check"]).await;
    assert!(
        checked.ends_with("0 configured routes, alerts to slack, alerts to pagerduty\n"),
        "{checked}"
    );
    let serve = place.start(&["serve", "--roles", "relay"]).await;
    place.ok(&BROKEN).await;
    until("Slack is told", || async { slack.taken().len() == 1 }).await;
    until("that is shown", || async {
        let told = rule(&serve, "ledger_events_failed").await;
        told["is_firing"] == true && told["is_told"] == true
    })
    .await;

    for route in ["balances", "portfolios", "audit", "sequence"] {
        place.ok(&["pause", &format!("ledger-{route}")]).await;
    }
    place.ok(&["dead", "discard", "--all", "--reason", "test"]).await;
    until("Slack is told of the end", || async { slack.taken().len() == 2 }).await;
    let file = place.path().join("postroom-data/postroom.db");
    let store = Sqlite::open(&format!("sqlite://{}", file.display())).await.unwrap();
    store.db().execute_unprepared(LATE).await.unwrap();
    until("PagerDuty is told", || async { pagerduty.taken().len() == 1 }).await;
    assert_eq!(pagerduty.taken()[0]["dedup_key"], "ledger_events_pending");
    serve.stop().await;
}

#[tokio::test]
async fn a_wrong_setting_is_named_and_its_secret_is_not() {
    let (place, slack) = (Place::migrated().await, FakeMessenger::slack().await);
    place.configure(&format!("[alerts]\nevery = \"1s\"\nslack = \"{}-wrong\"", slack.url));
    let mut serve = place.start(&["serve", "--roles", "relay"]).await;
    place.ok(&BROKEN).await;
    let line = serve.read_until("alerts.slack").await;
    assert!(line.contains("ERROR") && line.contains("no_service"), "{line}");
    assert!(!line.contains("secret"), "{line}");
    until("it is shown why", || async {
        rule(&serve, "ledger_events_failed").await["error"] == "404 Not Found: no_service"
    })
    .await;
    serve.stop().await;
}
