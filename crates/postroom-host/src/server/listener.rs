//! Connections: accepts them up to a limit, and serves each one in a task of its own.

#[cfg(test)]
mod long_lived_tests;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use postroom::{CancellationToken, Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::certificate::Certificate;
use super::check::Checks;
use super::cors;
use super::half_open;
use super::handshake::Handshakes;
use super::limits::Limits;
use super::long_lived::{self, Handover, Loan, Rest};
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
    let places = Arc::new(Semaphore::new(context.limits.connections_max));
    let (mut full, mut refused) = (LogLimit::default(), LogLimit::default());
    loop {
        if places.available_permits() == 0 && full.is_due() {
            let open = context.limits.connections_max;
            tracing::warn!(open, "as many connections are open as may be; further ones wait");
        }
        tokio::select! {
            () = context.stop.cancelled() => break,
            Some(_ended) = connections.join_next() => {}
            accepted = accept_one(&tcp, &places) => match accepted {
                Ok(accepted) => drop(connections.spawn(Arc::clone(&context).serve(accepted))),
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

/// A connection with its place among the open ones. The place belongs to the connection, not to the task that serves it: a WebSocket
/// outlives that.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    place: OwnedSemaphorePermit,
}

/// The next connection, when there is a place for it.
async fn accept_one(tcp: &TcpListener, places: &Arc<Semaphore>) -> io::Result<Accepted> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = tcp.accept().await?;
    Ok(Accepted { stream, peer, place })
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
    /// Serves one connection. The task of an idle one is small: each stage that needs much memory has a box of its own.
    async fn serve(self: Arc<Self>, Accepted { stream, peer, place }: Accepted) {
        if let Err(error) = half_open::limit(&stream) {
            tracing::debug!(%peer, %error, "the system's own times hold for a connection whose other end has vanished");
        }
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "small packets of a connection may wait");
        }
        let Some(handshakes) = &self.handshakes else {
            return self.http(stream, (peer, place)).await;
        };
        let handshake = Box::pin(handshakes.accept(stream));
        match self.stop.run_until_cancelled(handshake).await {
            Some(Ok(Some(encrypted))) => Box::pin(self.http(encrypted, (peer, place))).await,
            Some(Err(error)) => tracing::debug!(%peer, %error, "no TLS connection came about"),
            Some(Ok(None)) | None => {}
        }
    }

    /// Serves the requests of a connection, and then a response that lasts long.
    async fn http<S>(&self, stream: S, (peer, place): (SocketAddr, OwnedSemaphorePermit))
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = WriteLimit::new(stream, self.limits.write_time_max).with_place(place);
        let Some((stream, body)) = Box::pin(self.requests(stream, peer)).await else {
            return;
        };
        if let Err(error) = Rest::new(stream, body).await {
            tracing::debug!(%peer, %error, "a long response ended with an error");
        }
    }

    /// Serves the requests of a connection. After the stop, it ends with the request that has begun. Answers a response that lasts
    /// long, when its head is written.
    async fn requests<S>(&self, stream: WriteLimit<S>, peer: SocketAddr) -> Option<(WriteLimit<S>, Body)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handover = Handover::new();
        let routes = TowerToHyperService::new(self.routes.clone());
        let of = Arc::clone(&handover);
        let answer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            let of = long_lived::is_possible(&request).then(|| Arc::clone(&of));
            let response = routes.call(request);
            async move {
                let response = response.await?;
                Ok::<_, Infallible>(match of {
                    Some(handover) => handover.of(response),
                    None => response,
                })
            }
        });
        let stream = TokioIo::new(Loan::new(stream, Arc::clone(&handover)));
        let connection = self.protocol(peer).serve_connection(stream, answer);
        let mut connection = Box::pin(connection.with_upgrades());
        let ended = tokio::select! {
            ended = until_due(connection.as_mut(), &handover) => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                until_due(connection.as_mut(), &handover).await
            }
        };
        match ended {
            None => {
                drop(connection);
                return handover.take();
            }
            Some(Err(error)) => tracing::debug!(%peer, %error, "a connection ended with an error"),
            Some(Ok(())) => {}
        }
        None
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

/// Polls a connection until it ends, or until a response that lasts long can be taken over (`None`).
async fn until_due<C: Future, S>(mut connection: Pin<&mut C>, handover: &Handover<S>) -> Option<C::Output> {
    poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if handover.is_due() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
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
