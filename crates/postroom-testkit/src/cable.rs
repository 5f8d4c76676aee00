//! A cable to a server, which can be cut: whoever is connected then hears nothing more and is not told so, as when a machine
//! vanishes. Who connects anew reaches the server.

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
    cuts: watch::Sender<u32>,
    _end: JoinSet<()>,
}

impl Cable {
    /// A cable to the server at this address.
    pub async fn to(server: &str) -> Self {
        let listening = TcpListener::bind("127.0.0.1:0").await;
        let listener = listening.unwrap_or_else(|error| panic!("lay a cable: {error}"));
        let address = listener.local_addr();
        let address = address.unwrap_or_else(|error| panic!("lay a cable: {error}"));
        let cuts = watch::Sender::new(0);
        let mut end = JoinSet::new();
        end.spawn(forward(listener, server.to_owned(), cuts.clone()));
        Self {
            address,
            cuts,
            _end: end,
        }
    }

    /// Cuts off everybody who is connected.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn forward(listener: TcpListener, server: String, cuts: watch::Sender<u32>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, mut cut) = (server.clone(), cuts.subscribe());
        connections.spawn(async move {
            let Ok(mut server) = TcpStream::connect(server).await else {
                return;
            };
            let mut client = client;
            tokio::select! {
                _ended = copy_bidirectional(&mut client, &mut server) => {}
                _cut = cut.changed() => std::future::pending().await, // both ends stay open
            }
        });
    }
}
