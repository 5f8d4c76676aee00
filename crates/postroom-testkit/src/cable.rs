//! A cable to a server, which can be cut: the connections of that moment carry nothing more and are not closed, as when a machine
//! vanishes. New connections reach the server, unless the cable is silent.

#![expect(clippy::panic, reason = "a test harness: a test without its cable has failed")]

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A cable.
#[derive(Debug)]
pub struct Cable {
    /// Where it begins.
    pub address: SocketAddr,
    state: watch::Sender<State>,
    _end: JoinSet<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    cuts: u32,
    /// New connections are accepted and carry nothing, now and later.
    is_silent: bool,
}

impl Cable {
    /// A cable to the server at this address.
    pub async fn to(server: &str) -> Self {
        let listening = TcpListener::bind("127.0.0.1:0").await;
        let listener = listening.unwrap_or_else(|error| panic!("lay a cable: {error}"));
        let address = listener.local_addr();
        let address = address.unwrap_or_else(|error| panic!("lay a cable: {error}"));
        let state = watch::Sender::new(State::default());
        let mut end = JoinSet::new();
        end.spawn(forward(listener, server.to_owned(), state.clone()));
        Self {
            address,
            state,
            _end: end,
        }
    }

    /// Cuts off every connection.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Cuts off every connection, and those that are made before [`Cable::mend`].
    pub fn silence(&self) {
        self.state.send_modify(|state| {
            state.cuts += 1;
            state.is_silent = true;
        });
    }

    /// New connections reach the server again.
    pub fn mend(&self) {
        self.state.send_modify(|state| state.is_silent = false);
    }
}

async fn forward(listener: TcpListener, server: String, state: watch::Sender<State>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, mut state) = (server.clone(), state.subscribe());
        connections.spawn(async move {
            let State { cuts, is_silent } = *state.borrow_and_update();
            let mut client = client;
            if is_silent {
                return std::future::pending().await;
            }
            let Ok(mut server) = TcpStream::connect(server).await else {
                return;
            };
            let is_cut = async { state.wait_for(|now| now.cuts != cuts).await.map(drop) };
            tokio::select! {
                _ended = copy_bidirectional(&mut client, &mut server) => {}
                _cut = is_cut => std::future::pending().await, // both ends stay open
            }
        });
    }
}
