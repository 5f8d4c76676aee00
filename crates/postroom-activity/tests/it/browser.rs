//! The browser module in Chromium: every event arrives once, whatever happens to the answer, the network or the page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use postroom_host::{Origin, Serving};
use postroom_testkit::browser::{Browser, Page};
use postroom_testkit::wait::until;
use postroom_testkit::{Client, Fresh, fresh};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::ingest_site::{EVENTS, Setup, Site, stored, token_of};

/// How a front treats the next request for events. After the last step it passes all requests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Answers 503 and passes nothing on.
    Refuse,
    /// Passes the request on and loses the answer.
    LoseAnswer,
}

/// A server before the real one, which can fail. It serves the page, too.
struct Front {
    url: String,
    behind: Arc<Behind>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Behind {
    server: Client,
    steps: Mutex<VecDeque<Step>>,
    /// The requests for events, as they came.
    bodies: Mutex<Vec<Value>>,
}

impl Front {
    async fn before(site: &Site, steps: &[Step]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let behind = Arc::new(Behind {
            server: site.client.clone(),
            steps: Mutex::new(steps.iter().copied().collect()),
            bodies: Mutex::default(),
        });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&behind));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            behind,
            _serving: serving,
        }
    }

    fn requests(&self) -> usize {
        self.behind.bodies.lock().unwrap().len()
    }
}

async fn pass(
    State(behind): State<Arc<Behind>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if uri.path() == "/page" {
        return (
            [(header::CONTENT_TYPE, "text/html")],
            "<!doctype html><title>page</title>",
        )
            .into_response();
    }
    let mut step = None;
    if uri.path() == EVENTS {
        behind
            .bodies
            .lock()
            .unwrap()
            .push(serde_json::from_slice(&body).unwrap());
        step = behind.steps.lock().unwrap().pop_front();
    }
    if step == Some(Step::Refuse) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map_or("", |kind| kind.to_str().unwrap());
    let headers = [("content-type", kind)];
    let sent = behind.server.send_bytes(method.as_str(), uri.path(), &headers, &body);
    let answer = sent.await.unwrap();
    if step == Some(Step::LoseAnswer) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let body = answer
        .body
        .as_str()
        .map_or_else(|| answer.body.to_string(), str::to_owned);
    let status = StatusCode::from_u16(answer.status).unwrap();
    (status, [(header::CONTENT_TYPE, answer.kind)], body).into_response()
}

/// Loads the module and makes `activity`, with these options.
async fn load(browser: &mut Browser, page: &Page, server: &str, options: &str) {
    let script = format!(
        "import('{server}/api/v1/activity/client.js').then((module) => {{ \
         globalThis.dropped = []; \
         globalThis.activity = module.createActivity({{ onDrop: (id, reason) => dropped.push(reason), ...{options} }}); }})"
    );
    browser.run(page, &script).await;
}

/// Lets the page track this many events.
async fn track(browser: &mut Browser, page: &Page, count: usize) {
    let script = format!("for (let i = 0; i < {count}; i++) activity.track('page.viewed', {{ path: `/${{i}}` }})");
    browser.run(page, &script).await;
}

async fn until_stored(fresh: &Fresh, count: i64) {
    until(&format!("{count} events are stored"), || async {
        stored(fresh).await == count
    })
    .await;
}

async fn until_empty(browser: &mut Browser, page: &Page) {
    let script = "new Promise((done) => { const look = () => \
        Object.keys(localStorage).some((key) => key.includes('.event.')) ? setTimeout(look, 20) : done(true); look(); })";
    assert_eq!(browser.run(page, script).await, true);
}

#[tokio::test]
async fn events_arrive_in_batches() {
    let (fresh, mut browser) = (fresh::sqlite().await, Browser::start());
    let site = Site::open(&fresh).await;
    let front = Front::before(&site, &[]).await;
    let page = browser.open(&format!("{}/page", front.url)).await;
    load(
        &mut browser,
        &page,
        &front.url,
        "{ batchSize: 10, context: { platform: 'web' } }",
    )
    .await;
    track(&mut browser, &page, 25).await;
    until_stored(&fresh, 25).await;
    until_empty(&mut browser, &page).await;
    let bodies = front.behind.bodies.lock().unwrap().clone();
    let sizes: Vec<usize> = bodies
        .iter()
        .map(|body| body["events"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [10, 10, 5], "sent one after the other");
    let event = &bodies[0]["events"][0];
    let id: uuid::Uuid = event["eventId"].as_str().unwrap().parse().unwrap();
    assert_eq!((id.get_version_num(), &event["platform"]), (7, &json!("web")));
    let visitor = browser
        .run(&page, "[activity.anonymousId(), activity.sessionId()]")
        .await;
    assert_eq!(
        visitor,
        json!([event["anonymousId"], event["sessionId"]]),
        "ids are kept"
    );
}

#[tokio::test]
async fn an_event_arrives_once_although_the_server_refuses_and_an_answer_is_lost() {
    let (fresh, mut browser) = (fresh::sqlite().await, Browser::start());
    let site = Site::open(&fresh).await;
    let front = Front::before(&site, &[Step::Refuse, Step::LoseAnswer]).await;
    let page = browser.open(&format!("{}/page", front.url)).await;
    load(&mut browser, &page, &front.url, "{ batchSize: 3 }").await;
    track(&mut browser, &page, 3).await;
    until_empty(&mut browser, &page).await;
    assert_eq!((stored(&fresh).await, front.requests()), (3, 3));
    let bodies = front.behind.bodies.lock().unwrap();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "the same events");
}

#[tokio::test]
async fn events_of_a_page_that_is_closed_arrive() {
    let (fresh, mut browser) = (fresh::sqlite().await, Browser::start());
    let site = Site::open(&fresh).await;
    let front = Front::before(&site, &[]).await;
    let address = format!("{}/page", front.url);
    let slow = "{ intervalMs: 3_600_000 }";
    let page = browser.open(&address).await;
    load(&mut browser, &page, &front.url, slow).await;
    track(&mut browser, &page, 2).await;
    browser.close(page).await;
    until_stored(&fresh, 2).await;
    // The next page gets the answers that the closed one could not read, and loses nothing when the user leaves it.
    let page = browser.open(&address).await;
    load(&mut browser, &page, &front.url, slow).await;
    until_empty(&mut browser, &page).await;
    track(&mut browser, &page, 1).await;
    browser.visit(&page, "about:blank").await;
    until_stored(&fresh, 3).await;
}

#[tokio::test]
async fn events_of_an_offline_page_arrive_when_it_is_online() {
    let (fresh, mut browser) = (fresh::sqlite().await, Browser::start());
    let site = Site::open(&fresh).await;
    let front = Front::before(&site, &[]).await;
    let page = browser.open(&format!("{}/page", front.url)).await;
    load(
        &mut browser,
        &page,
        &front.url,
        "{ batchSize: 2, intervalMs: 3_600_000 }",
    )
    .await;
    // Sent by the timer of the start: from here on, only the network's return brings events.
    track(&mut browser, &page, 1).await;
    until_stored(&fresh, 1).await;
    browser.set_offline(&page, true).await;
    track(&mut browser, &page, 5).await;
    let left = browser
        .run(&page, "activity.flush().then(() => navigator.onLine)")
        .await;
    assert_eq!((left, front.requests()), (json!(false), 1));
    browser.set_offline(&page, false).await;
    until_stored(&fresh, 6).await;
    until_empty(&mut browser, &page).await;
}

#[tokio::test]
async fn a_dropped_event_is_reported_and_holds_up_no_other() {
    let (fresh, mut browser) = (fresh::sqlite().await, Browser::start());
    let site = Site::set(&fresh, Setup::with(json!({ "ingest_max_batch_size": 2 }))).await;
    let front = Front::before(&site, &[]).await;
    let page = browser.open(&format!("{}/page", front.url)).await;
    load(&mut browser, &page, &front.url, "{ batchSize: 4, queueMax: 3 }").await;
    let script = "activity.track('page.viewed'); activity.track('unknown'); activity.track('page.viewed'); activity.track('page.viewed')";
    browser.run(&page, script).await;
    until_empty(&mut browser, &page).await;
    let mut dropped: Vec<Value> = browser.run(&page, "dropped").await.as_array().unwrap().clone();
    dropped.sort_by_key(Value::to_string);
    assert_eq!(dropped, ["queue_full", "unknown_event_name"]);
    assert_eq!(stored(&fresh).await, 2, "although the server takes smaller batches");
}

#[tokio::test]
async fn a_page_of_another_origin_sends_events_of_its_member() {
    let (fresh, mut browser) = (fresh::sqlite().await, Browser::start());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let serving = Serving {
        origins: vec![origin.parse::<Origin>().unwrap()],
        ..Serving::default()
    };
    let setup = Setup {
        serving,
        ..Setup::with(json!({}))
    };
    let site = Site::set(&fresh, setup).await;
    listener.set_nonblocking(true).unwrap();
    let shop = Router::new().fallback(async || ([(header::CONTENT_TYPE, "text/html")], "<!doctype html>"));
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(TcpListener::from_std(listener).unwrap(), shop).await });
    let page = browser.open(&format!("{origin}/")).await;
    let options = format!("{{ batchSize: 1, token: async () => '{}' }}", token_of("42"));
    load(&mut browser, &page, &site.client.0, &options).await;
    track(&mut browser, &page, 2).await;
    until_empty(&mut browser, &page).await;
    let events = stored(&fresh).await;
    let dropped = browser.run(&page, "dropped").await;
    assert_eq!((events, dropped), (2, json!([])));
    let mut select = sea_orm::sea_query::Query::select();
    select.column("member_id").from("user_activity_event");
    let rows = sea_orm::ConnectionTrait::query_all(fresh.db(), &select).await.unwrap();
    let members = rows.iter().map(|row| row.try_get::<i64>("", "member_id").unwrap());
    assert_eq!(members.collect::<Vec<_>>(), [42, 42]);
}
