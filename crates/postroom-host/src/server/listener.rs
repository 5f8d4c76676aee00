//! Connections: accepts them up to a limit, and serves each one in a task of its own.

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use postroom::{CancellationToken, Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::certificate::Certificate;
use super::check::Checks;
use super::cors;
use super::handshake::Handshakes;
use super::limits::Limits;
use super::serving::Serving;
use super::write_limit::WriteLimit;

/// How long to wait after the system has refused a connection, most often because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The time between two log lines about the same trouble.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// A listener with its settings, and with its certificate loaded.
#[derive(Debug)]
pub(crate) struct HttpListener {
    tcp: TcpListener,
    serving: Serving,
    checks: Checks,
    certificate: Option<Certificate>,
    limits: Limits,
}

impl HttpListener {
    /// Reads the certificate, if there is one; the error names the file at fault.
    pub(crate) fn new(tcp: TcpListener, serving: Serving) -> Result<Self> {
        let address = tcp.local_addr();
        let address = address.map_err(|source| Error::caused(ErrorKind::Failed, "read the bound address", source))?;
        Ok(Self {
            tcp,
            checks: Checks::new(&serving, address),
            certificate: serving.tls.clone().map(Certificate::load).transpose()?,
            limits: Limits::of(&serving)?,
            serving,
        })
    }

    #[cfg(test)]
    fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Serves these routes until `stop`, then lets requests that have begun end.
    pub(crate) async fn run(self, routes: Router, stop: CancellationToken) {
        let routes = cors::allow(&self.serving.origins, routes);
        let certificate = self.certificate.as_ref();
        let context = ConnectionContext {
            routes: self.checks.clone().before(routes),
            checks: self.checks,
            handshakes: certificate.map(|certificate| Handshakes::new(certificate.served(), &self.limits)),
            limits: self.limits,
            stop: stop.clone(),
        };
        let watch = async {
            if let Some(certificate) = self.certificate {
                certificate.run(self.limits.certificate_every, stop).await;
            }
        };
        tokio::join!(accept(self.tcp, Arc::new(context)), watch);
    }
}

/// Everything that a connection needs.
#[derive(Debug)]
struct ConnectionContext {
    routes: Router,
    checks: Checks,
    handshakes: Option<Handshakes>,
    limits: Limits,
    stop: CancellationToken,
}

/// Accepts connections until the stop, then waits for those that are open.
async fn accept(tcp: TcpListener, context: Arc<ConnectionContext>) {
    let mut connections = JoinSet::new();
    let (mut full, mut refused) = (LogLimit::default(), LogLimit::default());
    loop {
        let has_room = connections.len() < context.limits.connections_max;
        if !has_room && full.is_due() {
            let open = connections.len();
            tracing::warn!(open, "as many connections are open as may be; further ones wait");
        }
        tokio::select! {
            () = context.stop.cancelled() => break,
            Some(_ended) = connections.join_next() => {}
            accepted = tcp.accept(), if has_room => match accepted {
                Ok((stream, peer)) => drop(connections.spawn(Arc::clone(&context).serve(stream, peer))),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    if refused.is_due() {
                        tracing::warn!(%error, "the system refuses new connections");
                    }
                    context.stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await;
                }
            }
        }
    }
    drop(tcp);
    while connections.join_next().await.is_some() {}
}

/// Errors of a connection that was gone before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};

    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

impl ConnectionContext {
    /// Serves one connection.
    async fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "small packets of a connection may wait");
        }
        let Some(handshakes) = &self.handshakes else {
            return self.http(stream, peer).await;
        };
        let handshake = handshakes.accept(stream);
        match self.stop.run_until_cancelled(handshake).await {
            Some(Ok(Some(encrypted))) => self.http(encrypted, peer).await,
            Some(Err(error)) => tracing::debug!(%peer, %error, "no TLS connection came about"),
            Some(Ok(None)) | None => {}
        }
    }

    /// Serves the requests of a connection. After the stop, it ends with the request that has begun.
    async fn http<S>(&self, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let routes = TowerToHyperService::new(self.routes.clone());
        let answer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            routes.call(request)
        });
        let stream = TokioIo::new(WriteLimit::new(stream, self.limits.write_time_max));
        let connection = self.protocol(peer).serve_connection(stream, answer);
        let mut connection = pin!(connection.with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection ended with an error");
        }
    }

    /// HTTP/1 with the limits for this client.
    fn protocol(&self, peer: SocketAddr) -> http1::Builder {
        let limits = &self.limits;
        let headers_time_max = match self.checks.is_proxy(peer.ip()) {
            true => limits.headers_time_max_proxy,
            false => limits.headers_time_max,
        };
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(headers_time_max)
            .max_header_size(limits.header_bytes_max);
        http
    }
}

/// A log line that is written at most once a minute.
#[derive(Debug, Default)]
struct LogLimit {
    last: Option<Instant>,
}

impl LogLimit {
    fn is_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= LOG_EVERY);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }
}
