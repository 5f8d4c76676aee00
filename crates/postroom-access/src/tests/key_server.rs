//! A key server that can be slow, wrong or away.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::signer::Signer;
use crate::MemberKeys;
use crate::jwks::{Jwks, Pace};

/// The server's answer to a request for its keys.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Keys(Vec<Value>),
    KeysAfter(Duration, Vec<Value>),
    Text(String),
    /// A set with this key, and another status than 200.
    Status(StatusCode, Value),
    /// To a set with this key.
    Redirect(Value),
    Never,
}

impl Answer {
    /// A set with this key.
    pub(crate) fn key(name: &str, signer: &Signer) -> Self {
        Self::Keys(vec![signer.jwk(name)])
    }
}

type Answers = Arc<(Mutex<Answer>, AtomicUsize)>;

pub(crate) struct KeyServer {
    address: SocketAddr,
    answers: Answers,
    server: JoinSet<()>,
}

impl KeyServer {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Answers::new((Mutex::new(answer), AtomicUsize::new(0)));
        let router = Router::new()
            .route("/keys", get(keys))
            .route("/moved", get(moved))
            .with_state(Arc::clone(&answers));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            answers,
            server,
        }
    }

    /// Keys from this server.
    pub(crate) fn member_keys(&self, pace: Pace) -> MemberKeys {
        MemberKeys::with_jwks(Jwks::paced(&format!("http://{}/keys", self.address), pace).unwrap())
    }

    pub(crate) fn set(&self, answer: Answer) {
        *self.answers.0.lock().unwrap() = answer;
    }

    pub(crate) fn requests(&self) -> usize {
        self.answers.1.load(Ordering::SeqCst)
    }

    pub(crate) async fn stop(&mut self) {
        self.server.shutdown().await;
    }
}

async fn keys(State(answers): State<Answers>) -> Response {
    answers.1.fetch_add(1, Ordering::SeqCst);
    let answer = answers.0.lock().unwrap().clone();
    let mut response = respond(answer).await;
    // A connection that stays open would outlive a stop of the server.
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn respond(answer: Answer) -> Response {
    match answer {
        Answer::Keys(keys) => json!({ "keys": keys }).to_string().into_response(),
        Answer::KeysAfter(delay, keys) => {
            tokio::time::sleep(delay).await;
            json!({ "keys": keys }).to_string().into_response()
        }
        Answer::Text(text) => text.into_response(),
        Answer::Status(status, key) => (status, json!({ "keys": [key] }).to_string()).into_response(),
        Answer::Redirect(_) => (StatusCode::FOUND, [(header::LOCATION, "/moved")]).into_response(),
        Answer::Never => std::future::pending().await,
    }
}

async fn moved(State(answers): State<Answers>) -> Response {
    match answers.0.lock().unwrap().clone() {
        Answer::Redirect(key) => json!({ "keys": [key] }).to_string().into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}
