//! Processes with different clocks: event ids do not give the order of events, and no code relies on them.

use postroom::{Event, ExternalTask as _, Handler as _, Handling, migration, table};
use postroom_testkit::{Fresh, fresh};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Asterisk, Query};
use serde_json::{Value, json};
use umbra::Umbra;
use umbra::guild::events::BotKicked;
use umbra::order::VERSION;
use uuid::Uuid;

use crate::site::{Site, umbra};

on_each_database! {
    apart: what_happened_first_is_told_by_no_clock_sqlite, what_happened_first_is_told_by_no_clock_postgres,
        what_happened_first_is_told_by_no_clock_mariadb;
}

/// Licensing and notification handle the events of a guild in another database. Each event comes from a process whose clock
/// is behind the one before. Then all events are handled again.
async fn apart(elsewhere: Fresh) {
    let events = life().await;
    let started = events.iter().rfind(|event| event.event_type == "SubscriptionStarted");
    let paid = started.unwrap().aggregate_id.as_str();
    let db = elsewhere.db();
    migration::up(db, "umbra", &umbra::module().migrations(db.get_database_backend()))
        .await
        .unwrap();
    let (umbra, _, dm) = umbra();
    for _ in 0..2 {
        for event in &events {
            follow(&umbra, "umbra-licensing", &elsewhere, event).await;
            follow(&umbra, "umbra-notification", &elsewhere, event).await;
        }
        let mut select = Query::select();
        select.column(Asterisk).from("umbra_license");
        let row = db.query_one(&select).await.unwrap().unwrap();
        let text = |column| row.try_get::<String>("", column).unwrap();
        let license = ["status", "plan_code", "subscription_id"].map(text);
        assert_eq!(license, ["active", "pro", paid], "the last paid subscription");
        let warned = dm.messages().into_iter().rfind(|one| one.content.contains("mass ban"));
        assert_eq!(warned.unwrap().user_id, "eve", "the last owner");
    }
}

/// A guild subscribes, removes the bot, installs it again, subscribes again, and changes its owner.
async fn life() -> Vec<Event> {
    let site = Site::open(fresh::sqlite().await).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    site.quiet().await;
    site.post("/guilds/g1/kick", Value::Null).await;
    site.until("/guilds/g1/subscription", |one| one["status"] == "suspended")
        .await;
    site.guild("g1", &ada).await;
    site.quiet().await;
    site.subscription("g1", &ada).await;
    site.ok("PUT", "/guilds/g1/owner", json!({ "owner_id": "eve" })).await;
    let seen = json!({ "detected_pattern": "mass ban", "suspects": ["666"] });
    site.post("/guilds/g1/anti-nuke", seen).await;
    site.quiet().await;
    let events = site.outbox().await;
    site.stage.close().await;
    let behind = |(at, event): (usize, Event)| Event {
        id: Uuid::from_u128(u128::MAX - at as u128),
        ..event
    };
    events.into_iter().enumerate().map(behind).collect()
}

/// Delivers an event to a group, if the group subscribes to it.
async fn follow(umbra: &Umbra, group: &str, fresh: &Fresh, event: &Event) {
    let mut subscribers = umbra.clone().module().subscribers.into_iter();
    let subscriber = subscribers.find(|one| one.group == group).unwrap();
    if !subscriber.filter.matches(&event.event_type) {
        return;
    }
    match subscriber.handling {
        Handling::Each(handler) => {
            let mut tx = table::begin(fresh.db()).await.unwrap();
            handler.handle(&mut tx, event).await.unwrap();
            tx.commit().await.unwrap();
        }
        Handling::External(task) => task.run(&fresh.db().clone().into(), event).await.unwrap(),
        other @ Handling::Batch(_) => panic!("{other:?}"),
    }
}

/// A removal of the bot suspends the subscriptions that were created before it, and no others.
#[tokio::test]
async fn a_kick_stops_what_was_there_before_it_by_no_clock() {
    let site = Site::open(fresh::sqlite().await).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    site.quiet().await;
    let kicked = |id: Uuid, version: i64| {
        let guild_id = "g1".to_owned();
        let event = Event::of(&BotKicked { guild_id }).unwrap();
        let event = event.header(VERSION, version.to_string());
        Event { id, ..event }
    };
    let installed = site.outbox().await;
    let installed = installed.iter().find(|event| event.event_type == "BotInstalled");
    let version: i64 = installed.unwrap().headers[VERSION].parse().unwrap();
    let (umbra, ..) = umbra();
    for (event, status) in [
        (kicked(Uuid::max(), version), "active"),
        (kicked(Uuid::nil(), version + 1), "suspended"),
    ] {
        follow(&umbra, "umbra-billing", &site.fresh, &event).await;
        assert_eq!(site.get("/guilds/g1/subscription").await["status"], status);
    }
    site.stage.close().await;
}
