//! A connection as a response body: server-sent events. It has no task and no timer of its own.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame as BodyFrame};
use postroom_host::LongLived;

use crate::Frame;
use crate::connection::{Connection, Next};
use crate::reason::spread;

/// When a client comes back whose connection breaks without a last word.
const RETRY_MS: (u32, u32) = (3_000, 6_000);
const CONNECTION_ID: HeaderName = HeaderName::from_static("x-connection-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The frames of a connection.
#[derive(Debug)]
struct Events {
    connection: Connection,
    has_begun: bool,
}

/// The response to a request for a stream.
pub(crate) fn response(connection: Connection) -> Response {
    let id = HeaderValue::try_from(connection.id().to_string());
    let events = Events {
        connection,
        has_begun: false,
    };
    let mut response = Response::new(Body::new(events));
    response.extensions_mut().insert(LongLived);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // No proxy keeps, compresses or buffers it.
    let cache = HeaderValue::from_static("no-cache, no-store, no-transform");
    headers.insert(header::CACHE_CONTROL, cache);
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    // The server speaks HTTP/1.1 only.
    headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive"));
    if let Ok(id) = id {
        headers.insert(CONNECTION_ID, id);
    }
    response
}

/// A frame that sets the id from which the client resumes, and that it does not see as an event.
pub(crate) fn cursor(id: &str) -> Frame {
    let id: String = id.chars().filter(|letter| !letter.is_control()).collect();
    Frame::control(format!("id: {id}\n\n").into(), String::new())
}

fn greeting() -> Bytes {
    let (min, max) = RETRY_MS;
    format!("retry: {}\n\n", spread(min, max, rand::random())).into()
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        let data = |bytes: Bytes| Poll::Ready(Some(Ok(BodyFrame::data(bytes))));
        if !self.has_begun {
            self.has_begun = true;
            return data(greeting());
        }
        loop {
            let frame = match ready!(self.connection.poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(Next::Frame(frame) | Next::End(_, frame)) => frame,
            };
            if !frame.sse().is_empty() {
                return data(frame.sse().clone());
            }
        }
    }
}
