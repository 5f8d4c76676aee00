//! The frames of the bench, in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use postroom_realtime::{Frame, Journal, Opening, StreamKey};
use serde_json::value::RawValue;

/// Frames that are kept for connections that are behind.
const KEPT: usize = 4_096;

/// One stream.
#[derive(Debug, Default)]
pub(super) struct MemoryJournal(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    frames: VecDeque<Frame>,
    top: u64,
}

impl MemoryJournal {
    /// Writes the next frame, with the time of day in it.
    pub(super) fn append(&self, is_paced: bool) -> anyhow::Result<Frame> {
        let mut kept = self.kept();
        let seq = kept.top + 1;
        let at = u64::try_from(since_epoch().as_micros())?;
        let data = RawValue::from_string(format!("{{\"at\":{at},\"number\":{seq},\"paced\":{is_paced}}}"))?;
        let frame = Frame::new(seq, &seq.to_string(), "tick", &data);
        kept.top = seq;
        kept.frames.push_back(frame.clone());
        if kept.frames.len() > KEPT {
            kept.frames.pop_front();
        }
        Ok(frame)
    }

    /// The number of the last frame.
    pub(super) fn top(&self) -> u64 {
        self.kept().top
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of day: server and clients are on one machine.
pub(super) fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn open(&self, _stream: &StreamKey, _cursor: Option<&str>) -> postroom::Result<Opening> {
        Ok(Opening::new(Vec::new(), self.top()))
    }

    async fn read(&self, _stream: &StreamKey, after: u64, max: usize) -> postroom::Result<Vec<Frame>> {
        let kept = self.kept();
        let newer = kept.frames.iter().filter(|frame| frame.seq() > after);
        Ok(newer.take(max).cloned().collect())
    }

    async fn tops(&self, streams: &[StreamKey]) -> postroom::Result<Vec<u64>> {
        Ok(vec![self.top(); streams.len()])
    }
}
