//! The owner's half of a connection. Dropping it takes the connection away everywhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use postroom::{Error, Result};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::body;
use crate::client::Client;
use crate::hub::{Core, within};
use crate::peer::{Peer, Subscription};
use crate::presence::Present;
use crate::queue::Item;
use crate::{Frame, Reason, StreamKey};

/// Streams that one connection follows.
const STREAMS_MAX: usize = 1_000;
/// How long the journal may take to open a stream.
const PATIENCE: Duration = Duration::from_secs(10);

/// An open connection. [`Connection::sse`] makes it a stream of server-sent events; [`crate::websocket`] makes it a conversation.
#[derive(Debug)]
pub struct Connection {
    hub: Arc<Core>,
    pub(crate) peer: Arc<Peer>,
    subscriptions: Mutex<Vec<Arc<Subscription>>>,
    _present: Present,
}

/// Shows frames to the client of a connection. It does not keep the connection open.
#[derive(Clone, Debug)]
pub struct ConnectionHandle(Weak<Peer>);

impl ConnectionHandle {
    /// As [`Connection::show`]; whether the connection is still there.
    pub fn show(&self, frame: Frame) -> bool {
        self.0.upgrade().is_some_and(|peer| peer.show(&frame))
    }

    /// Whether the connection is still there.
    pub fn is_open(&self) -> bool {
        self.0.upgrade().is_some_and(|peer| !peer.queue().has_ended())
    }
}

/// The next item of a connection.
#[derive(Clone, Debug)]
pub enum Next {
    /// A frame to show.
    Frame(Frame),
    /// The connection ends: tell the client why, with this last frame, and close it.
    End(Reason, Frame),
}

impl Connection {
    /// A connection that follows nothing yet.
    pub(crate) fn new(hub: &Arc<Core>, client: Client) -> Self {
        let deadlines = hub.deadlines(&client);
        let peer = Arc::new(Peer::new(client, deadlines, hub.wheel.next_slot()));
        let present = hub.presence.enter();
        hub.peers.add(Arc::clone(&peer));
        hub.wheel.add(Arc::clone(&peer));
        hub.wheel.watch(&peer, hub.now());
        hub.metrics.connected();
        Self {
            hub: Arc::clone(hub),
            peer,
            subscriptions: Mutex::default(),
            _present: present,
        }
    }

    /// Its id, in the registry and in the header `x-connection-id`.
    pub fn id(&self) -> Uuid {
        self.peer.id
    }

    /// Its member.
    pub fn member(&self) -> &str {
        self.peer.client.member()
    }

    /// The response with its frames as server-sent events.
    pub fn sse(self) -> Response {
        body::response(self)
    }

    /// Follows a stream from a cursor on. A stream that it follows already begins anew.
    pub async fn follow(&self, stream: StreamKey, cursor: Option<&str>) -> Result<()> {
        self.unfollow(&stream);
        let subscription = Arc::new(Subscription::opening(stream.clone(), Arc::clone(&self.peer)));
        self.subscribe(&subscription)?;
        let opening = within(PATIENCE, "open a stream", self.hub.journal.open(&stream, cursor)).await;
        let opening = opening.inspect_err(|_error| self.unfollow(&stream))?;
        let mut first = opening.first;
        first.extend(opening.cursor.map(|id| body::cursor(&id)));
        // Frames that came while the stream was opening were dropped: the journal has them.
        match subscription.activate(first, opening.after) {
            true => self.hub.repairs.dirty(&stream),
            false => self.hub.repairs.unchecked(&stream),
        }
        Ok(())
    }

    fn subscribe(&self, subscription: &Arc<Subscription>) -> Result<()> {
        let mut subscriptions = self.subscriptions();
        if subscriptions.len() >= STREAMS_MAX {
            let says = format!("a connection follows at most {STREAMS_MAX} streams");
            return Err(Error::invalid(says));
        }
        subscriptions.push(Arc::clone(subscription));
        self.hub.audiences.add(Arc::clone(subscription));
        Ok(())
    }

    /// Follows a stream no longer. Frames that are queued already still come.
    pub fn unfollow(&self, stream: &StreamKey) {
        let mut subscriptions = self.subscriptions();
        if let Some(at) = subscriptions.iter().position(|found| found.stream == *stream) {
            let subscription = subscriptions.swap_remove(at);
            drop(subscriptions);
            self.hub.audiences.remove(&subscription);
        }
    }

    /// Whether it follows a stream.
    pub fn follows(&self, stream: &StreamKey) -> bool {
        self.subscriptions().iter().any(|found| found.stream == *stream)
    }

    /// Shows this frame to its client alone, behind what is queued. A client that does not read its answers is disconnected: they
    /// cannot be read again.
    pub fn show(&self, frame: Frame) {
        self.peer.show(&frame);
    }

    /// A handle with which other tasks show frames to its client.
    pub fn handle(&self) -> ConnectionHandle {
        ConnectionHandle(Arc::downgrade(&self.peer))
    }

    /// The client has a new token, which expires at this time.
    pub fn refresh(&self, until: Option<OffsetDateTime>) {
        let token = until.map(|until| self.hub.deadline(until));
        self.peer.deadlines().refresh(token);
        self.hub.wheel.watch(&self.peer, self.hub.now());
    }

    /// Whether the server has ended it; its client may not know that yet.
    pub fn has_ended(&self) -> bool {
        self.peer.queue().has_ended()
    }

    /// The next item; `None` after the end. Cancel safe.
    pub async fn next(&self) -> Option<Next> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next item, if one is queued already.
    pub(crate) fn take(&self) -> Option<Next> {
        let (item, can_refill) = {
            let mut queue = self.peer.queue();
            (queue.take(), queue.can_refill())
        };
        self.taken(item, can_refill)
    }

    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Next>> {
        let (item, can_refill) = {
            let mut queue = self.peer.queue();
            (queue.poll_take(cx), queue.can_refill())
        };
        item.map(|item| self.taken(item, can_refill))
    }

    fn taken(&self, item: Option<Item>, can_refill: bool) -> Option<Next> {
        if can_refill {
            self.refill();
        }
        item.map(|item| match item {
            Item::Frame(frame) => Next::Frame(frame),
            Item::End(end) => Next::End(end.reason, end.reason.frame(end.retry_ms)),
        })
    }

    /// The queue has room again for frames that were left in the database.
    fn refill(&self) {
        for subscription in self.subscriptions().iter() {
            match subscription.is_behind() {
                true => self.hub.repairs.dirty(&subscription.stream),
                false => self.hub.repairs.unchecked(&subscription.stream),
            }
        }
    }

    fn subscriptions(&self) -> MutexGuard<'_, Vec<Arc<Subscription>>> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let subscriptions = std::mem::take(&mut *self.subscriptions());
        for subscription in subscriptions {
            self.hub.audiences.remove(&subscription);
        }
        self.hub.peers.remove(self.peer.id);
        self.hub.wheel.remove(&self.peer);
        self.hub.leases.leave(&self.peer);
        self.hub.metrics.disconnected();
        let reason = self.peer.queue().reason();
        self.hub.metrics.ended(reason.map_or("client", Reason::as_str));
    }
}
