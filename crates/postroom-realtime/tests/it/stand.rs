//! The stand of a test: instances of a service with one hub each, over one journal and one shared state.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::{Extension, Query, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use postroom::{CancellationToken, Result, clock};
use postroom_host::{Access, Module, Platform, Routes, Serving};
use postroom_realtime::websocket::{self, Conversation, Denied};
use postroom_realtime::{Client, Connection, Frame, Hub, HubSettings, StreamKey};
use postroom_shared::registry::Limits;
use postroom_shared::{SharedState, Slot};
use postroom_testkit::event_stream::EventStream;
use postroom_testkit::wait::until;
use postroom_testkit::web_socket::WebSocket;
use postroom_testkit::{Fresh, fresh};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::faulty::{Faults, FaultyFanOut, FaultyRegistry};
use crate::memory_journal::MemoryJournal;

/// The state that the instances of a test share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) state: SharedState,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let (faults, state) = (Faults::new(), SharedState::local());
        Self {
            journal: Arc::new(MemoryJournal::new()),
            state: SharedState {
                fan_out: Arc::new(FaultyFanOut(Arc::clone(&state.fan_out), Arc::clone(&faults))),
                registry: Arc::new(FaultyRegistry(Arc::clone(&state.registry), Arc::clone(&faults))),
                ..state
            },
            faults,
        }
    }
}

/// A process with one hub and an HTTP server.
pub(crate) struct Instance {
    pub(crate) url: String,
    pub(crate) hub: Hub,
    pub(crate) shared: Shared,
    process: JoinSet<Result<()>>,
    stop: CancellationToken,
    _store: Fresh,
}

/// Short times, so that tests are fast.
pub(crate) fn settings() -> HubSettings {
    HubSettings {
        tail_check_every: Duration::from_secs(600),
        ..HubSettings::new("stand")
    }
}

pub(crate) fn limits() -> Limits {
    Limits {
        kind: "sse:notification".to_owned(),
        evictions: "sse:notification:disconnect".to_owned(),
        limit: 3,
        lease: Duration::from_secs(60),
    }
}

impl Instance {
    pub(crate) async fn start(settings: HubSettings) -> Self {
        Self::join(settings, Shared::new(), Serving::default()).await
    }

    /// One more instance on the same state.
    pub(crate) async fn join(settings: HubSettings, shared: Shared, serving: Serving) -> Self {
        let store = fresh::sqlite().await;
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", tcp.local_addr().unwrap());
        let journal = Arc::clone(&shared.journal);
        let hub = Hub::new(settings, journal, Slot::from(shared.state.clone()));
        let process = Platform::new(store.store())
            .module(module(&hub))
            .serve_with(tcp, serving);
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        let process = process.build().unwrap();
        process.migrate().await.unwrap();
        running.spawn(process.run(stop.clone()));
        Self {
            url,
            hub,
            shared,
            process: running,
            stop,
            _store: store,
        }
    }

    /// Stops it and waits for its end, as on SIGTERM.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.process.join_next().await {
            ended.unwrap().unwrap();
        }
    }

    pub(crate) fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Opens a stream; `query` begins with its member.
    pub(crate) async fn stream(&self, query: &str) -> EventStream {
        EventStream::open(&self.url, &format!("/stand/stream?member={query}"), &[]).await
    }

    /// Opens a stream and waits until it is open.
    pub(crate) async fn open(&self, query: &str) -> EventStream {
        let mut stream = self.stream(query).await;
        assert_eq!(stream.status, 200);
        assert!(stream.next().await.unwrap().retry.is_some());
        stream
    }

    /// Opens a stream and waits until it was looked at once more: from then on only live frames and repairs change it.
    pub(crate) async fn open_settled(&self, query: &str) -> EventStream {
        let looks = || self.shared.journal.looks.load(Ordering::Relaxed);
        let before = looks();
        let stream = self.open(query).await;
        until("the newest number is compared", async || looks() > before).await;
        stream
    }

    pub(crate) async fn socket(&self, query: &str) -> WebSocket {
        WebSocket::open(&self.url, &format!("/stand/ws?{query}"), &[]).await
    }

    /// Writes and publishes a frame.
    pub(crate) async fn publish(&self, stream: &str) -> Frame {
        let frame = self.shared.journal.append(stream);
        self.send(stream, &frame).await;
        frame
    }

    /// Publishes a frame that is written.
    pub(crate) async fn send(&self, stream: &str, frame: &Frame) {
        self.hub
            .publish(&[(StreamKey::from(stream), frame.clone())])
            .await
            .unwrap();
    }

    /// Waits until so many connections are open.
    pub(crate) async fn has(&self, connections: usize) {
        until(&format!("{connections} connections are open"), async || {
            self.hub.connections() == connections
        })
        .await;
    }

    /// A number on the page of metrics.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let answer = postroom_testkit::Client(self.url.clone()).get("/metrics").await;
        let page = answer.body.as_str().unwrap_or_default().to_owned();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no metric {name} in\n{page}"))
            .parse()
            .unwrap()
    }
}

fn module(hub: &Hub) -> Module {
    let (part, metrics) = (hub.clone(), hub.clone());
    let routes = Routes::new(Access::Open)
        .get("/stand/stream", stream)
        .get("/stand/ws", socket)
        .extension(hub.clone());
    Module::new("stand")
        .part("hub", move |_host, stop| part.run(stop))
        .metrics(move |registry| metrics.metrics(registry))
        .http(routes)
}

/// The query in the address of a client. A real application takes the member from the client's token.
#[derive(Debug, Deserialize)]
struct Asked {
    member: Option<String>,
    /// The stream, if not that of the member.
    stream: Option<String>,
    after: Option<String>,
    tab: Option<String>,
    ticket: Option<String>,
    /// When the token of the client expires.
    expires_in_ms: Option<u64>,
}

impl Asked {
    fn client(&self) -> Option<Client> {
        let client = Client::new(self.member.as_deref()?).tab(self.tab.as_deref());
        Some(match self.expires_in_ms {
            Some(ms) => client.until(clock::now() + Duration::from_millis(ms)),
            None => client,
        })
    }
}

async fn stream(Extension(hub): Extension<Hub>, Query(asked): Query<Asked>, headers: HeaderMap) -> Response {
    let client = match &asked.ticket {
        None => asked.client(),
        Some(ticket) => match hub.redeem(ticket).await {
            Ok(client) => client.map(|client| client.tab(asked.tab.as_deref())),
            Err(refused) => return refused.into_response(),
        },
    };
    let Some(client) = client else {
        return axum::http::StatusCode::UNAUTHORIZED.into_response();
    };
    let previous = headers
        .get("x-connection-id")
        .and_then(|id| id.to_str().ok()?.parse().ok());
    let stream = asked.stream.unwrap_or_else(|| format!("member/{}", client.member()));
    let cursor = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let cursor = cursor.map(ToOwned::to_owned).or(asked.after);
    match hub
        .open(client.previously(previous), vec![(stream.into(), cursor)])
        .await
    {
        Ok(connection) => connection.sse(),
        Err(refused) => refused.into_response(),
    }
}

async fn socket(Extension(hub): Extension<Hub>, Query(asked): Query<Asked>, upgrade: WebSocketUpgrade) -> Response {
    websocket::upgrade(&hub, upgrade, asked.client(), Arc::new(Talk)).await
}

/// Members may join any room. A token is a member, or a member and its seconds to live: `42/10`.
#[derive(Debug)]
struct Talk;

#[async_trait]
impl Conversation for Talk {
    async fn authenticate(&self, token: &str) -> Result<Client, Denied> {
        let (member, seconds) = token.split_once('/').unwrap_or((token, "3600"));
        let seconds: u64 = seconds.parse().map_err(|_error| Denied("no number".to_owned()))?;
        let is_member = member.chars().all(|letter| letter.is_ascii_digit());
        let client = Client::new(member).until(clock::now() + Duration::from_secs(seconds));
        is_member
            .then_some(client)
            .ok_or_else(|| Denied("no member".to_owned()))
    }

    async fn begin(&self, connection: &Connection) {
        connection.show(Frame::reply(
            json!({ "event": "hello", "member": connection.member() }).to_string(),
        ));
    }

    async fn receive(&self, connection: &Connection, message: &str) {
        let message: Value = serde_json::from_str(message).unwrap();
        let room = || StreamKey::from(format!("room/{}", message["roomId"]));
        let reply = match message["type"].as_str() {
            Some("join") => {
                let after = message["after"].as_u64().map(|after| after.to_string());
                connection.follow(room(), after.as_deref()).await.unwrap();
                json!({ "event": "joined" })
            }
            Some("leave") => {
                connection.unfollow(&room());
                json!({ "event": "left" })
            }
            Some("wait") => {
                tokio::time::sleep(Duration::from_millis(message["ms"].as_u64().unwrap())).await;
                json!({ "event": "waited" })
            }
            other => json!({ "event": "unknown", "type": other }),
        };
        connection.show(Frame::reply(reply.to_string()));
    }
}
