//! Responses that last long and are idle most of the time, such as streams of events.
//!
//! HTTP has buffers of 16 KiB for each connection, for requests that may still come. A long response needs none of them: when its head is
//! written, the server takes the connection back from the HTTP library, writes the body by itself, and closes the connection after it.

use std::convert::Infallible;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::{Request, Response, Version};
use hyper::body::{Body as HttpBody, Frame};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Marks a response as long-lived: put it into the extensions of the response.
///
/// It is for bodies without an end in sight, over HTTP/1.1. The connection ends with the body, and other requests that a client sends
/// on it before are not answered.
#[derive(Clone, Copy, Debug)]
pub struct LongLived;

/// At most so many bytes are gathered before they are written.
const GATHERED_BYTES: usize = 64 << 10;
/// The length of a chunk in hexadecimal digits, and the end of its line.
const CHUNK_HEAD: usize = 10;
/// Bytes in one read of data that a client sends during a response. The data is ignored.
const READ_BYTES: usize = 256;

/// A connection between the HTTP library and the server.
#[derive(Debug)]
pub(super) struct Handover<S> {
    /// The connection, when the library has dropped it.
    stream: Mutex<Option<S>>,
    /// The body, when the head before it was handed to the library's buffer.
    body: Mutex<Option<Body>>,
    /// Whether the library waits until it can write.
    is_write_blocked: AtomicBool,
}

impl<S> Handover<S> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            stream: Mutex::new(None),
            body: Mutex::new(None),
            is_write_blocked: AtomicBool::new(false),
        })
    }

    /// The response for the library: if it is long-lived, with a body that waits for the server to take over.
    pub(super) fn of(self: &Arc<Self>, response: Response<Body>) -> Response<Body>
    where
        S: Send + 'static,
    {
        match response.extensions().get::<LongLived>() {
            None => response,
            Some(LongLived) => response.map(|body| {
                Body::new(Waiting {
                    body: Some(body),
                    handover: Arc::clone(self),
                })
            }),
        }
    }

    /// Whether the head of a long-lived response is written. Ask after each poll of the library: it writes until its buffer is empty,
    /// or until it is blocked.
    pub(super) fn is_due(&self) -> bool {
        !self.is_write_blocked.load(Ordering::Relaxed) && lock(&self.body).is_some()
    }

    /// The connection and the body; drop the library's connection before.
    pub(super) fn take(&self) -> Option<(S, Body)> {
        let stream = lock(&self.stream).take()?;
        Some((stream, lock(&self.body).take()?))
    }
}

/// Whether the response to a request may be long-lived: its body comes in chunks.
pub(super) fn is_possible<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_11
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A body that is asked for when the head before it is in the library's buffer, and from then on belongs to the server.
struct Waiting<S> {
    body: Option<Body>,
    handover: Arc<Handover<S>>,
}

impl<S> HttpBody for Waiting<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(body) = self.body.take() {
            *lock(&self.handover.body) = Some(body);
        }
        Poll::Pending
    }
}

/// A connection that the library has on loan: it comes back when the library drops it.
#[derive(Debug)]
pub(super) struct Loan<S> {
    stream: Option<S>,
    handover: Arc<Handover<S>>,
}

impl<S> Loan<S> {
    pub(super) fn new(stream: S, handover: Arc<Handover<S>>) -> Self {
        Self {
            stream: Some(stream),
            handover,
        }
    }

    /// Notes down whether a write has to wait.
    fn note<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let is_blocked = written.is_pending();
        self.handover.is_write_blocked.store(is_blocked, Ordering::Relaxed);
        written
    }
}

impl<S> Drop for Loan<S> {
    fn drop(&mut self) {
        *lock(&self.handover.stream) = self.stream.take();
    }
}

/// The stream is there until the drop.
fn gone<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

impl<S: AsyncRead + Unpin> AsyncRead for Loan<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_read(cx, buffer),
            None => gone(),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Loan<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else { return gone() };
        let written = Pin::new(stream).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else { return gone() };
        let written = Pin::new(stream).poll_write_vectored(cx, parts);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else { return gone() };
        let flushed = Pin::new(stream).poll_flush(cx);
        self.note(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_shutdown(cx),
            None => gone(),
        }
    }
}

/// Writes a body in chunks, and then closes the connection. Without something to write, it has no buffer.
#[derive(Debug)]
pub(super) struct Rest<S> {
    stream: S,
    body: Body,
    /// Chunks that are not written yet, from `written` on.
    chunks: Vec<u8>,
    written: usize,
    has_ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Rest<S> {
    pub(super) fn new(stream: S, body: Body) -> Self {
        Self {
            stream,
            body,
            chunks: Vec::new(),
            written: 0,
            has_ended: false,
        }
    }

    /// Writes the gathered chunks. Afterwards the buffer is gone.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(left @ [_, ..]) = self.chunks.get(self.written..) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        if !self.chunks.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.chunks = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Gathers the data that the body has now into one chunk.
    fn gather(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut gathered = Vec::new();
        while gathered.len() < GATHERED_BYTES && !self.has_ended {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => self.has_ended = true,
                Poll::Ready(Some(Err(error))) => return Err(io::Error::other(error)),
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers have no place here.
                    if let Ok(data) = frame.into_data() {
                        if gathered.is_empty() {
                            gathered.reserve(CHUNK_HEAD + data.len() + 7);
                            gathered.resize(CHUNK_HEAD, 0);
                        }
                        gathered.extend_from_slice(&data);
                    }
                }
            }
        }
        (self.chunks, self.written) = chunk(gathered);
        if self.has_ended {
            self.chunks.extend_from_slice(b"0\r\n\r\n");
        }
        Ok(())
    }

    /// Reads until nothing is there; answers when the client has gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Rest<S> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_write(cx))?;
            if self.has_ended {
                return Pin::new(&mut self.stream).poll_shutdown(cx);
            }
            self.gather(cx)?;
            if self.chunks.is_empty() {
                return self.poll_gone(cx);
            }
        }
    }
}

/// A chunk of the bytes behind the room for its head, and where it begins.
fn chunk(mut gathered: Vec<u8>) -> (Vec<u8>, usize) {
    let length = gathered.len().saturating_sub(CHUNK_HEAD);
    if length == 0 {
        return (Vec::new(), 0);
    }
    let head = format!("{length:x}\r\n");
    let begin = CHUNK_HEAD.saturating_sub(head.len());
    if let Some(room) = gathered.get_mut(begin..CHUNK_HEAD) {
        room.copy_from_slice(head.as_bytes());
    }
    gathered.extend_from_slice(b"\r\n");
    (mem::take(&mut gathered), begin)
}
