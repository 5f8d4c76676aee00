//! A fake PostHog on a port of its own. It checks requests of both ingestion protocols as the real service does, stores events under
//! the key by which PostHog removes duplicates, and fails as a test tells it.

#![expect(
    clippy::panic,
    reason = "a test harness: a fake that does not start has failed the test"
)]

mod listener;
mod store;
mod v0;
mod v1;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use store::Store;

pub use store::{Seen, Stored};

/// A project API key of the right form.
pub const PROJECT_API_KEY: &str = "phc_testkit0123456789abcdef0123456789abcdef";
/// The path of the protocol v1.
pub const V1: &str = "/i/v1/analytics/events";
/// The path of the protocol v0.
pub const V0: &str = "/batch";

/// How the fake treats every request, until a test changes it.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether the protocol v1 is enabled; otherwise its path answers 404.
    pub has_v1: bool,
    /// Whether v1 takes gzip; otherwise it answers 415.
    pub takes_gzip: bool,
    /// v1 answers 402; v0 answers 200 and stores nothing.
    pub is_over_quota: bool,
    /// Another key than [`PROJECT_API_KEY`] is refused. The real service checks only the form of a key by default.
    pub is_key_checked: bool,
    /// Most bytes of a body before it is decompressed; more is a 413.
    pub wire_bytes_max: usize,
    /// Most bytes of a body after it is decompressed; more is a 413.
    pub unpacked_bytes_max: usize,
    /// Names or uuids of events that are never taken: v1 drops each, v0 answers 400 for the whole batch.
    pub poison: HashSet<String>,
    /// Names or uuids of events that make a whole batch unreadable: 400 on both protocols.
    pub unreadable: HashSet<String>,
    /// Names or uuids of events that cannot be stored now: `retry` on v1; on v0 a 503 after the events before it were stored.
    pub not_persisted: HashSet<String>,
    /// Names or uuids of events that are stored and have no result in the response of v1.
    pub omitted: HashSet<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            has_v1: true,
            takes_gzip: true,
            is_over_quota: false,
            is_key_checked: false,
            wire_bytes_max: 10 << 20,
            unpacked_bytes_max: 50 << 20,
            poison: HashSet::new(),
            unreadable: HashSet::new(),
            not_persisted: HashSet::new(),
            omitted: HashSet::new(),
        }
    }
}

/// The fate of one request, whatever it contains.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Answers this and stores nothing.
    Answer(Answer),
    /// Stores nothing and never answers.
    Silence,
    /// Stores the events and never answers.
    StoredThenSilence,
    /// Resets the connection after it has read this many bytes of the body. Stores nothing.
    ResetAfterBytes(usize),
    /// Stores the events and resets the connection instead of an answer.
    StoredThenReset,
}

impl Outcome {
    /// An answer of this status in the form of the protocol, without `Retry-After`.
    pub fn status(status: u16) -> Self {
        Self::Answer(Answer::new(status, ""))
    }
}

/// An HTTP response of the fake.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
    /// The value of the header `Retry-After`.
    pub retry_after: Option<String>,
    /// The request id that is echoed.
    request_id: Option<String>,
}

impl Answer {
    /// An answer with a body.
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            body: body.into(),
            retry_after: None,
            request_id: None,
        }
    }

    /// The same answer with the header `Retry-After`.
    #[must_use]
    pub fn retry_after(self, value: &str) -> Self {
        Self {
            retry_after: Some(value.to_owned()),
            ..self
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let after = self.retry_after.map(|after| [(header::RETRY_AFTER, after)]);
        let id = self.request_id.map(|id| [("posthog-request-id", id)]);
        (status, after, id, self.body).into_response()
    }
}

/// A request that came, with all bytes of its body or a part of them.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it had been read.
    pub at: Instant,
    /// Its path, without a slash at the end.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// The bytes that were read of its body.
    pub body: Vec<u8>,
    /// The status of the answer; none if there was no answer.
    pub status: Option<u16>,
}

impl Request {
    /// Its body, decompressed; `Null` if it is not JSON.
    pub fn json(&self) -> Value {
        let body = unpack(&self.body, usize::MAX).unwrap_or_default();
        serde_json::from_slice(&body).unwrap_or_default()
    }

    /// The events in its body.
    pub fn events(&self) -> Vec<Seen> {
        let body = self.json();
        let batch = body.get("batch").and_then(Value::as_array);
        batch.into_iter().flatten().map(Seen::of).collect()
    }

    /// A header as text; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }
}

/// A PostHog that takes events.
#[derive(Debug)]
pub struct FakePosthog {
    /// Its address, without a slash at the end.
    pub url: String,
    desk: Arc<Desk>,
    _server: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Desk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rules: Rules,
    script: VecDeque<Outcome>,
    standing: Option<Outcome>,
    requests: Vec<Request>,
    store: Store,
}

impl FakePosthog {
    /// A PostHog that takes everything that is right.
    pub async fn open() -> Self {
        let bound = TcpListener::bind("127.0.0.1:0").await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.unwrap_or_else(|error| panic!("listen on a free port: {error}"));
        let desk = Arc::new(Desk::default());
        let mut server = JoinSet::new();
        server.spawn(listener::serve(listener, Arc::clone(&desk)));
        Self {
            url: format!("http://{address}"),
            desk,
            _server: server,
        }
    }

    /// Changes the rules for all requests that follow.
    pub fn rule(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.desk.lock().rules);
    }

    /// The outcomes of the next requests, one each.
    pub fn script(&self, outcomes: impl IntoIterator<Item = Outcome>) {
        self.desk.lock().script.extend(outcomes);
    }

    /// The outcome of every request that follows the scripted ones; `None` ends it.
    pub fn always(&self, outcome: Option<Outcome>) {
        self.desk.lock().standing = outcome;
    }

    /// All requests, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.desk.lock().requests.clone()
    }

    /// The number of requests.
    pub fn asked(&self) -> usize {
        self.desk.lock().requests.len()
    }

    /// The stored events, after duplicates were removed.
    pub fn stored(&self) -> Vec<Stored> {
        self.desk.lock().store.rows()
    }

    /// The uuids of the stored events.
    pub fn uuids(&self) -> BTreeSet<String> {
        self.stored().into_iter().map(|row| row.seen.uuid).collect()
    }

    /// Each combination of uuid, timestamp, name and distinct id that any request has contained. An event that is always sent with
    /// the same values is in it once.
    pub fn seen(&self) -> BTreeSet<Seen> {
        self.requests().iter().flat_map(Request::events).collect()
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_outcome(&self) -> Option<Outcome> {
        let mut state = self.lock();
        let scripted = state.script.pop_front();
        scripted.or_else(|| state.standing.clone())
    }

    /// Judges a request and stores its events.
    fn judge(&self, request: &Request) -> Answer {
        let mut state = self.lock();
        let State { rules, store, .. } = &mut *state;
        match request.path.as_str() {
            V1 if rules.has_v1 => v1::take(rules, request, store),
            V0 | "/i/v0/e" | "/e" | "/capture" | "/track" | "/engage" => v0::take(rules, request, store),
            _ => Answer::new(404, ""),
        }
    }

    fn record(&self, request: Request, status: Option<u16>) {
        self.lock().requests.push(Request { status, ..request });
    }
}

impl Answer {
    /// The answer with the body that the protocol of this path gives to its status.
    fn in_form_of(self, path: &str) -> Self {
        match path {
            _ if !self.body.is_empty() => self,
            V1 => v1::with_body(self),
            _ => v0::with_body(self),
        }
    }
}

/// A body without gzip; an error is a body that is larger than `bytes_max` (`true`) or not gzip as it says (`false`).
fn unpack(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, bool> {
    if !body.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Ok(body.to_vec());
    }
    let mut unpacked = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let read = GzDecoder::new(body).take(limit).read_to_end(&mut unpacked);
    match read {
        Err(_broken) => Err(false),
        Ok(_) if unpacked.len() > bytes_max => Err(true),
        Ok(_) => Ok(unpacked),
    }
}

/// The rule that both protocols have for a key.
fn check_key(rules: &Rules, key: &str) -> Result<(), &'static str> {
    match key.trim() {
        "" => Err("empty"),
        key if key.len() > 64 => Err("too_long"),
        key if !key.is_ascii() => Err("not_ascii"),
        key if key.contains('\0') => Err("null_byte"),
        key if key.starts_with("phx_") => Err("personal_api_key"),
        key if rules.is_key_checked && key != PROJECT_API_KEY => Err("unknown"),
        _ => Ok(()),
    }
}

fn names(set: &HashSet<String>, seen: &Seen) -> bool {
    set.contains(&seen.event) || set.contains(&seen.uuid)
}
