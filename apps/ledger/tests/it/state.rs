//! The state of each event.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::time::Duration;

use postroom::dead::{self, Selection};
use postroom::{Delays, operate};
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use crate::books;
use crate::client::Client;
use crate::world::{Place, World, on_every_way};

on_every_way! {
    an_event_is_pending_then_processed
    an_event_fails_after_five_attempts_and_can_be_retried
}

/// State and retry count of the listed events.
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

async fn an_event_is_pending_then_processed(place: Place) {
    let world = World::on(place).await;
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

    // With a broker, an event is pending until the publishing route delivers it.
    let route = match world.broker {
        Some(_) => "to-broker-ledger-events",
        None => "ledger-audit",
    };
    let pause = async |is_paused| {
        operate::set_paused(&*world.fresh, route, is_paused, "test")
            .await
            .unwrap();
    };
    pause(true).await;
    world.client.deposit(&ada, 2).await.created();
    let pending = || async { states(&world.client, "?state=PENDING").await == [("PENDING".to_owned(), 0)] };
    until("it is pending on one route", pending).await;
    let waiting = &world.client.look("/ledger/events?state=PENDING").await[0];
    assert!(waiting["processed_at"].is_null(), "{waiting}");
    assert_eq!(states(&world.client, "?state=FAILED").await, []);
    assert_eq!(states(&world.client, "").await.len(), 2);
    pause(false).await;
    books::settle(&world.fresh).await;
    until("both are processed", || async {
        states(&world.client, "?state=PROCESSED").await.len() == 2
    })
    .await;
    let processed = world.client.look("/ledger/events?state=PROCESSED").await;
    let event = &processed.as_array().unwrap()[0];
    let on_route = event["routes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["route"] == route);
    let (processed_at, handled_at) = (&event["processed_at"], &on_route.unwrap()["handled_at"]);
    assert!(
        processed_at.as_str() >= handled_at.as_str() && handled_at.is_string(),
        "{event}"
    );
    assert_eq!(states(&world.client, "?state=PENDING").await, []);
    world.close().await;
}

async fn an_event_fails_after_five_attempts_and_can_be_retried(place: Place) {
    let mut module = ledger::module();
    for subscriber in &mut module.subscribers {
        assert_eq!(subscriber.retry.attempts_max, Some(5));
        subscriber.retry.delays = Delays::Fixed(Duration::from_millis(100));
    }
    let world = World::with(place, module).await;
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
    assert!(event["processed_at"].is_null(), "others have handled it: {event}");

    rename("ledger_lost", "ledger_portfolio").await;
    dead::retry(world.fresh.db(), &Selection::default(), "test")
        .await
        .unwrap();
    until("it is processed", || async {
        states(&world.client, "?state=PROCESSED").await.len() == 1
    })
    .await;
    assert_eq!(world.client.look("/ledger/portfolios/ada").await["totals"]["KRW"], 1);
    world.close().await;
}

/// A full page of newer dead letters from other modules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_of_others_do_not_hide_ours() {
    let world = World::on(fresh::sqlite().await).await;
    let broken = json!({ "no": "movement" }).to_string();
    let event = postroom::Event::new(
        "ledger.transaction.posted.v1",
        "account",
        "a",
        postroom::parse_payload(&broken).unwrap(),
    );
    let tx = postroom::table::begin(world.fresh.db()).await.unwrap();
    postroom::append(&tx, &[event.unwrap()]).await.unwrap();
    tx.commit().await.unwrap();
    until("it has failed", || async {
        states(&world.client, "?state=FAILED").await.len() == 1
    })
    .await;
    let like = "event_type, source, aggregate_type, aggregate_id, payload, headers, shard, attempts, error";
    let others = format!(
        "with recursive n(i) as (select 1000 union all select i + 1 from n where i < 1200)
         insert into postroom_outbox_failed (route, id, event_id, {like})
         select 'somebody-else', i, printf('00000000-0000-7000-8000-%012d', i), {like}
         from n, (select * from postroom_outbox_failed limit 1)"
    );
    world.fresh.db().execute_unprepared(&others).await.unwrap();
    assert_eq!(states(&world.client, "?state=FAILED").await.len(), 1);
    world.close().await;
}
