//! One trace shows an event's whole way: request, relay, broker, handler.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use postroom_testkit::wait::until;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::harness::Place;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

type Spans = Arc<Mutex<Vec<Value>>>;

/// Takes spans as an OpenTelemetry collector does.
async fn collect(State(spans): State<Spans>, Json(request): Json<Value>) -> Json<Value> {
    for resource in request["resourceSpans"].as_array().unwrap() {
        for scope in resource["scopeSpans"].as_array().unwrap() {
            spans.lock().unwrap().extend(scope["spans"].as_array().unwrap().clone());
        }
    }
    Json(serde_json::json!({}))
}

/// The names of the spans of our trace.
fn names(spans: &Spans) -> BTreeSet<String> {
    let spans = spans.lock().unwrap();
    let ours = spans.iter().filter(|span| span["traceId"] == TRACE);
    ours.map(|span| span["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn one_trace_shows_the_way_of_an_event_through_a_broker() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap());
    let spans = Spans::default();
    let router = Router::new()
        .route("/v1/traces", post(collect))
        .with_state(Arc::clone(&spans));
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, router).await.unwrap() });
    let redis = std::env::var("POSTROOM_TEST_REDIS_URL").unwrap_or_else(|_| panic!("run `cargo xtask test`"));
    let place = Place::new();
    place.configure(&format!(
        "[telemetry]\notlp = \"{collector}\"\n[modules.hello]\nbroker = \"redis\"\n\
         [brokers.redis]\nurl = \"{redis}\"\nprefix = \"trace-{}-\"\n",
        uuid::Uuid::now_v7()
    ));
    let up = place.start(&["up"]).await;
    let headers = format!("content-type: application/json\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
    let order = r#"{"customer":"ada","item":"lamp","quantity":2}"#;
    let (code, placed) = up.request_with("POST", "/hello/orders", &headers, order).await;
    assert_eq!(code, 201, "{placed}");
    let wanted: BTreeSet<String> = ["request", "deliver", "handle"].map(str::to_owned).into();
    until("every step has its span", || async { wanted.is_subset(&names(&spans)) }).await;
    up.stop().await;
}
