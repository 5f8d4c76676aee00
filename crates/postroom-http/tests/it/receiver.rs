//! An independent receiver of CloudEvents over HTTP.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::routing::post;
use postroom::{Destination, Envelope, Event, Mode};
use postroom_http::{Secret, Webhook};
use postroom_testkit::destination_suite::Site;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Received requests: headers and body.
pub(crate) type Requests = Arc<Mutex<Vec<(HeaderMap, Vec<u8>)>>>;

/// A receiver and the webhook that posts to it.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) requests: Requests,
    pub(crate) webhook: Webhook,
    pub(crate) address: SocketAddr,
    server: JoinSet<()>,
}

impl Receiver {
    pub(crate) async fn open(mode: Mode, secrets: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let secrets: Vec<Secret> = secrets.iter().map(|secret| secret.parse().unwrap()).collect();
        let url = format!("http://{address}/hook");
        let mut receiver = Self {
            requests: Requests::default(),
            webhook: Webhook::new(&url, mode, secrets, Duration::from_secs(5)).unwrap(),
            address,
            server: JoinSet::new(),
        };
        receiver.serve(listener);
        receiver
    }

    fn serve(&mut self, listener: TcpListener) {
        let router = Router::new()
            .route("/hook", post(take))
            .route("/echo", post(echo))
            .with_state(Arc::clone(&self.requests));
        self.server
            .spawn(async move { axum::serve(listener, router).await.unwrap() });
    }
}

/// Returns 404 with the requested address in the body.
async fn echo(uri: Uri) -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, format!("nothing at {uri}"))
}

/// Returns 503 for an event type that contains `down`, 429 with a wait for `busy`, and 422 for `refused`.
async fn take(
    State(requests): State<Requests>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, HeaderMap, &'static str) {
    let event = Envelope::from_structured(&body).and_then(Envelope::into_event);
    let status = match event.map(|event| event.event_type) {
        Ok(kind) if kind.contains("refused") => (StatusCode::UNPROCESSABLE_ENTITY, "no such thing"),
        Ok(kind) if kind.contains("busy") => (StatusCode::TOO_MANY_REQUESTS, "slowly"),
        Ok(kind) if kind.contains("down") => (StatusCode::SERVICE_UNAVAILABLE, "later"),
        _ => (StatusCode::NO_CONTENT, ""),
    };
    if status.0.is_success() {
        requests.lock().unwrap().push((headers, body.to_vec()));
    }
    let wait = (status.0 == StatusCode::TOO_MANY_REQUESTS).then(|| (RETRY_AFTER, HeaderValue::from_static("120")));
    (status.0, wait.into_iter().collect(), status.1)
}

#[async_trait]
impl Site for Receiver {
    fn destination(&self) -> Arc<dyn Destination> {
        Arc::new(self.webhook.clone())
    }

    fn refused(&self, key: &str) -> Event {
        let payload = serde_json::value::RawValue::NULL.to_owned();
        Event::new("suite.refused.v1", "suite", key, payload).unwrap()
    }

    async fn arrived(&mut self, _count: usize) -> Vec<Event> {
        let requests = self.requests.lock().unwrap();
        let read = |(_, body): &(HeaderMap, Vec<u8>)| Envelope::from_structured(body).unwrap().into_event().unwrap();
        requests.iter().map(read).collect()
    }

    async fn stop(&mut self) {
        self.server.shutdown().await;
    }

    async fn start(&mut self) {
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_busy) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        self.serve(listener);
    }
}
