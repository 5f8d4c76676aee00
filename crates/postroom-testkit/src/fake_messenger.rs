//! Slack and PagerDuty as a test needs them: on a port of their own, as picky as the real ones, and told how to fail.

#![expect(
    clippy::panic,
    reason = "a test harness: a fake that does not start has failed the test"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where the fake Slack takes messages.
const HOOK: &str = "/services/T0/B0/secret-of-the-hook";
/// The key that the fake PagerDuty knows.
pub const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";

/// An HTTP response of the fake.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
    /// How many seconds to wait before the next try.
    pub retry_after: Option<u64>,
}

impl Answer {
    /// An answer with a body.
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            body: body.into(),
            retry_after: None,
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let after = self
            .retry_after
            .map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
        (status, after, self.body).into_response()
    }
}

/// A service that somebody is told through.
#[derive(Debug)]
pub struct FakeMessenger {
    /// Where to post to: address and path.
    pub url: String,
    desk: Arc<Desk>,
    _server: JoinSet<()>,
}

/// Returns the accepted message and its response, or the response that refuses the request.
type Judge = fn(&Uri, &HeaderMap, &[u8]) -> Result<(Value, Answer), Answer>;

#[derive(Debug)]
struct Desk {
    judge: Judge,
    next: Mutex<VecDeque<Answer>>,
    asked: Mutex<usize>,
    taken: Mutex<Vec<Value>>,
}

impl FakeMessenger {
    /// An incoming webhook of Slack.
    pub async fn slack() -> Self {
        Self::open(HOOK, slack).await
    }

    /// PagerDuty's Events API v2, with an integration whose key is [`ROUTING_KEY`].
    pub async fn pagerduty() -> Self {
        Self::open("/v2/enqueue", pagerduty).await
    }

    async fn open(path: &str, judge: Judge) -> Self {
        let bound = TcpListener::bind("127.0.0.1:0").await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.unwrap_or_else(|error| panic!("listen on a free port: {error}"));
        let desk = Arc::new(Desk {
            judge,
            next: Mutex::default(),
            asked: Mutex::default(),
            taken: Mutex::default(),
        });
        let router = Router::new().fallback(take).with_state(Arc::clone(&desk));
        let mut server = JoinSet::new();
        server.spawn(async move { drop(axum::serve(listener, router).await) });
        Self {
            url: format!("http://{address}{path}"),
            desk,
            _server: server,
        }
    }

    /// Answers the next requests so, whatever they are; then it judges for itself again.
    pub fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        lock(&self.desk.next).extend(answers);
    }

    /// Whether all of those were given.
    pub fn has_answered(&self) -> bool {
        lock(&self.desk.next).is_empty()
    }

    /// How many requests came.
    pub fn asked(&self) -> usize {
        *lock(&self.desk.asked)
    }

    /// The accepted messages, oldest first.
    pub fn taken(&self) -> Vec<Value> {
        lock(&self.desk.taken).clone()
    }
}

async fn take(State(desk): State<Arc<Desk>>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Answer {
    *lock(&desk.asked) += 1;
    if method != Method::POST {
        return Answer::new(405, "");
    }
    if let Some(answer) = lock(&desk.next).pop_front() {
        return answer;
    }
    match (desk.judge)(&uri, &headers, &body) {
        Ok((taken, answer)) => {
            lock(&desk.taken).push(taken);
            answer
        }
        Err(answer) => answer,
    }
}

fn slack(uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<(Value, Answer), Answer> {
    if uri.path() != HOOK {
        return Err(Answer::new(404, "no_service"));
    }
    let message = json_of(headers, body).ok_or_else(|| Answer::new(400, "invalid_payload"))?;
    match message.get("text").and_then(Value::as_str) {
        Some("") | None => Err(Answer::new(400, "no_text")),
        Some(_) => Ok((message, Answer::new(200, "ok"))),
    }
}

fn pagerduty(uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<(Value, Answer), Answer> {
    if uri.path() != "/v2/enqueue" {
        return Err(Answer::new(404, "Not Found"));
    }
    let invalid = |errors: &[String]| {
        let says = json!({ "status": "invalid event", "message": "Event object is invalid", "errors": errors });
        Answer::new(400, says.to_string())
    };
    let event = json_of(headers, body).ok_or_else(|| invalid(&["JSON is invalid".to_owned()]))?;
    let errors = mistakes(&event);
    if !errors.is_empty() {
        return Err(invalid(&errors));
    }
    let says = json!({ "status": "success", "message": "Event processed", "dedup_key": event.get("dedup_key") });
    Ok((event, Answer::new(202, says.to_string())))
}

/// The mistakes in an event for PagerDuty.
fn mistakes(event: &Value) -> Vec<String> {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let mut wrong = Vec::new();
    let mut must = |is_so: bool, says: &str| wrong.extend((!is_so).then(|| says.to_owned()));
    must(
        text("/routing_key").len() == 32,
        "Length of 'routing_key' is incorrect (should be 32 characters)",
    );
    must(text("/routing_key") == ROUTING_KEY, "Invalid routing key");
    must(text("/dedup_key").len() <= 255, "'dedup_key' is too long");
    match text("/event_action") {
        "trigger" => {
            let summary = text("/payload/summary");
            must(
                (1..=1024).contains(&summary.chars().count()),
                "'payload.summary' is missing or too long",
            );
            must(
                !text("/payload/source").is_empty(),
                "'payload.source' is missing or blank",
            );
            let is_known = ["critical", "error", "warning", "info"].contains(&text("/payload/severity"));
            must(is_known, "'payload.severity' is invalid");
        }
        "acknowledge" | "resolve" => must(!text("/dedup_key").is_empty(), "'dedup_key' is missing or blank"),
        _ => must(false, "'event_action' is invalid"),
    }
    wrong
}

fn json_of(headers: &HeaderMap, body: &[u8]) -> Option<Value> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let value: Value = serde_json::from_slice(body).ok()?;
    (kind.starts_with("application/json") && value.is_object()).then_some(value)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
