//! The server of the bench: a platform with one hub and one stream.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Extension, Query};
use axum::response::{IntoResponse as _, Response};
use postroom::CancellationToken;
use postroom_host::{Access, Doors, Module, Platform, Routes, Serving};
use postroom_realtime::websocket::{self, Conversation, Denied};
use postroom_realtime::{Client, Connection, Hub, HubSettings, StreamKey};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::journal::MemoryJournal;
use crate::site::Site;

/// Besides those of the clients.
const OTHER_CONNECTIONS: u32 = 100;

/// A running server.
pub(super) struct StreamServer {
    pub(super) address: SocketAddr,
    hub: Hub,
    journal: Arc<MemoryJournal>,
    stop: CancellationToken,
    running: JoinSet<postroom::Result<()>>,
}

impl StreamServer {
    pub(super) async fn start(site: &Site, connections: u32) -> Result<Self> {
        let journal = Arc::new(MemoryJournal::default());
        let module = Module::new("bench");
        let hub = Hub::new(HubSettings::new("bench"), Arc::clone(&journal) as _, module.shared());
        let routes = Routes::new(Access::Open)
            .get("/bench/sse", sse)
            .get("/bench/chat", chat)
            .extension(hub.clone());
        let part = hub.clone();
        let module = module
            .http(routes)
            .part("hub", move |_host, stop| async move { part.run(stop).await });
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listen on a free port")?;
        let address = listener.local_addr().context("read the bound address")?;
        let serving = Serving {
            connections_max: usize::try_from(connections + OTHER_CONNECTIONS)
                .ok()
                .and_then(NonZeroUsize::new),
            ..Serving::default()
        };
        let platform = Platform::new(Arc::clone(&site.store))
            .module(module)
            .doors(Doors::unlocked())
            .serve_with(listener, serving);
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        running.spawn(platform.build()?.run(stop.clone()));
        Ok(Self {
            address,
            hub,
            journal,
            stop,
            running,
        })
    }

    /// Publishes the next frame.
    pub(super) async fn publish(&self, is_paced: bool) -> Result<()> {
        let frame = self.journal.append(is_paced)?;
        Ok(self.hub.publish(&[(stream(), frame)]).await?)
    }

    /// How many frames were published.
    pub(super) fn frames(&self) -> u64 {
        self.journal.top()
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.context("run the server")??;
        }
        Ok(())
    }
}

fn stream() -> StreamKey {
    StreamKey::from("bench")
}

#[derive(Deserialize)]
struct Named {
    member: String,
}

async fn sse(Extension(hub): Extension<Hub>, Query(named): Query<Named>) -> Response {
    match hub.open(Client::new(named.member), vec![(stream(), None)]).await {
        Ok(connection) => connection.sse(),
        Err(refused) => refused.into_response(),
    }
}

async fn chat(Extension(hub): Extension<Hub>, Query(named): Query<Named>, upgrade: WebSocketUpgrade) -> Response {
    let client = Client::new(named.member);
    websocket::upgrade(&hub, upgrade, Some(client), Arc::new(Listening)).await
}

/// Clients that listen to the stream and say nothing.
#[derive(Debug)]
struct Listening;

#[async_trait]
impl Conversation for Listening {
    async fn authenticate(&self, _token: &str) -> Result<Client, Denied> {
        Err(Denied("clients of the bench have no token".to_owned()))
    }

    async fn begin(&self, connection: &Connection) {
        if let Err(error) = connection.follow(stream(), None).await {
            tracing::warn!(error = error.report(), "a client of the bench follows nothing");
        }
    }

    async fn receive(&self, _connection: &Connection, _message: &str) {}
}
