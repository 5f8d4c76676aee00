//! Group chat: over HTTP and WebSockets, on two instances over one store.

mod history;
mod live;
mod refusal;
mod retention;
mod room;
mod send;
mod socket;
pub(crate) mod town;
