//! The frames that wait for one client: bounded, and pure but for the waker of its task.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use crate::{Frame, Reason};

/// Frames that wait for one client, and their bytes.
const FRAMES_MAX: usize = 256;
const BYTES_MAX: usize = 1 << 20;
/// An empty queue gives its memory back if it has grown beyond this.
const KEPT_FRAMES_MAX: usize = 8;

/// The queue of one connection.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Whether a frame was refused since it was last half empty: then the database has more.
    has_more: bool,
    /// How often the client took something. A stalled client shows as a number that does not change.
    taken: u32,
    end: Option<End>,
    is_over: bool,
    waker: Option<Waker>,
}

/// The end of a connection, and when its client comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) reason: Reason,
    pub(crate) retry_ms: u32,
}

/// An item that a client takes from its queue.
#[derive(Debug)]
pub(crate) enum Item {
    Frame(Frame),
    End(End),
}

/// The result of adding a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Queued,
    /// There is no room.
    Full,
    /// The connection ends, and takes nothing more.
    Ended,
}

impl Queue {
    /// Adds a frame if there is room. An empty queue takes a frame of any size.
    pub(crate) fn push(&mut self, frame: &Frame) -> Pushed {
        if self.end.is_some() {
            return Pushed::Ended;
        }
        let has_room = self.frames.len() < FRAMES_MAX && self.bytes + frame.size() <= BYTES_MAX;
        if !has_room && !self.frames.is_empty() {
            return Pushed::Full;
        }
        self.force(frame.clone());
        Pushed::Queued
    }

    /// Adds a frame that is not part of a sequence, and therefore cannot be read again.
    pub(crate) fn force(&mut self, frame: Frame) {
        if self.end.is_none() {
            self.bytes += frame.size();
            self.frames.push_back(frame);
        }
    }

    /// Ends the connection, unless it has ended. A client that does not read loses the frames that wait; it gets them again from
    /// its cursor.
    pub(crate) fn end(&mut self, end: End) -> bool {
        if self.end.is_some() {
            return false;
        }
        if end.reason == Reason::Slow {
            self.frames = VecDeque::new();
            self.bytes = 0;
        }
        self.end = Some(end);
        true
    }

    /// Remembers that the database has more for this client.
    pub(crate) fn wants_more(&mut self) {
        self.has_more = true;
    }

    /// Whether the queue has room again for frames that the database has. Answers `true` once.
    pub(crate) fn can_refill(&mut self) -> bool {
        let can = self.has_more && self.frames.len() <= FRAMES_MAX / 2 && self.bytes <= BYTES_MAX / 2;
        self.has_more &= !can;
        can
    }

    /// The next item; `None` after the end.
    pub(crate) fn poll_take(&mut self, cx: &Context<'_>) -> Poll<Option<Item>> {
        if let Some(item) = self.take() {
            return Poll::Ready(Some(item));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The next item that is there already.
    pub(crate) fn take(&mut self) -> Option<Item> {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= frame.size();
            self.taken = self.taken.wrapping_add(1);
            if self.frames.is_empty() && self.frames.capacity() > KEPT_FRAMES_MAX {
                self.frames = VecDeque::new();
            }
            return Some(Item::Frame(frame));
        }
        let end = self.end.filter(|_| !self.is_over)?;
        self.is_over = true;
        Some(Item::End(end))
    }

    /// Wake this after the lock is released.
    pub(crate) fn waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// Whether the client has taken nothing since `taken` was this number, although something waits.
    pub(crate) fn is_stalled(&self, taken: u32) -> bool {
        self.taken == taken && !self.frames.is_empty()
    }

    /// Whether the database has more for this client.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Why the server has ended it.
    pub(crate) fn reason(&self) -> Option<Reason> {
        self.end.map(|end| end.reason)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use futures::task::noop_waker;

    use super::*;

    fn frame(bytes: usize) -> Frame {
        Frame::reply("x".repeat(bytes))
    }

    const END: End = End {
        reason: Reason::Slow,
        retry_ms: 1,
    };

    fn ends_with(queue: &mut Queue) -> Reason {
        match queue.take() {
            Some(Item::End(end)) => end.reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_queue_is_bounded_by_frames_and_by_bytes() {
        let fill = |size: usize| {
            let mut queue = Queue::default();
            let count = (0..).take_while(|_| queue.push(&frame(size)) == Pushed::Queued).count();
            assert!(queue.bytes <= BYTES_MAX);
            count
        };
        assert_eq!(fill(1), FRAMES_MAX);
        assert_eq!(fill(100 << 10), 10);
    }

    #[test]
    fn an_empty_queue_takes_a_frame_of_any_size() {
        let mut queue = Queue::default();
        assert_eq!(queue.push(&frame(3 << 20)), Pushed::Queued);
        assert_eq!(queue.push(&frame(1)), Pushed::Full);
    }

    #[test]
    fn a_slow_client_loses_what_waits_and_another_gets_it_first() {
        let mut queue = Queue::default();
        queue.force(frame(1));
        assert!(queue.end(END));
        assert!(!queue.end(END), "it ends once");
        assert_eq!(queue.push(&frame(1)), Pushed::Ended);
        assert_eq!(ends_with(&mut queue), Reason::Slow);
        assert!(queue.take().is_none());

        let mut queue = Queue::default();
        queue.force(frame(1));
        queue.end(End {
            reason: Reason::Drain,
            ..END
        });
        assert!(matches!(queue.take(), Some(Item::Frame(_))));
        assert_eq!(ends_with(&mut queue), Reason::Drain);
        assert!(matches!(
            queue.poll_take(&Context::from_waker(&noop_waker())),
            Poll::Ready(None)
        ));
    }

    #[test]
    fn more_is_asked_for_once_when_half_is_taken() {
        let mut queue = Queue::default();
        while queue.push(&frame(1)) == Pushed::Queued {}
        queue.wants_more();
        for _ in 0..FRAMES_MAX / 2 - 1 {
            queue.take().unwrap();
            assert!(!queue.can_refill());
        }
        queue.take().unwrap();
        assert!(queue.can_refill());
        assert!(!queue.can_refill());
    }

    #[test]
    fn a_burst_leaves_no_memory_behind() {
        let mut queue = Queue::default();
        while queue.push(&frame(1)) == Pushed::Queued {}
        while queue.take().is_some() {}
        assert_eq!((queue.frames.capacity(), queue.bytes), (0, 0));
    }

    #[test]
    fn a_client_that_takes_nothing_is_stalled() {
        let mut queue = Queue::default();
        assert!(!queue.is_stalled(0), "nothing waits");
        queue.force(frame(1));
        queue.force(frame(1));
        assert!(queue.is_stalled(0));
        queue.take().unwrap();
        assert!(!queue.is_stalled(0));
        assert!(queue.is_stalled(queue.taken()));
    }
}
