//! One address for several instances: each connection goes to the next instance that answers, as behind a balancer of TCP.

#![expect(clippy::unwrap_used, reason = "a test harness: a panic fails the test")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The address of all instances.
pub(super) struct Front {
    pub(super) url: String,
    instances: Arc<Mutex<Vec<SocketAddr>>>,
    _end: JoinSet<()>,
}

impl Front {
    /// In front of the instances with these addresses.
    pub(super) async fn of(urls: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let instances = Arc::new(Mutex::new(urls.iter().map(|url| address(url)).collect()));
        let mut end = JoinSet::new();
        end.spawn(forward(listener, Arc::clone(&instances)));
        Self {
            url,
            instances,
            _end: end,
        }
    }

    /// An instance listens somewhere else from now on.
    pub(super) fn moved(&self, at: usize, url: &str) {
        let mut instances = self.instances.lock().unwrap();
        *instances.get_mut(at).unwrap() = address(url);
    }
}

/// The address of a server, from its URL.
pub(super) fn address(url: &str) -> SocketAddr {
    let (_, rest) = url.split_once("://").unwrap();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    rest.split('/').next().unwrap().parse().unwrap()
}

async fn forward(listener: TcpListener, instances: Arc<Mutex<Vec<SocketAddr>>>) {
    let (mut connections, mut turn) = (JoinSet::new(), 0);
    loop {
        let (client, _) = listener.accept().await.unwrap();
        while connections.try_join_next().is_some() {}
        let mut targets = instances.lock().unwrap().clone();
        targets.rotate_left(turn % 2);
        turn += 1;
        connections.spawn(carry(client, targets));
    }
}

/// To the first instance that answers. A client whom none answers is cut off.
async fn carry(mut client: TcpStream, instances: Vec<SocketAddr>) {
    for instance in instances {
        if let Ok(mut server) = TcpStream::connect(instance).await {
            // An error is the end of an instance that was killed.
            drop(copy_bidirectional(&mut client, &mut server).await);
            return;
        }
    }
}
