//! The beginning of an encrypted connection. Clients that speak plain HTTP are told so.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::limits::Limits;
use crate::problem::Problem;

/// The first byte of every TLS connection: a record of a handshake.
const HANDSHAKE_RECORD: u8 = 22;
/// How long to wait until a client of plain HTTP has read the answer, and how much of its request to read meanwhile.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);
const CLOSE_BYTES_MAX: u64 = 64 << 10;
const RESPONSE_BYTES_MAX: usize = 4 << 10;

/// Handshakes of one listener.
#[derive(Clone, Debug)]
pub(super) struct Handshakes {
    served: watch::Receiver<Arc<ServerConfig>>,
    under_way: Arc<Semaphore>,
    time_max: Duration,
}

impl Handshakes {
    pub(super) fn new(served: watch::Receiver<Arc<ServerConfig>>, limits: &Limits) -> Self {
        Self {
            served,
            under_way: Arc::new(Semaphore::new(limits.handshakes_max)),
            time_max: limits.handshake_time_max,
        }
    }

    /// The encrypted connection; none if the client does not want one. A client that has sent nothing yet takes no place among
    /// the handshakes under way.
    pub(super) async fn accept(&self, tcp: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        let late = |_elapsed| io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long");
        timeout(self.time_max, self.begin(tcp)).await.map_err(late)?
    }

    async fn begin(&self, tcp: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        let mut first = [0];
        if tcp.peek(&mut first).await? == 0 {
            return Ok(None); // a port check: connected and gone
        }
        if first != [HANDSHAKE_RECORD] {
            refuse_plain_http(tcp).await?;
            return Ok(None);
        }
        let _place = self.under_way.acquire().await.map_err(io::Error::other)?;
        let config = Arc::clone(&self.served.borrow());
        TlsAcceptor::from(config).accept(tcp).await.map(Some)
    }
}

/// Answers before anything is read: whatever the client sends in plain text, it goes to the wrong port.
async fn refuse_plain_http(mut tcp: TcpStream) -> io::Result<()> {
    let detail = "this port speaks HTTPS; use https://";
    let problem = Problem::new(axum::http::StatusCode::BAD_REQUEST, "https_only", detail);
    let body = axum::body::to_bytes(problem.into_response().into_body(), RESPONSE_BYTES_MAX).await;
    let body = body.map_err(io::Error::other)?;
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
        body.len()
    );
    tcp.write_all(&[head.as_bytes(), &body].concat()).await?;
    tcp.shutdown().await?;
    // If it were closed with bytes unread, the system would reset the connection, and the client could lose the answer.
    let mut rest = tcp.take(CLOSE_BYTES_MAX);
    let mut nowhere = tokio::io::sink();
    match timeout(CLOSE_TIME_MAX, tokio::io::copy(&mut rest, &mut nowhere)).await {
        Ok(read) => read.map(drop),
        Err(_elapsed) => Ok(()),
    }
}
