//! A journal in memory. A frame is there when `append` returns, which is its commit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Error, ErrorKind, Result};
use postroom_realtime::{Frame, Journal, Opening, StreamKey};
use serde_json::value::to_raw_value;
use tokio::time::sleep;

/// The streams of a test.
#[derive(Debug)]
pub(crate) struct MemoryJournal {
    streams: Mutex<HashMap<String, Vec<Frame>>>,
    /// How many frames an opening shows at most.
    pub(crate) page: AtomicUsize,
    /// Whether an opening takes a moment after it has read the rows, so that others are written meanwhile.
    pub(crate) lingers: AtomicBool,
    /// Whether every call fails.
    pub(crate) is_away: AtomicBool,
    /// Calls of `read` and of `tops`, also those that failed.
    pub(crate) reads: AtomicU64,
    pub(crate) looks: AtomicU64,
}

impl MemoryJournal {
    pub(crate) fn new() -> Self {
        Self {
            streams: Mutex::default(),
            page: AtomicUsize::new(usize::MAX),
            lingers: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            looks: AtomicU64::new(0),
        }
    }

    /// Writes the next frame of a stream: its id is its number.
    pub(crate) fn append(&self, stream: &str) -> Frame {
        self.append_text(stream, "")
    }

    pub(crate) fn append_text(&self, stream: &str, text: &str) -> Frame {
        self.push(stream, |seq| {
            let data = to_raw_value(&serde_json::json!({ "n": seq, "text": text })).unwrap();
            Frame::new(seq, &seq.to_string(), "message", &data)
        })
    }

    pub(crate) fn append_silent(&self, stream: &str) -> Frame {
        self.push(stream, Frame::silent)
    }

    fn push(&self, stream: &str, frame: impl FnOnce(u64) -> Frame) -> Frame {
        let mut streams = self.streams();
        let frames = streams.entry(stream.to_owned()).or_default();
        let frame = frame(frames.last().map_or(0, Frame::seq) + 1);
        frames.push(frame.clone());
        frame
    }

    /// Removes the oldest rows of a stream, as retention does.
    pub(crate) fn prune(&self, stream: &str, up_to: u64) {
        if let Some(frames) = self.streams().get_mut(stream) {
            frames.retain(|frame| frame.seq() > up_to);
        }
    }

    /// Forgets the newest rows, as a restored backup does.
    pub(crate) fn restore(&self, stream: &str, count: usize) {
        if let Some(frames) = self.streams().get_mut(stream) {
            frames.truncate(count);
        }
    }

    fn after(&self, stream: &str, after: u64, max: usize) -> Vec<Frame> {
        let streams = self.streams();
        let frames = streams.get(stream).into_iter().flatten();
        frames.filter(|frame| frame.seq() > after).take(max).cloned().collect()
    }

    fn opening(&self, stream: &str, cursor: Option<u64>) -> Opening {
        let Some(cursor) = cursor else {
            let top = self.top(stream);
            let mut opening = Opening::new(Vec::new(), top);
            opening.cursor = (top > 0).then(|| top.to_string());
            return opening;
        };
        let first = self.after(stream, cursor, self.page.load(Ordering::Relaxed));
        let after = first.last().map_or(cursor, Frame::seq);
        Opening::new(first.into_iter().filter(|frame| !frame.is_silent()).collect(), after)
    }

    fn top(&self, stream: &str) -> u64 {
        let streams = self.streams();
        streams
            .get(stream)
            .and_then(|frames| frames.last())
            .map_or(0, Frame::seq)
    }

    fn check(&self) -> Result<()> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable, "the database is away")),
            false => Ok(()),
        }
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<String, Vec<Frame>>> {
        self.streams.lock().unwrap()
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn open(&self, stream: &StreamKey, cursor: Option<&str>) -> Result<Opening> {
        self.check()?;
        let opening = self.opening(stream.as_str(), cursor.and_then(|cursor| cursor.parse().ok()));
        if self.lingers.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(2)).await;
        }
        Ok(opening)
    }

    async fn read(&self, stream: &StreamKey, after: u64, max: usize) -> Result<Vec<Frame>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.check()?;
        Ok(self.after(stream.as_str(), after, max))
    }

    async fn tops(&self, streams: &[StreamKey]) -> Result<Vec<u64>> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.check()?;
        Ok(streams.iter().map(|stream| self.top(stream.as_str())).collect())
    }
}
