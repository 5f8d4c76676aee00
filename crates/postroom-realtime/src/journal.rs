//! The port to the rows behind the streams.

use std::fmt;

use async_trait::async_trait;
use postroom::Result;

use crate::{Frame, StreamKey};

/// The database side of streams; an application implements it.
///
/// The contract:
///
/// 1. The numbers of a stream begin at 1 and have no holes. A number is allotted in the transaction that writes its row, under a lock
///    that is held until the commit: a row is visible only after all rows with lower numbers are.
/// 2. A frame is published ([`crate::Hub::publish`]) after its transaction has committed, and reads see what has committed: no
///    replica that lags behind.
/// 3. A stream whose rows were removed (retention) keeps its numbers. The hub ends connections that still need a removed row, and the
///    client opens its stream again with its cursor.
#[async_trait]
pub trait Journal: fmt::Debug + Send + Sync {
    /// Where a connection begins. `cursor` is the client's: a `Last-Event-ID`, or a number; check that it belongs to this stream.
    async fn open(&self, stream: &StreamKey, cursor: Option<&str>) -> Result<Opening>;

    /// The frames after a number, oldest first, at most `max`; empty if there are none.
    async fn read(&self, stream: &StreamKey, after: u64, max: usize) -> Result<Vec<Frame>>;

    /// The newest number of each stream, in the same order; 0 for a stream without frames.
    async fn tops(&self, streams: &[StreamKey]) -> Result<Vec<u64>>;
}

/// Where a connection begins.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Frames that the connection shows first, whatever their numbers are: a replay after the cursor, or the newest of the past.
    pub first: Vec<Frame>,
    /// The stream goes on after this number. Read it in the same snapshot as `first`, or before it.
    pub after: u64,
    /// The `id` of the frame with the number `after`, if a client that has seen none of its own may resume there. It is sent behind
    /// `first`, and is not needed if the last of those has an `id`.
    pub cursor: Option<String>,
}

impl Opening {
    /// A connection that shows these frames and goes on after this number.
    pub fn new(first: Vec<Frame>, after: u64) -> Self {
        Self {
            first,
            after,
            cursor: None,
        }
    }
}
