//! A connection whose client must take what is sent to it: one that reads nothing for too long is closed, so that it does not hold
//! a place among the open connections for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

/// A stream with a limit on the time in which nothing can be written.
#[derive(Debug)]
pub(super) struct WriteLimit<S> {
    stream: S,
    time_max: Duration,
    /// Runs while the client takes nothing.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Its place among the open connections.
    _place: Option<OwnedSemaphorePermit>,
}

impl<S: Unpin> WriteLimit<S> {
    pub(super) fn new(stream: S, time_max: Duration) -> Self {
        Self {
            stream,
            time_max,
            waiting: None,
            _place: None,
        }
    }

    /// The same stream, which keeps this place as long as it is open.
    pub(super) fn with_place(mut self, place: OwnedSemaphorePermit) -> Self {
        self._place = Some(place);
        self
    }

    /// Hands on the outcome of a write, or fails if it has waited too long.
    fn limit<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let time_max = self.time_max;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(time_max)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read its response",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteLimit<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteLimit<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.limit(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.limit(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limit(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (_client, server) = duplex(4);
        let begun = Instant::now();
        let mut limited = WriteLimit::new(server, LIMIT);
        let written = tokio::time::timeout(2 * LIMIT, limited.write_all(b"response")).await;
        let error = written.expect("the write ends").unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_all() {
        let (mut client, server) = duplex(4);
        let slow = async {
            let mut taken = Vec::new();
            for _ in 0..4 {
                sleep(LIMIT / 2).await;
                taken.push(client.read_u8().await.unwrap());
            }
            client.read_to_end(&mut taken).await.unwrap();
            taken
        };
        let write = async {
            let mut limited = WriteLimit::new(server, LIMIT);
            limited.write_all(b"response").await.unwrap();
        };
        let (taken, ()) = tokio::join!(slow, write);
        assert_eq!(taken, b"response");
    }
}
