//! A pool that is closed while it replaces a connection. The server is a fake one, which falls silent.

#![expect(clippy::unwrap_used, reason = "a test harness: what fails here fails the test")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use postroom_mysql::Mysql;

/// Protocol 10, version 8, thread 1, eight bytes of a challenge; then capabilities (4.1, database, plugins), character set, status,
/// the length of the challenge, ten zeros, the rest of the challenge, the name of the plugin.
const GREETING: &[u8] = b"\x0a8.0.0\0\x01\0\0\0abcdefgh\0\x08\x82\x2d\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const COM_QUIT: u8 = 1;

struct Server {
    address: SocketAddr,
    /// Answers no statement and turns clients away.
    is_away: AtomicBool,
    turned_away: AtomicUsize,
}

impl Server {
    fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            is_away: AtomicBool::new(false),
            turned_away: AtomicUsize::new(0),
        });
        let host = Arc::clone(&server);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, host) = (client.unwrap(), Arc::clone(&host));
                thread::spawn(move || host.serve(client));
            }
        });
        server
    }

    /// Until the client leaves.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        if self.is_away.load(Ordering::SeqCst) {
            self.turned_away.fetch_add(1, Ordering::SeqCst);
            return client.shutdown(Shutdown::Both);
        }
        send(&mut client, 0, GREETING)?;
        receive(&mut client)?;
        send(&mut client, 2, OK)?;
        while receive(&mut client)?.first() != Some(&COM_QUIT) {
            if !self.is_away.load(Ordering::SeqCst) {
                send(&mut client, 1, OK)?;
            }
        }
        Ok(())
    }
}

fn send(client: &mut TcpStream, sequence: u8, payload: &[u8]) -> io::Result<()> {
    let length = u8::try_from(payload.len()).map_err(io::Error::other)?;
    client.write_all(&[length, 0, 0, sequence])?;
    client.write_all(payload)
}

fn receive(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    client.read_exact(&mut header)?;
    let [low, middle, high, _] = header;
    let mut payload = vec![0; u32::from_le_bytes([low, middle, high, 0]) as usize];
    client.read_exact(&mut payload)?;
    Ok(payload)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_closed_reconnects_no_more() {
    let server = Server::start();
    let url = format!("mysql://postroom@{}/app?ssl-mode=disabled", server.address);
    let store = Mysql::connect(&url).await.unwrap();
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
