//! The HTTP server: health, metrics, alerts, a front page and the routes of every module, behind one set of limits.
//!
//! `listener` accepts connections and serves them, `handshake` and `certificate` encrypt them, `check` refuses requests for other
//! hosts and of foreign web pages, `cors` lets listed pages in, `client_address` finds the client behind proxies.

mod certificate;
mod check;
mod client_address;
mod cors;
mod half_open;
mod handshake;
mod limits;
mod listener;
mod long_lived;
mod name;
mod network;
mod path;
mod serving;
mod write_limit;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use futures::FutureExt;
use postroom::Result;
use postroom_monitor::Metrics;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::access::guard::Guard;
use crate::access::{self, Access, Caller, Doors};
use crate::alert::Alerts;
use crate::catalog::Catalogue;
use crate::declared::Declared;
use crate::events;
use crate::front::{self, Mounted};
use crate::health;
use crate::host::Host;
use crate::module::Module;
use crate::platform::OWN;
use crate::problem::Problem;
use crate::routes::{Operation, Routes};

pub use client_address::ClientAddress;
pub(crate) use client_address::is_forwarded;
pub(crate) use listener::HttpListener;
pub use long_lived::LongLived;
pub use name::{HostName, Origin};
pub use network::Network;
pub use serving::{Hosts, Serving, TlsFiles};

/// The largest request body: an event's payload at its limit, escaped once, fits.
const BODY_BYTES_MAX: usize = 2 << 20;
/// How long a request may take until its response begins, reading its body included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Hosts modules over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    host: Host,
    doors: Doors,
    /// The routes of modules, by the module's name, and those of the server.
    routes: Vec<(&'static str, Routes)>,
    mounted: Vec<Mounted>,
    asyncapi: serde_json::Value,
}

impl Server {
    /// A server without modules.
    pub(crate) fn new(host: Host, doors: Doors) -> Self {
        Self {
            host,
            doors,
            routes: Vec::new(),
            mounted: Vec::new(),
            asyncapi: Catalogue::default().asyncapi(),
        }
    }

    /// Shows this catalogue at `/asyncapi.json`.
    #[must_use]
    pub(crate) fn catalogue(mut self, catalogue: &Catalogue) -> Self {
        self.asyncapi = catalogue.asyncapi();
        self
    }

    /// Adds a module's HTTP routes.
    #[must_use]
    pub(crate) fn mount(mut self, module: Module) -> Self {
        self.routes
            .extend(module.http.into_iter().map(|routes| (module.name, routes)));
        self.mounted.push(Mounted {
            name: module.name,
            events: module.events,
            screen: module.screen,
        });
        self
    }

    /// Serves these metrics at `/metrics`.
    #[must_use]
    pub(crate) fn metrics(mut self, metrics: Metrics) -> Self {
        let page = async move || {
            let text = metrics.text().map_err(Problem::from)?;
            Ok::<_, Problem>(([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], text))
        };
        let routes = Routes::new(self.doors.metrics_access()).get("/metrics", page);
        self.routes.push((OWN, routes));
        self
    }

    /// Shows these alerts at `/alerts`.
    #[must_use]
    pub(crate) fn alerts(mut self, alerts: Alerts) -> Self {
        let page = async move || alerts.page().await;
        self.routes
            .push((OWN, Routes::new(Access::Viewer).get("/alerts", page)));
        self
    }

    /// Serves until `stop`, then lets requests that have begun end. How long to wait for them is the caller's decision.
    pub(crate) async fn run(self, listener: HttpListener, stop: CancellationToken) -> Result<()> {
        listener.run(self.router(), stop).await;
        Ok(())
    }

    /// Every route, with the module that has it.
    pub(crate) fn operations(&self) -> Vec<(&'static str, Operation)> {
        let own = self.own_routes().map(|routes| (OWN, routes));
        let all = own.iter().chain(&self.routes);
        let of = |(module, routes): &(&'static str, Routes)| {
            let module = *module;
            let operations = routes.operations().to_vec().into_iter();
            operations.map(move |operation| (module, operation))
        };
        all.flat_map(of).collect()
    }

    /// Everything it serves.
    pub(crate) fn router(self) -> Router {
        let known = self.host.authenticator.as_ref().map(Arc::clone);
        let authenticator = known.unwrap_or_else(|| Arc::new(self.doors.authenticator(&*self.host.store)));
        let guarded = |(module, routes): (&'static str, Routes)| {
            let guard = Guard {
                authenticator: Arc::clone(&authenticator),
                access: routes.access(),
                module,
            };
            routes
                .router
                .route_layer(middleware::from_fn_with_state(guard, access::guard::admit))
        };
        let own = self.own_routes().map(|routes| (OWN, routes));
        self.routes
            .into_iter()
            .chain(own)
            .filter(|(_, routes)| !routes.operations().is_empty())
            .map(guarded)
            .fold(Router::new(), Router::merge)
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(middleware::from_fn(limit))
            .with_state(self.host)
    }

    /// The routes that every process has.
    fn own_routes(&self) -> [Routes; 3] {
        let declared = Arc::new(Declared::of(&self.mounted, &self.host.upcasts));
        let record = async move |State(host): State<Host>, caller: Caller, headers: HeaderMap, body: Bytes| {
            events::post(&host, (&declared, &caller), &headers, &body).await
        };
        let modules: Arc<[Mounted]> = self.mounted.clone().into();
        let front = async move |State(host): State<Host>, headers: HeaderMap| front::page(&host, &headers, &modules);
        let asyncapi = Arc::new(self.asyncapi.clone());
        [
            Routes::new(Access::Open)
                .get("/health/live", health::live)
                .get("/health/ready", health::ready),
            Routes::new(Access::Viewer)
                .get("/", front)
                .get("/asyncapi.json", async move || Json(&*asyncapi).into_response()),
            Routes::new(Access::Service).post("/api/v1/events", record),
        ]
    }
}

async fn not_found() -> Problem {
    Problem::not_found("there is nothing at this address")
}

async fn method_not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method",
        "this address does not take this method",
    )
}

/// A handler that hangs or panics costs its own request and nothing else.
async fn limit(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("request", otel.kind = "server", %method, path);
    let traceparent = request
        .headers()
        .get(postroom::TRACEPARENT)
        .and_then(|value| value.to_str().ok());
    if let Some(traceparent) = traceparent {
        postroom::adopt_trace(&span, traceparent);
    }
    if !path::is_text(request.uri().path()) {
        let detail = "the path of the address is not UTF-8; write each character as the escapes of its UTF-8 bytes";
        let problem = Problem::new(StatusCode::BAD_REQUEST, "malformed", detail);
        return with_safe_headers(problem.into_response());
    }
    let call = AssertUnwindSafe(next.run(request).instrument(span)).catch_unwind();
    let response = match tokio::time::timeout(REQUEST_TIME_MAX, call).await {
        Ok(Ok(response)) => response,
        Ok(Err(_panic)) => {
            tracing::error!(%method, path, "a request handler panicked");
            Problem::failed().into_response()
        }
        Err(_elapsed) => {
            tracing::warn!(%method, path, "request took too long");
            let detail = format!("the request took longer than {} s", REQUEST_TIME_MAX.as_secs());
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", detail).into_response()
        }
    };
    with_safe_headers(response)
}

/// A response that browsers take for what it says, and that nobody keeps unless it says so.
fn with_safe_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn panics() -> StatusCode {
        panic!("a bug")
    }

    #[tokio::test]
    async fn a_handler_that_panics_costs_its_own_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(panics)).layer(middleware::from_fn(limit));
        let talk = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answers = String::new();
            stream.read_to_string(&mut answers).await.unwrap();
            answers
        };
        let answers = tokio::select! {
            ended = axum::serve(listener, router) => panic!("the server ended: {ended:?}"),
            answers = talk => answers,
        };
        assert_eq!(answers.matches("500 Internal Server Error").count(), 2, "{answers}");
        assert_eq!(answers.matches("application/problem+json").count(), 2, "{answers}");
        assert!(!answers.contains("a bug"), "{answers}");
    }
}
