//! The state of each event, and what the alert rules make of it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use std::time::Duration;

use postroom::dead::{self, Selection};
use postroom::{Delays, inspect};
use postroom_testkit::{Fresh, fresh};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use crate::books;
use crate::client::Client;
use crate::world::{World, on_every_store, until};

on_every_store! {
    an_event_is_pending_then_processed
    an_event_fails_after_five_attempts_and_can_be_retried
}

/// State and retry count of the events that are listed.
async fn states(client: &Client, query: &str) -> Vec<(String, i64)> {
    let events = client.look(&format!("/ledger/events{query}")).await;
    let one = |event: &Value| {
        (
            event["state"].as_str().unwrap().to_owned(),
            event["retry_count"].as_i64().unwrap(),
        )
    };
    events.as_array().unwrap().iter().map(one).collect()
}

async fn an_event_is_pending_then_processed(fresh: Fresh) {
    let world = World::on(fresh);
    let ada = world.client.open("ada", "KRW").await;
    world.client.deposit(&ada, 1).await.created();
    books::settle(&world.fresh).await;
    let processed = || async { states(&world.client, "?state=PROCESSED").await == [("PROCESSED".to_owned(), 0)] };
    until("it is processed", processed).await;
    let event = &world.client.look("/ledger/events").await[0];
    assert_eq!(
        (&event["account_id"], &event["type"]),
        (&json!(ada), &json!("ledger.transaction.posted.v1"))
    );
    assert!(event["processed_at"].as_str() > event["created_at"].as_str(), "{event}");

    inspect::set_paused(&*world.fresh, "ledger-audit", true, "test")
        .await
        .unwrap();
    world.client.deposit(&ada, 2).await.created();
    let pending = || async { states(&world.client, "?state=PENDING").await == [("PENDING".to_owned(), 0)] };
    until("it waits for one of them", pending).await;
    assert_eq!(states(&world.client, "?state=FAILED").await, []);
    assert_eq!(states(&world.client, "").await.len(), 2);
    inspect::set_paused(&*world.fresh, "ledger-audit", false, "test")
        .await
        .unwrap();
    books::settle(&world.fresh).await;
    until("both are processed", || async {
        states(&world.client, "?state=PROCESSED").await.len() == 2
    })
    .await;
    assert_eq!(states(&world.client, "?state=PENDING").await, []);
    world.close().await;
}

async fn an_event_fails_after_five_attempts_and_can_be_retried(fresh: Fresh) {
    let mut module = ledger::module();
    for subscriber in &mut module.subscribers {
        assert_eq!(subscriber.retry.attempts_max, Some(5));
        subscriber.retry.delays = Delays::Fixed(Duration::from_millis(100));
    }
    let world = World::with(fresh, None, module);
    let rename = async |from: &str, to: &str| {
        let sql = format!("alter table {from} rename to {to}");
        world.fresh.db().execute_unprepared(&sql).await.unwrap();
    };
    let ada = world.client.open("ada", "KRW").await;
    rename("ledger_portfolio", "ledger_lost").await;
    world.client.deposit(&ada, 1).await.created();
    until("it has failed", || async {
        states(&world.client, "?state=FAILED").await == [("FAILED".to_owned(), 5)]
    })
    .await;
    let event = &world.client.look("/ledger/events?state=FAILED").await[0];
    assert!(event["error"].as_str().unwrap().contains("ledger_portfolio"), "{event}");
    let alerts = world.client.look("/ledger/alerts").await;
    assert_eq!(alerts["observed"], json!({ "failed": 1, "pending_long": 0 }));
    assert_eq!(alerts["alerts"][0]["channel"], "slack");

    rename("ledger_lost", "ledger_portfolio").await;
    dead::retry(world.fresh.db(), &Selection::default(), "test")
        .await
        .unwrap();
    until("it is processed", || async {
        states(&world.client, "?state=PROCESSED").await.len() == 1
    })
    .await;
    assert_eq!(world.client.look("/ledger/alerts").await["alerts"], json!([]));
    assert_eq!(world.client.look("/ledger/portfolios/ada").await["totals"]["KRW"], 1);
    world.close().await;
}

/// Events that have waited for six minutes, written down as if they had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_events_that_wait_too_long_are_an_alert() {
    let world = World::on(fresh::sqlite().await);
    until("the relay knows its routes", || async {
        inspect::status(&*world.fresh).await.unwrap().routes.len() == 4
    })
    .await;
    for route in [
        "ledger-balances",
        "ledger-portfolios",
        "ledger-audit",
        "ledger-sequence",
    ] {
        inspect::set_paused(&*world.fresh, route, true, "test").await.unwrap();
    }
    let old = |number: u32| {
        format!(
            "insert into postroom_outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload, headers, \
             occurred_at, created_at) values ('00000000-0000-7000-8000-{number:012}', 'ledger.transaction.posted.v1', '', \
             'account', 'a', '{{}}', '{{}}', strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-6 minutes'), \
             strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-6 minutes'))"
        )
    };
    for (number, expected) in [(99, json!([])), (100, json!("pagerduty"))] {
        let known = books::rows(&*world.fresh, "select id from postroom_outbox").await.len();
        for next in u32::try_from(known).unwrap()..number {
            world.fresh.db().execute_unprepared(&old(next)).await.unwrap();
        }
        let alerts = world.client.look("/ledger/alerts").await;
        assert_eq!(alerts["observed"]["pending_long"], number, "{alerts}");
        let fired = alerts["alerts"]
            .get(0)
            .map_or(json!([]), |alert| alert["channel"].clone());
        assert_eq!(fired, expected);
    }
    world.close().await;
}
