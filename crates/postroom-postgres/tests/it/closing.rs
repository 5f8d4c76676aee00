//! A pool that is closed while it replaces a connection. The server is a fake one: it lets clients in and answers no statement.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use postroom_postgres::Postgres;

/// `AuthenticationOk` and `ReadyForQuery`.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

struct Mute {
    address: SocketAddr,
    /// Turns clients away.
    is_away: AtomicBool,
    turned_away: AtomicUsize,
}

impl Mute {
    fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mute = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            is_away: AtomicBool::new(false),
            turned_away: AtomicUsize::new(0),
        });
        let server = Arc::clone(&mute);
        thread::spawn(move || server.serve(&listener));
        mute
    }

    fn serve(&self, listener: &TcpListener) {
        let mut guests: Vec<TcpStream> = Vec::new();
        for client in listener.incoming() {
            let mut client = client.unwrap();
            if self.is_away.load(Ordering::SeqCst) {
                client.shutdown(Shutdown::Both).ok();
                self.turned_away.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            let mut length = [0; 4];
            client.read_exact(&mut length).unwrap();
            let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
            client.read_exact(&mut startup).unwrap();
            client.write_all(WELCOME).unwrap();
            guests.push(client);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_closed_reconnects_no_more() {
    let server = Mute::start();
    let url = format!("postgres://postgres@{}/app?sslmode=disable", server.address);
    let store = Postgres::connect(&url).await.unwrap();
    let returned = store.pool().acquire().await.unwrap();
    server.is_away.store(true, Ordering::SeqCst);
    drop(returned);
    let is_replaced = async {
        while server.turned_away.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let replaced = tokio::time::timeout(Duration::from_secs(20), is_replaced).await;
    assert!(replaced.is_ok(), "the connection that does not answer is not replaced");
    let closed = tokio::time::timeout(Duration::from_secs(5), store.pool().close()).await;
    assert!(
        closed.is_ok(),
        "the pool still replaces its connection 5 s after it was closed"
    );
}
