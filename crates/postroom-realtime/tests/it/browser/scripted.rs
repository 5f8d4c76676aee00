//! A server that answers as a test says, and keeps what it was asked. Without instructions it resumes exactly.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use axum::extract::{Extension, Query, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom::{CancellationToken, Result};
use postroom_host::{Access, Module, Platform, Routes};
use postroom_realtime::browser_client;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// More than a test sends.
const QUEUE: usize = 4_096;

/// The server. Dropping it ends it.
pub(crate) struct Scripted {
    pub(crate) url: String,
    pub(crate) script: Arc<Script>,
    _process: JoinSet<Result<()>>,
    _store: Fresh,
}

/// The instructions of the test, and the requests of the clients.
#[derive(Debug, Default)]
pub(crate) struct Script {
    streams: Mutex<Streams>,
    answers: Mutex<VecDeque<Answer>>,
    pub(crate) asked: Mutex<Vec<Asked>>,
    sockets: Mutex<Vec<mpsc::Sender<Message>>>,
    /// The messages of sockets.
    pub(crate) said: Mutex<Vec<Value>>,
}

#[derive(Debug, Default)]
struct Streams {
    /// The events so far; the first has the number 1.
    events: u64,
    open: Vec<mpsc::Sender<Bytes>>,
}

/// An answer to the next request for a stream.
#[derive(Debug)]
pub(crate) struct Answer(pub(crate) u16, pub(crate) Vec<(&'static str, &'static str)>);

/// A request for a stream.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) token: Option<String>,
    pub(crate) last_event_id: Option<String>,
    pub(crate) tab: Option<String>,
    pub(crate) ticket: Option<String>,
    pub(crate) at: Instant,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Address {
    last_event_id: Option<String>,
    tab: Option<String>,
    ticket: Option<String>,
}

impl Scripted {
    pub(crate) async fn start() -> Self {
        let script = Arc::new(Script::default());
        let page = async || {
            (
                [(header::CONTENT_TYPE, "text/html")],
                "<!doctype html><title>page</title>",
            )
        };
        let routes = Routes::new(Access::Open)
            .get("/page", page)
            .get("/stream", stream)
            .post("/stream/ticket", ticket)
            .get("/ws", socket)
            .extension(Arc::clone(&script));
        let store = fresh::sqlite().await;
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", tcp.local_addr().unwrap());
        let module = Module::new("scripted").http(routes).http(browser_client());
        let process = Platform::new(store.store()).module(module).serve(tcp).build().unwrap();
        process.migrate().await.unwrap();
        let mut running = JoinSet::new();
        running.spawn(process.run(CancellationToken::new()));
        Self {
            url,
            script,
            _process: running,
            _store: store,
        }
    }
}

impl Script {
    /// Answers the next request so, after those that were set before.
    pub(crate) fn answer(&self, status: u16, headers: &[(&'static str, &'static str)]) {
        self.answers.lock().unwrap().push_back(Answer(status, headers.to_vec()));
    }

    /// Sends so many further events to every open stream.
    pub(crate) fn publish(&self, count: u64) {
        let mut streams = self.streams.lock().unwrap();
        for _ in 0..count {
            streams.events += 1;
            let text = event(streams.events);
            streams.open.retain(|open| open.try_send(text.clone().into()).is_ok());
        }
    }

    /// Sends this to every open stream.
    pub(crate) fn send(&self, text: &str) {
        let mut streams = self.streams.lock().unwrap();
        streams
            .open
            .retain(|open| open.try_send(text.to_owned().into()).is_ok());
    }

    /// Ends all streams without a word.
    pub(crate) fn cut(&self) {
        self.streams.lock().unwrap().open.clear();
    }

    pub(crate) fn events(&self) -> u64 {
        self.streams.lock().unwrap().events
    }

    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until so many streams are open.
    pub(crate) async fn until_open(&self, count: usize) {
        until(&format!("{count} streams are open"), async || {
            self.send(": still there?\n\n");
            self.streams.lock().unwrap().open.len() == count
        })
        .await;
    }

    /// Sends this to every open socket.
    pub(crate) fn tell(&self, message: &Value) {
        self.to_sockets(&Message::Text(message.to_string().into()));
    }

    /// Closes all sockets with this code.
    pub(crate) fn hang_up(&self, code: u16) {
        let reason = String::new().into();
        self.to_sockets(&Message::Close(Some(CloseFrame { code, reason })));
        self.sockets.lock().unwrap().clear();
    }

    fn to_sockets(&self, message: &Message) {
        let mut sockets = self.sockets.lock().unwrap();
        sockets.retain(|socket| socket.try_send(message.clone()).is_ok());
    }

    /// Waits for a message of a socket that has these fields, takes it and all before it, and answers it.
    pub(crate) async fn hear(&self, expected: Value) -> Value {
        let expected = expected.as_object().unwrap().clone();
        let mut found = Value::Null;
        until(&format!("{expected:?} is said"), || {
            let mut said = self.said.lock().unwrap();
            let is_it = |message: &Value| expected.iter().all(|(key, value)| message.get(key) == Some(value));
            let at = said.iter().position(is_it);
            if let Some(at) = at {
                found = said.drain(..=at).next_back().unwrap();
            }
            std::future::ready(at.is_some())
        })
        .await;
        found
    }
}

pub(crate) fn event(seq: u64) -> String {
    let data = json!({ "seq": seq, "unread": seq });
    format!("id: e{seq}\nevent: notification\ndata: {data}\n\n")
}

async fn stream(
    Extension(script): Extension<Arc<Script>>,
    Query(address): Query<Address>,
    headers: HeaderMap,
) -> Response {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let asked = Asked {
        token: text("authorization").map(|value| value.trim_start_matches("Bearer ").to_owned()),
        last_event_id: text("last-event-id").or(address.last_event_id),
        tab: address.tab,
        ticket: address.ticket,
        at: Instant::now(),
    };
    script.asked.lock().unwrap().push(asked.clone());
    if let Some(Answer(status, headers)) = script.answers.lock().unwrap().pop_front() {
        let mut response = StatusCode::from_u16(status).unwrap().into_response();
        for (name, value) in headers {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        return response;
    }
    let (sender, receiver) = mpsc::channel::<Bytes>(QUEUE);
    let mut streams = script.streams.lock().unwrap();
    for text in opening(&asked, streams.events) {
        sender.try_send(text.into()).unwrap();
    }
    streams.open.push(sender);
    let body = futures::stream::unfold(receiver, async |mut receiver| {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(bytes), receiver))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

/// The texts with which a stream begins.
fn opening(asked: &Asked, top: u64) -> Vec<String> {
    let mut texts = vec!["retry: 50\n\n".to_owned()];
    let known = asked.last_event_id.as_deref();
    match known.and_then(|id| id.trim_start_matches('e').parse::<u64>().ok()) {
        Some(known) => texts.extend((known + 1..=top).map(event)),
        None => {
            let data = json!({ "reason": "no_cursor", "unread": top, "top": top });
            texts.push(format!("event: reset\ndata: {data}\n\n"));
            texts.extend((top > 0).then(|| format!("id: e{top}\n\n")));
        }
    }
    texts
}

async fn ticket(Extension(script): Extension<Arc<Script>>) -> Json<Value> {
    let number = script.requests().len();
    Json(json!({ "ticket": format!("t{number}"), "expiresInSeconds": 30 }))
}

async fn socket(Extension(script): Extension<Arc<Script>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |socket| talk(&script, socket).await)
}

async fn talk(script: &Script, mut socket: WebSocket) {
    let (sender, mut outgoing) = mpsc::channel(QUEUE);
    script.sockets.lock().unwrap().push(sender);
    loop {
        tokio::select! {
            message = outgoing.recv() => {
                let Some(message) = message else { return };
                if socket.send(message).await.is_err() { return }
            }
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => script.said.lock().unwrap().push(serde_json::from_str(&text).unwrap()),
                Some(Ok(_)) => {}
                None | Some(Err(_)) => return,
            },
        }
    }
}
