//! The two halves of a connection that the hub keeps: the peer (its queue and deadlines), and one subscription per stream.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::client::Client;
use crate::deadline::Deadlines;
use crate::delivery::{OPENING, Verdict, decide};
use crate::list::{Place, Placed};
use crate::queue::{End, Pushed, Queue};
use crate::{Frame, Reason, StreamKey};

/// Of [`Peer::since`]: the registry has not been asked.
const NOT_ADMITTED: i64 = i64::MIN;
/// Of [`Peer::since`]: the registry was asked and has not answered.
const ADMITTING: i64 = i64::MIN + 1;

/// One connected client.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: Uuid,
    pub(crate) client: Client,
    queue: Mutex<Queue>,
    pub(crate) deadlines: Mutex<Deadlines>,
    /// Its age in the registry.
    since: AtomicI64,
    /// Whether its lease waits to be renewed.
    pub(crate) is_renewing: AtomicBool,
    /// Whether the wheel will check it for a stall.
    pub(crate) is_watched: AtomicBool,
    /// Its slot in the wheel, and its place there.
    pub(crate) slot: usize,
    place: Place,
}

impl Placed for Peer {
    fn place(&self) -> &Place {
        &self.place
    }
}

impl Peer {
    pub(crate) fn new(client: Client, deadlines: Deadlines, slot: usize) -> Self {
        Self {
            id: Uuid::now_v7(),
            client,
            queue: Mutex::default(),
            deadlines: Mutex::new(deadlines),
            since: AtomicI64::new(NOT_ADMITTED),
            is_renewing: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            slot,
            place: Place::default(),
        }
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn deadlines(&self) -> MutexGuard<'_, Deadlines> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue, and wakes the client's task if that left something to take.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.queue();
        let outcome = change(&mut queue);
        let waker = queue.waker();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        outcome
    }

    /// Ends the connection; answers `false` if it had ended before.
    pub(crate) fn end(&self, reason: Reason) -> bool {
        let retry_ms = reason.retry_ms(rand::random());
        self.change(|queue| queue.end(End { reason, retry_ms }))
    }

    /// Queues a frame that cannot be read again. A client that has left no room for it ends.
    pub(crate) fn show(&self, frame: &Frame) -> bool {
        let pushed = self.change(|queue| queue.push(frame));
        if pushed == Pushed::Full {
            self.end(Reason::Slow);
        }
        pushed == Pushed::Queued
    }

    /// Before the registry is asked: from now on the place has to be given back.
    pub(crate) fn begin_admission(&self) {
        self.since.store(ADMITTING, Ordering::Relaxed);
    }

    pub(crate) fn admitted(&self, since: i64) {
        self.since.store(since, Ordering::Relaxed);
    }

    /// Whether the registry may have a place for it.
    pub(crate) fn has_place(&self) -> bool {
        self.since.load(Ordering::Relaxed) != NOT_ADMITTED
    }

    /// Its age in the registry, if it was admitted.
    pub(crate) fn since(&self) -> Option<i64> {
        Some(self.since.load(Ordering::Relaxed)).filter(|since| *since > ADMITTING)
    }

    /// As the registry knows it.
    pub(crate) fn registered(&self) -> postroom_shared::registry::Connection {
        postroom_shared::registry::Connection {
            member: self.client.member.to_string(),
            id: self.id,
            since: self.since(),
        }
    }
}

/// A stream that a peer follows.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) stream: StreamKey,
    pub(crate) peer: Arc<Peer>,
    /// The number of the last frame that was queued. Changed under the lock of the queue.
    sent: AtomicU64,
    /// The highest number that came while it was opening.
    seen: AtomicU64,
    /// Whether frames were left in the database because the queue was full.
    is_behind: AtomicBool,
    place: Place,
}

impl Placed for Subscription {
    fn place(&self) -> &Place {
        &self.place
    }
}

/// The result of offering a frame to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    Queued,
    /// It has the frame, or will read it later.
    Dropped,
    /// Frames are missing: repair the stream.
    Missing,
    /// The queue is full. The rest is read when there is room.
    Full,
}

impl Subscription {
    /// A subscription that takes nothing before [`Subscription::activate`].
    pub(crate) fn opening(stream: StreamKey, peer: Arc<Peer>) -> Self {
        Self {
            stream,
            peer,
            sent: AtomicU64::new(OPENING),
            seen: AtomicU64::new(0),
            is_behind: AtomicBool::new(false),
            place: Place::default(),
        }
    }

    /// The number of the last frame that was queued; none while it is opening.
    pub(crate) fn sent(&self) -> Option<u64> {
        Some(self.sent.load(Ordering::Relaxed)).filter(|sent| *sent != OPENING)
    }

    /// Begins: shows these frames, and goes on after this number. Answers whether later frames have come meanwhile.
    pub(crate) fn activate(&self, first: Vec<Frame>, after: u64) -> bool {
        self.peer.change(|queue| {
            first.into_iter().for_each(|frame| queue.force(frame));
            self.sent.store(after.min(OPENING - 1), Ordering::Relaxed);
            self.seen.load(Ordering::Relaxed) > after
        })
    }

    /// Takes a frame that was published.
    pub(crate) fn offer(&self, frame: &Frame) -> Offered {
        self.peer.change(|queue| self.take(queue, frame))
    }

    /// Takes frames that were read from the database, until one is refused.
    pub(crate) fn refill(&self, frames: &[Frame]) -> Refilled {
        self.peer.change(|queue| {
            self.is_behind.store(false, Ordering::Relaxed);
            let mut refilled = Refilled::default();
            for frame in frames {
                match self.take(queue, frame) {
                    Offered::Queued => refilled.queued += 1,
                    Offered::Dropped => {}
                    Offered::Missing => break,
                    Offered::Full => {
                        refilled.is_full = true;
                        break;
                    }
                }
            }
            refilled
        })
    }

    fn take(&self, queue: &mut Queue, frame: &Frame) -> Offered {
        let sent = self.sent.load(Ordering::Relaxed);
        if sent == OPENING {
            self.seen.fetch_max(frame.seq(), Ordering::Relaxed);
        }
        match decide(frame.seq(), sent) {
            Verdict::Drop => return Offered::Dropped,
            Verdict::Repair if self.is_behind() || queue.has_ended() => return Offered::Dropped,
            Verdict::Repair => return Offered::Missing,
            Verdict::Queue => {}
        }
        let pushed = match frame.is_silent() {
            true => Pushed::Queued,
            false => queue.push(frame),
        };
        match pushed {
            Pushed::Queued => {
                self.sent.store(frame.seq(), Ordering::Relaxed);
                Offered::Queued
            }
            Pushed::Ended => Offered::Dropped,
            Pushed::Full => {
                self.is_behind.store(true, Ordering::Relaxed);
                queue.wants_more();
                Offered::Full
            }
        }
    }

    /// Whether frames were left in the database because the queue was full.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// After which number it takes frames from the database now.
    pub(crate) fn wants(&self) -> Option<u64> {
        let queue = self.peer.queue();
        let can_take = !queue.has_ended() && !queue.has_more();
        self.sent().filter(|_| can_take)
    }
}

/// The result of a refill: the number of frames that the subscription has taken, and whether its queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refilled {
    pub(crate) queued: u64,
    pub(crate) is_full: bool,
}
