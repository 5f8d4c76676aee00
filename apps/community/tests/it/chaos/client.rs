//! Clients that come back as the client module in the browser does: after their last event, after the time that the server names or
//! after pauses that double.

#![expect(clippy::unwrap_used, reason = "a test harness: a panic fails the test")]

mod notifications;
mod rooms;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::sleep;

pub(super) use notifications::Notifications;
pub(super) use rooms::Rooms;

/// From a request to the first bytes.
const CONNECT_MAX: Duration = Duration::from_secs(20);
/// The server pings every 20 s.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The longest pause between two attempts.
const BACKOFF_MAX_MS: f64 = 2_000.0;

/// A stream that a client has received: that of its member, or that of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stream {
    Member,
    Room(i64),
}

/// An event as a client or the database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) seq: i64,
    pub(super) id: String,
}

/// What one client has seen of the community.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The events of each stream as they came: nothing is left out and nothing is put in order.
    pub(super) streams: BTreeMap<Stream, Vec<Entry>>,
    /// Whether it receives all its streams now.
    pub(super) is_open: bool,
    /// Connections that were open and have ended.
    pub(super) interruptions: usize,
    /// Answers that no client of an honest server gets.
    pub(super) surprises: Vec<String>,
}

/// What a client has seen, for the client and for the test.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Seen>>);

impl Log {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    /// The number of the last event of a stream.
    pub(super) fn last(&self, stream: Stream) -> i64 {
        let seen = self.seen();
        let last = seen.streams.get(&stream).and_then(|entries| entries.last());
        last.map_or(0, |entry| entry.seq)
    }

    fn add(&self, stream: Stream, seq: i64, id: &str) {
        let id = id.to_owned();
        self.seen().streams.entry(stream).or_default().push(Entry { seq, id });
    }

    fn surprise(&self, says: impl Into<String>) {
        self.seen().surprises.push(says.into());
    }
}

/// How an attempt has ended.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    was_open: bool,
    /// The time after which the server wants the client back.
    retry_ms: Option<f64>,
}

/// A client that opens one connection after the other.
trait Connect {
    fn log(&self) -> &Log;

    /// One connection, until it has ended.
    async fn connect(&mut self) -> End;

    /// The time to wait after a connection that broke without a word, if the server has said it.
    fn retry_ms(&self) -> Option<f64>;
}

/// Connects again and again. It never ends by itself.
async fn keep_connected(mut client: impl Connect) {
    let mut failures = 0;
    loop {
        let end = client.connect().await;
        {
            let mut seen = client.log().seen();
            seen.is_open = false;
            seen.interruptions += usize::from(end.was_open);
        }
        failures = if end.was_open { 0 } else { failures + 1 };
        let known = end.retry_ms.or(client.retry_ms());
        sleep(Duration::from_secs_f64(pause_ms(known, failures, rand()) / 1_000.0)).await;
    }
}

/// The time that the server names comes first. Further attempts come more and more rarely, at random times.
fn pause_ms(known: Option<f64>, failures: i32, random: f64) -> f64 {
    let jitter = random * (1_000.0 * 2_f64.powi(failures)).min(BACKOFF_MAX_MS);
    match known {
        Some(known) if failures == 0 => known,
        Some(known) => known + jitter,
        None => jitter,
    }
}

/// A number in 0..1. The last bytes of an id are random.
fn rand() -> f64 {
    let [.., high, low] = *uuid::Uuid::now_v7().as_bytes();
    f64::from(u16::from_be_bytes([high, low])) / 65_536.0
}

#[test]
fn the_server_says_when_a_client_comes_back_and_failures_double_the_pause() {
    let check = |known: Option<f64>, failures: i32, expected: f64| {
        let found = pause_ms(known, failures, 0.5);
        assert!((found - expected).abs() < 1e-9, "{known:?} {failures}: {found}");
    };
    check(Some(3_000.0), 0, 3_000.0);
    check(Some(3_000.0), 1, 4_000.0);
    check(None, 0, 500.0);
    check(None, 1, 1_000.0);
    check(None, 9, 1_000.0);
}
