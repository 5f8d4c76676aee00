//! Transactional outbox: what your transaction commits is delivered — nothing lost, in order per aggregate, with one
//! effect — and you can see it.
//!
//! An application records an event in the same transaction as the change it reports ([`emit`]); a [`Relay`] reads it
//! in a correct order and delivers it to a [`Destination`] or a [`Subscriber`]; what fails is parked, retried, and in
//! the end kept as a dead letter. This crate opens no socket and knows no driver: a store crate brings the database.

mod accept;
pub mod alert;
mod audit;
mod backoff;
mod bounded;
mod broker;
pub mod catalog;
mod cause;
pub mod clock;
mod consumer;
mod cursor;
pub mod dead;
mod destination;
mod down;
mod emit;
pub mod envelope;
mod error;
mod event;
mod external;
mod fault;
mod fed;
mod feed;
mod handler;
mod idle;
mod inbox;
pub mod inspect;
mod job;
mod judge;
mod keeper;
mod kept;
mod leased;
mod line;
pub mod migration;
pub mod nudge;
mod outbox;
mod parked;
mod prefixed;
mod pulse;
mod relay;
mod renumber;
pub mod replay;
mod retry;
mod route;
mod schedule;
mod settle;
pub mod stored;
mod subscriber;
pub mod table;
mod task;
mod tls;
mod topic;
mod trace;
mod tx;
mod upcast;
mod vitals;

pub use accept::accept;
pub use broker::{Broker, Letter, Mark, Message, Origin, Risk, Subscription};
pub use catalog::{EventType, Naming};
pub use cause::{HOPS_MAX, TRACEPARENT};
pub use destination::{Batch, Destination, Receipt};
pub use emit::{append, cancel, check_due_at, emit, emit_at, schedule};
pub use envelope::{Envelope, Mode};
pub use error::{Error, ErrorKind, Result, reject};
pub use event::{
    CAUSATION_ID, DomainEvent, Event, HEADERS_BYTES_MAX, HOPS, Headers, KEY_BYTES_MAX, Key, PAYLOAD_BYTES_MAX,
    TYPE_BYTES_MAX, parse_payload,
};
pub use external::{BoxTask, Database, ExternalTask};
pub use fault::Fault;
pub use handler::{AsyncFunction, BatchHandler, BoxBatchHandler, BoxError, BoxHandler, Handler};
pub use job::{Job, JobStatus, When};
pub use leased::{is_leased, while_leased};
pub use migration::Migration;
pub use outbox::{Entry, Hidden, Inspect, OpenTransaction, Outbox, PAGE_BYTES, Page, Position, Prune, Pulse, answered};
pub use parked::{Parked, Parking};
pub use prefixed::Prefixed;
pub use relay::Relay;
pub use retry::{Delays, Retry, Verdict};
pub use route::{BATCH, BATCH_MAX, Dead, Filter, Lane, Ordering, Route, Source, Start, To};
pub use subscriber::{Handling, Idempotency, Subscriber};
pub use tls::{Identity, Tls};
/// Ends a relay; re-exported from `tokio-util`.
pub use tokio_util::sync::CancellationToken;
pub use topic::Topic;
pub use trace::adopt_trace;
pub use tx::{Transaction, Tx};
pub use upcast::Upcaster;
pub use vitals::{Counts, Line as LineVitals, Reading, Trouble, Vitals, Worker};
