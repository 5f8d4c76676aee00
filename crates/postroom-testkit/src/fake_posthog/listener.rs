//! Connections of the fake, each of which a request can reset.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Answer, Desk, Outcome, Request};

pub(super) async fn serve(listener: TcpListener, desk: Arc<Desk>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, Arc::clone(&desk)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, desk: Arc<Desk>) {
    drop(stream.set_zero_linger()); // a connection that is dropped is reset
    let reset = CancellationToken::new();
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (desk, reset) = (Arc::clone(&desk), reset.clone());
        async move { Ok::<_, Infallible>(take(&desk, &reset, request.map(Body::new)).await) }
    });
    let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    reset.run_until_cancelled(serving).await;
}

async fn take(desk: &Desk, reset: &CancellationToken, request: hyper::Request<Body>) -> Response {
    let outcome = desk.next_outcome();
    let is_post = request.method() == Method::POST;
    let bytes_max = match outcome {
        Some(Outcome::ResetAfterBytes(bytes)) => bytes,
        _ => usize::MAX,
    };
    let request = read(request, bytes_max).await;
    let path = request.path.clone();
    let (answer, is_reset) = match outcome {
        Some(Outcome::Answer(answer)) => (Some(answer.in_form_of(&path)), false),
        Some(Outcome::Silence) => (None, false),
        Some(Outcome::ResetAfterBytes(_)) => (None, true),
        Some(outcome @ (Outcome::StoredThenSilence | Outcome::StoredThenReset)) => {
            desk.judge(&request);
            (None, matches!(outcome, Outcome::StoredThenReset))
        }
        None if !is_post => (Some(Answer::new(200, "capture")), false),
        None => (Some(desk.judge(&request)), false),
    };
    desk.record(request, answer.as_ref().map(|answer| answer.status));
    match answer {
        Some(answer) => answer.into_response(),
        None => {
            if is_reset {
                reset.cancel();
            }
            std::future::pending().await
        }
    }
}

/// Reads a request up to about this many bytes of its body.
async fn read(request: hyper::Request<Body>, bytes_max: usize) -> Request {
    let (parts, body) = request.into_parts();
    let (mut chunks, mut bytes) = (body.into_data_stream(), Vec::new());
    while bytes.len() < bytes_max {
        match chunks.next().await {
            Some(Ok(chunk)) => bytes.extend_from_slice(&chunk),
            Some(Err(_)) | None => break,
        }
    }
    bytes.truncate(bytes_max);
    Request {
        at: Instant::now(),
        path: parts.uri.path().trim_end_matches('/').to_owned(),
        headers: parts.headers,
        body: bytes,
        status: None,
    }
}
