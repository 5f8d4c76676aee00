//! Hidden personal data sent through every way in: it is in no table, no dead letter, no key of Redis, no log line, no metric and no
//! request to a sink.

mod corpus;
mod dump;
mod log;
mod scene;

/// The searcher of the firewall's own tests. It shares no code with the firewall.
#[path = "../../../postroom-pii/tests/it/trace.rs"]
mod trace;

use std::sync::Arc;

use postroom::table;
use postroom_activity::query::{self, EventFilter};
use postroom_activity::{ActivityEvent, Orchestrator, PiiSettings, Privacy};
use postroom_testkit::fresh;
use postroom_testkit::redis_server::redis;
use serde_json::{Value, json};

use crate::ingest_site::{Setup, Site, changed, column, event, word};
use crate::keys;
use corpus::Case;
use scene::Scene;

/// Through Redis: also what strangers write to the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_08_no_hidden_secret_is_anywhere_postgres_and_redis() {
    let (fresh, server) = (fresh::postgres().await, redis(&[]).await);
    let scene = Scene::open(&fresh, Some(&server)).await;
    scene.send_every_way().await;
    scene.send_by_strangers(&server).await;
    scene.settle().await;
    let counts = scene.counts().await;
    assert_eq!(counts.stored, scene.stored_max(), "{counts:?}");
    assert!(counts.dead > corpus::hidden().len() as i64, "{counts:?}");
    scene.must_be_clean(&server_keys(&server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_08_no_hidden_secret_is_anywhere_sqlite() {
    let fresh = fresh::sqlite().await;
    let scene = Scene::open(&fresh, None).await;
    scene.send_every_way().await;
    scene.settle().await;
    let counts = scene.counts().await;
    assert_eq!(counts.stored, scene.stored_max(), "{counts:?}");
    scene.must_be_clean(&[]).await;
}

fn server_keys(server: &postroom_testkit::redis_server::RedisServer) -> Vec<Value> {
    dump::redis(&server.url())
}

#[tokio::test]
async fn a_08_harmless_events_stay_as_they_are() {
    let fresh = fresh::sqlite().await;
    crate::activity().module().migrate(&*fresh.store()).await.unwrap();
    let events = corpus::harmless();
    assert!(events.len() >= 400, "{}", events.len());
    let plain: PiiSettings = serde_json::from_value(json!({ "keyword_mode": "PLAIN" })).unwrap();
    let privacy = Privacy::new(&plain, Some(keys())).unwrap();
    let orchestrator = Orchestrator::without_sinks(Arc::new(privacy));
    let tx = table::begin(fresh.db()).await.unwrap();
    orchestrator.handle_client_events(&tx, events.clone()).await.unwrap();
    tx.commit().await.unwrap();
    let page = query::find(fresh.db(), &EventFilter::default(), None, 1_000)
        .await
        .unwrap();
    let stored: Vec<ActivityEvent> = page.events.into_iter().map(|stored| stored.event).collect();
    let changed: Vec<&ActivityEvent> = events.iter().filter(|event| !stored.contains(event)).collect();
    assert!(
        changed.len() * 100 <= events.len(),
        "{} changed: {changed:?}",
        changed.len()
    );
}

#[tokio::test]
async fn a_09_store_ip_and_store_user_agent_store_hashes() {
    for (settings, expected) in [
        (json!({}), json!({ "path": "/" })),
        (
            json!({ "store_ip": true }),
            json!({ "path": "/", "clientIpHash": keys().hash("127.0.0.1") }),
        ),
        (
            json!({ "store_user_agent": true }),
            json!({ "path": "/", "userAgentHash": keys().hash("Invented/1.0") }),
        ),
    ] {
        let fresh = fresh::sqlite().await;
        let site = Site::set(&fresh, Setup::with(json!({ "pii": settings }))).await;
        let sent = event();
        let body = json!({ "events": [sent] }).to_string();
        let answer = site
            .client
            .must(
                "POST",
                crate::ingest_site::EVENTS,
                &[("user-agent", "Invented/1.0")],
                &body,
            )
            .await;
        assert_eq!(word(&answer, &sent), "ok");
        let properties: Value = serde_json::from_str(&column(&fresh, &sent, "properties").await.unwrap()).unwrap();
        assert_eq!(properties, expected);
        let again = site
            .client
            .must(
                "POST",
                crate::ingest_site::EVENTS,
                &[("user-agent", "Other/2.0")],
                &body,
            )
            .await;
        assert_eq!(word(&again, &sent), "duplicate", "another user agent is no other event");
    }
}

/// Marks and hashes are longer than what they replace: the limits hold for what is stored.
#[tokio::test]
async fn an_event_of_a_client_that_becomes_too_long_is_dropped_with_a_reason() {
    let fresh = fresh::sqlite().await;
    let site = Site::open(&fresh).await;
    let queries: Vec<Value> = (0..1_500).map(|n| json!({ "q": format!("{n:06}x") })).collect();
    let long = changed(&event(), json!({ "properties": { "path": "/", "detail": queries } }));
    let path = changed(&event(), json!({ "requestPath": format!("/{}?q=x", "a".repeat(250)) }));
    let answer = site.send(&[long.clone(), path.clone()]).await;
    assert_eq!(word(&answer, &long), "drop invalid_properties");
    assert_eq!(word(&answer, &path), "ok");
    assert_eq!(column(&fresh, &path, "request_path").await.unwrap(), "[too_long]");
}

#[tokio::test]
async fn an_event_id_with_personal_data_is_answered_and_known_again() {
    let fresh = fresh::sqlite().await;
    let site = Site::open(&fresh).await;
    let sent = changed(&event(), json!({ "eventId": "kim@example.com" }));
    assert_eq!(word(&site.send(std::slice::from_ref(&sent)).await, &sent), "ok");
    assert_eq!(word(&site.send(std::slice::from_ref(&sent)).await, &sent), "duplicate");
}

/// An activity event with this case in its properties and, if it is a text, in its other fields.
fn activity(way: &str, case: &Case) -> ActivityEvent {
    let text = case.text.as_deref().unwrap_or("harmless");
    let id = match case.number % 3 {
        0 => format!("{text} of {way}-{}", case.number),
        _ => format!("{way}-{}", case.number),
    };
    let short = Some(text.to_owned());
    ActivityEvent {
        event_id: if id.chars().count() > 64 {
            format!("{way}-{}", case.number)
        } else {
            id
        },
        anonymous_id: short.clone(),
        session_id: short.clone(),
        device_id: short.clone(),
        request_path: short,
        ..ActivityEvent::new("page.viewed", "v1").property("document", case.document.clone())
    }
}
