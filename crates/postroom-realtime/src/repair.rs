//! Repairs: reads from the journal the frames that connections have missed. Each stream is read once for all its connections, a few
//! streams at the same time, and with a back-off while the database is away.
//!
//! `dirty` streams are read. Of `unchecked` streams the newest number is looked up first, for many streams in one statement.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use postroom::{CancellationToken, ErrorKind, Result};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::delivery::contiguous;
use crate::hub::Core;
use crate::{Frame, Reason, StreamKey};

/// Streams that are read at the same time.
const READS_MAX: usize = 8;
/// Frames in one read.
const FRAMES_MAX: usize = 256;
/// Streams in one look at their newest numbers.
const TOPS_MAX: usize = 500;
/// How long newly opened streams wait for company before the look.
const GATHER: Duration = Duration::from_millis(50);
/// The pause after a failure: it begins with the first, and doubles up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// How long a read may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The streams that need a repair.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    pending: Mutex<Pending>,
    is_dirty: Notify,
    is_unchecked: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    dirty: VecDeque<StreamKey>,
    waiting: HashSet<StreamKey>,
    /// Streams that are read now, and whether they became dirty again.
    reading: HashMap<StreamKey, bool>,
    unchecked: HashSet<StreamKey>,
    is_all_unchecked: bool,
}

impl Repairs {
    /// Frames of this stream are missing: reads them.
    pub(crate) fn dirty(&self, stream: &StreamKey) {
        self.pending().add(stream);
        self.is_dirty.notify_one();
    }

    /// Frames of this stream may be missing: compares its newest number.
    pub(crate) fn unchecked(&self, stream: &StreamKey) {
        self.pending().unchecked.insert(stream.clone());
        self.is_unchecked.notify_one();
    }

    /// Frames of any stream may be missing.
    pub(crate) fn all_unchecked(&self) {
        self.pending().is_all_unchecked = true;
        self.is_unchecked.notify_one();
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin_read(&self) -> Option<StreamKey> {
        let mut pending = self.pending();
        let stream = pending.dirty.pop_front()?;
        pending.waiting.remove(&stream);
        pending.reading.insert(stream.clone(), false);
        Some(stream)
    }

    pub(crate) fn end_read(&self, stream: &StreamKey, again: bool) {
        let mut pending = self.pending();
        let became_dirty = pending.reading.remove(stream).unwrap_or_default();
        if became_dirty || again {
            pending.add(stream);
        }
    }

    fn take_unchecked(&self, hub: &Core) -> Vec<StreamKey> {
        let mut pending = self.pending();
        let some = std::mem::take(&mut pending.unchecked);
        let is_all = std::mem::take(&mut pending.is_all_unchecked);
        drop(pending);
        match is_all {
            true => hub.audiences.streams(),
            false => some.into_iter().collect(),
        }
    }
}

impl Pending {
    fn add(&mut self, stream: &StreamKey) {
        if let Some(became_dirty) = self.reading.get_mut(stream) {
            *became_dirty = true;
        } else if self.waiting.insert(stream.clone()) {
            self.dirty.push_back(stream.clone());
        }
    }
}

/// A pause that doubles with each failure.
#[derive(Debug)]
struct BackOff(Duration);

impl BackOff {
    fn new() -> Self {
        Self(PAUSE.0)
    }

    fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (2 * pause).min(PAUSE.1);
        pause.mul_f64(0.75 + 0.5 * rand::random::<f64>())
    }
}

/// Reads dirty streams until the stop.
pub(crate) async fn run(hub: Arc<Core>, stop: CancellationToken) {
    let mut reads = FuturesUnordered::new();
    let mut back_off = BackOff::new();
    while !stop.is_cancelled() {
        while reads.len() < READS_MAX
            && let Some(stream) = hub.repairs.begin_read()
        {
            reads.push(read(&hub, stream));
        }
        let ended = tokio::select! {
            () = stop.cancelled() => break,
            () = hub.repairs.is_dirty.notified() => continue,
            Some(ended) = reads.next() => ended,
        };
        let (stream, outcome) = ended;
        let is_away = matches!(&outcome, Err(error) if error.kind() == ErrorKind::Unavailable);
        // A stream that fails for another reason is looked at again by the next tail check.
        hub.repairs.end_read(&stream, is_away);
        match outcome {
            Ok(()) => back_off = BackOff::new(),
            Err(error) => {
                hub.metrics.repair_failed();
                tracing::warn!(hub = hub.settings.name, %stream, error = error.report(), "missed frames were not read");
                if is_away {
                    stop.run_until_cancelled(sleep(back_off.next())).await;
                }
            }
        }
    }
}

async fn read(hub: &Core, stream: StreamKey) -> (StreamKey, Result<()>) {
    let outcome = repair(hub, &stream).await;
    (stream, outcome)
}

/// Reads until no connection of the stream needs more.
pub(crate) async fn repair(hub: &Core, stream: &StreamKey) -> Result<()> {
    let mut top = None;
    while let Some((key, audience)) = hub.audiences.of(stream.as_str()) {
        let behind = audience.iter().filter_map(|subscription| subscription.wants());
        let Some(after) = behind.filter(|sent| top.is_none_or(|top| *sent < top)).min() else {
            return Ok(());
        };
        let read = hub.journal.read(&key, after, FRAMES_MAX);
        let frames = crate::hub::within(PATIENCE, "read missed frames", read).await?;
        let Some(last) = frames.last().map(Frame::seq) else {
            return Ok(());
        };
        hub.metrics.repaired(frames.len());
        let is_whole = refill(hub, &key, (after, &frames));
        if frames.len() < FRAMES_MAX || !is_whole {
            // Connections that began earlier, or come to it now, have their own gap.
            top = Some(last);
        }
    }
    Ok(())
}

/// Hands these frames to all connections that miss some; answers whether none of the frames is missing.
fn refill(hub: &Core, stream: &StreamKey, (after, frames): (u64, &[Frame])) -> bool {
    let count = contiguous(after, frames.iter().map(Frame::seq));
    let whole = frames.get(..count).unwrap_or_default();
    let Some((_, audience)) = hub.audiences.of(stream.as_str()) else {
        return true;
    };
    let mut queued = 0;
    for subscription in audience.iter() {
        let refilled = subscription.refill(whole);
        queued += refilled.queued;
        if refilled.is_full {
            hub.watch_stall(&subscription.peer);
        }
    }
    hub.metrics.delivered(queued);
    if count == frames.len() {
        return true;
    }
    let end = after.saturating_add(count as u64);
    for subscription in audience.iter().filter(|found| found.wants() == Some(end)) {
        hub.end(&subscription.peer, Reason::Gap);
    }
    false
}

/// Compares the newest numbers of streams with what was sent, until the stop.
pub(crate) async fn run_checks(hub: Arc<Core>, stop: CancellationToken) {
    let mut back_off = BackOff::new();
    let mut ticks = interval(hub.settings.tail_check_every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = ticks.tick() => hub.repairs.all_unchecked(),
            () = hub.repairs.is_unchecked.notified() => {}
        }
        stop.run_until_cancelled(sleep(GATHER)).await;
        match check_all(&hub).await {
            Ok(()) => back_off = BackOff::new(),
            Err(error) => {
                hub.metrics.repair_failed();
                tracing::warn!(
                    hub = hub.settings.name,
                    error = error.report(),
                    "newest numbers were not read"
                );
                stop.run_until_cancelled(sleep(back_off.next())).await;
            }
        }
    }
}

/// Checks all streams that wait for it. After an error the rest waits for the next call.
async fn check_all(hub: &Core) -> Result<()> {
    let mut streams = hub.repairs.take_unchecked(hub);
    while !streams.is_empty() {
        let rest = streams.len().saturating_sub(TOPS_MAX);
        if let Err(error) = check(hub, streams.get(rest..).unwrap_or_default()).await {
            streams.iter().for_each(|stream| hub.repairs.unchecked(stream));
            return Err(error);
        }
        streams.truncate(rest);
    }
    Ok(())
}

/// The result of comparing the newest number of a stream with the last number that a connection was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    Sent,
    Missing,
    /// The stream has begun anew: the database was restored.
    Renumbered,
}

/// `sent` was read before `top`. A stream without rows tells nothing about missing frames.
fn judge(top: u64, sent: u64) -> Tail {
    match top {
        _ if top > sent => Tail::Missing,
        0 => Tail::Sent,
        _ if top < sent => Tail::Renumbered,
        _ => Tail::Sent,
    }
}

pub(crate) async fn check(hub: &Core, streams: &[StreamKey]) -> Result<()> {
    let followed = |stream: &StreamKey| {
        let (_, audience) = hub.audiences.of(stream.as_str())?;
        let sent = audience
            .iter()
            .filter_map(|subscription| Some((Arc::clone(subscription), subscription.sent()?)));
        Some(sent.collect::<Vec<_>>())
    };
    let sent: Vec<_> = streams
        .iter()
        .map(|stream| followed(stream).unwrap_or_default())
        .collect();
    let tops = crate::hub::within(PATIENCE, "read the newest numbers", hub.journal.tops(streams)).await?;
    for ((stream, sent), top) in streams.iter().zip(sent).zip(tops) {
        let mut is_missing = false;
        for (subscription, sent) in sent {
            match judge(top, sent) {
                Tail::Sent => {}
                Tail::Missing => is_missing |= !subscription.is_behind(),
                Tail::Renumbered => hub.end(&subscription.peer, Reason::Gap),
            }
        }
        if is_missing {
            hub.repairs.dirty(stream);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_number_says_what_is_missing() {
        let check = |top: u64, sent: u64, expected: Tail| assert_eq!(judge(top, sent), expected, "{top} {sent}");
        check(0, 0, Tail::Sent);
        check(5, 5, Tail::Sent);
        check(6, 5, Tail::Missing);
        check(1, 0, Tail::Missing);
        check(4, 5, Tail::Renumbered);
        check(0, 5, Tail::Sent);
    }

    #[test]
    fn a_stream_is_read_once_at_a_time() {
        let repairs = Repairs::default();
        let (a, b) = (StreamKey::from("a"), StreamKey::from("b"));
        for stream in [&a, &b, &a] {
            repairs.dirty(stream);
        }
        assert_eq!(repairs.begin_read(), Some(a.clone()));
        repairs.dirty(&a);
        assert_eq!(repairs.begin_read(), Some(b.clone()));
        assert_eq!(repairs.begin_read(), None, "a is being read");
        repairs.end_read(&a, false);
        repairs.end_read(&b, false);
        assert_eq!(repairs.begin_read(), Some(a.clone()), "it became dirty again");
        repairs.end_read(&a, false);
        assert_eq!(repairs.begin_read(), None);
        repairs.dirty(&b);
        assert_eq!(repairs.begin_read(), Some(b.clone()));
        repairs.end_read(&b, true);
        assert_eq!(repairs.begin_read(), Some(b), "its read failed");
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        let mut back_off = BackOff::new();
        let pauses: Vec<_> = (0..8).map(|_| back_off.next()).collect();
        assert!(
            pauses[0] < Duration::from_millis(400) && pauses[7] > Duration::from_secs(3),
            "{pauses:?}"
        );
    }
}
