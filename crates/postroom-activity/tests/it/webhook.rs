//! The webhook sink: one signed request per event, and the meaning of its answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use postroom_activity::{ActivityEvent, ActivitySink as _, SinkAnswer, WebhookSink};
use serde_json::{Value, json};
use sha2::Sha256;
use time::macros::datetime;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

type Requests = Arc<Mutex<Vec<(HeaderMap, Vec<u8>)>>>;

/// A receiver whose answer to an event has the status that the event's name ends with.
struct Receiver {
    requests: Requests,
    sink: WebhookSink,
    _server: JoinSet<()>,
}

impl Receiver {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?token=sesame", listener.local_addr().unwrap());
        let requests = Requests::default();
        let router = Router::new()
            .route("/hook", post(take))
            .with_state(Arc::clone(&requests));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let secret = format!("whsec_{SECRET}").parse().unwrap();
        Self {
            requests,
            sink: WebhookSink::new(&url, vec![secret], Duration::from_secs(60)).unwrap(),
            _server: server,
        }
    }
}

async fn take(State(requests): State<Requests>, headers: HeaderMap, body: Bytes) -> Response {
    let event: Value = serde_json::from_slice(&body).unwrap();
    requests.lock().unwrap().push((headers, body.to_vec()));
    let status = event["type"].as_str().unwrap().rsplit('.').next().unwrap().parse();
    let status = StatusCode::from_u16(status.unwrap_or(204)).unwrap();
    (status, [(header::RETRY_AFTER, "9")], "a@b.c").into_response()
}

#[tokio::test]
async fn an_event_is_one_signed_request_with_the_same_id_in_each_attempt() {
    let receiver = Receiver::open().await;
    let event = ActivityEvent {
        event_id: "event-1".to_owned(),
        occurred_at: datetime!(2026-02-18 10:00 UTC),
        ..ActivityEvent::new("review.created", "v1")
            .member(42)
            .property("reviewId", 7)
    };
    for _ in 0..2 {
        let answers = receiver.sink.sink_batch(std::slice::from_ref(&event)).await;
        assert_eq!(answers, [SinkAnswer::Taken]);
    }
    let requests = receiver.requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    for (headers, body) in requests.iter() {
        let header = |name: &str| headers[name].to_str().unwrap();
        assert_eq!(
            (header("webhook-id"), header("content-type")),
            ("event-1", "application/json")
        );
        let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(SECRET).unwrap()).unwrap();
        mac.update(format!("event-1.{}.", header("webhook-timestamp")).as_bytes());
        mac.update(body);
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        assert_eq!(header("webhook-signature"), signature);
        let expected = json!({
            "type": "review.created",
            "timestamp": "2026-02-18T10:00:00Z",
            "data": {
                "eventId": "event-1", "eventName": "review.created", "eventVersion": "v1", "source": "SERVER",
                "occurredAt": "2026-02-18T10:00:00Z", "memberId": 42, "properties": { "reviewId": 7 },
            },
        });
        assert_eq!(serde_json::from_slice::<Value>(body).unwrap(), expected);
    }
}

#[tokio::test]
async fn an_id_that_no_header_takes_is_replaced_by_a_stable_one() {
    let receiver = Receiver::open().await;
    let event = ActivityEvent {
        event_id: "주문.7".to_owned(),
        ..ActivityEvent::new("review.created", "v1")
    };
    for _ in 0..2 {
        assert_eq!(
            receiver.sink.sink_batch(std::slice::from_ref(&event)).await,
            [SinkAnswer::Taken]
        );
    }
    let requests = receiver.requests.lock().unwrap();
    let ids: Vec<&str> = requests
        .iter()
        .map(|(headers, _)| headers["webhook-id"].to_str().unwrap())
        .collect();
    assert_eq!(ids[0], ids[1]);
    assert!(uuid::Uuid::parse_str(ids[0]).is_ok(), "{ids:?}");
}

#[tokio::test]
async fn a_status_concerns_the_event_or_the_receiver() {
    let unavailable = |says: &str| SinkAnswer::Unavailable {
        says: says.to_owned(),
        after: Some(Duration::from_secs(9)),
    };
    let gone = "410 Gone; the receiver wants no more events: remove the sink or set a new address";
    let moved = "301 Moved Permanently; redirects are not followed, set the new address";
    let rows = [
        (200, SinkAnswer::Taken),
        (204, SinkAnswer::Taken),
        (301, unavailable(moved)),
        (400, SinkAnswer::Refused("400 Bad Request".to_owned())),
        (401, unavailable("401 Unauthorized")),
        (404, unavailable("404 Not Found")),
        (410, unavailable(gone)),
        (413, SinkAnswer::Rejected("413 Payload Too Large".to_owned())),
        (422, SinkAnswer::Refused("422 Unprocessable Entity".to_owned())),
        (429, unavailable("429 Too Many Requests")),
        (500, unavailable("500 Internal Server Error")),
        (503, unavailable("503 Service Unavailable")),
    ];
    let receiver = Receiver::open().await;
    for (status, expected) in rows {
        let event = ActivityEvent::new(format!("review.{status}"), "v1");
        assert_eq!(receiver.sink.sink_batch(&[event]).await, [expected], "{status}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_unavailable_gets_no_further_events() {
    let receiver = Receiver::open().await;
    let events = vec![ActivityEvent::new("review.503", "v1"); 100];
    let answers = receiver.sink.sink_batch(&events).await;
    assert_eq!(answers.len(), 100);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, SinkAnswer::Unavailable { .. }))
    );
    assert_eq!(receiver.requests.lock().unwrap().len(), 16);
}

/// Such an event would otherwise cost those behind it an attempt each time, although they were not sent.
#[tokio::test]
async fn an_event_that_the_receiver_fails_on_holds_up_no_other() {
    let receiver = Receiver::open().await;
    let mut events = vec![ActivityEvent::new("review.503", "v1")];
    events.extend((0..99).map(|_| ActivityEvent::new("review.created", "v1")));
    let answers = receiver.sink.sink_batch(&events).await;
    let taken = answers.iter().filter(|answer| **answer == SinkAnswer::Taken).count();
    assert_eq!((answers.len(), taken), (100, 99));
    assert_eq!(receiver.requests.lock().unwrap().len(), 100);
}

#[tokio::test]
async fn neither_the_address_nor_the_secret_is_shown() {
    let nobody = WebhookSink::new(
        "http://127.0.0.1:1/hook?token=sesame",
        vec![format!("whsec_{SECRET}").parse().unwrap()],
        Duration::from_secs(60),
    );
    let nobody = nobody.unwrap();
    let answers = nobody.sink_batch(&[ActivityEvent::new("review.created", "v1")]).await;
    assert!(matches!(answers[..], [SinkAnswer::Unavailable { .. }]));
    let shown = format!("{nobody:?} {answers:?}");
    assert!(!shown.contains("sesame") && !shown.contains(SECRET), "{shown}");
    let unsigned = WebhookSink::new("http://127.0.0.1:1/", Vec::new(), Duration::from_secs(1));
    assert!(unsigned.unwrap_err().report().contains("has no secret"));
}
