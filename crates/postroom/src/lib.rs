#![doc = include_str!("../README.md")]

pub mod alert;
mod broker;
pub mod clock;
mod destination;
mod emit;
mod error;
mod event;
mod job;
pub mod operate;
mod policy;
mod relay;
mod route;
mod state;
mod store;
mod subscriber;

pub use broker::fields::Fields;
pub use broker::namespaced::Namespaced;
pub use broker::tls::{Identity, Tls};
pub use broker::{Broker, Join, Letter, Mark, Message, Origin, Risk, Subscription};
pub use destination::leased::{is_leased, while_leased};
pub use destination::local::{LogDestination, NullDestination};
pub use destination::{Batch, Destination, Receipt};
pub use emit::ingest::ingest;
pub use emit::nudge;
pub use emit::{append, cancel, check_due_at, emit, emit_at, schedule};
pub use error::{BoxError, Condition, Error, ErrorKind, Letters, NextStep, Result, reject};
pub use event::catalog::{EventType, Naming};
pub use event::cause::{HOPS_MAX, TRACEPARENT};
pub use event::entry::{Entry, Position};
pub use event::envelope::{Envelope, Mode};
pub use event::screen::Screen;
pub use event::topic::Topic;
pub use event::trace::adopt_trace;
pub use event::upcast::Upcaster;
pub use event::writer::{Writer, Written};
pub use event::{
    CAUSATION_ID, DomainEvent, Event, HEADERS_BYTES_MAX, HOPS, Headers, KEY_BYTES_MAX, Key, PAYLOAD_BYTES_MAX,
    TYPE_BYTES_MAX, parse_payload,
};
pub use event::{catalog, envelope, lenient_json};
pub use job::{Job, JobStatus, When};
pub use operate::{dead, replay};
pub use policy::filter::Filter;
pub use policy::ordering::{Lane, Ordering};
pub use policy::probe::{AFTER_MAX, PROBE_EVERY, Probe};
pub use policy::retry::{Delays, Retry, Verdict};
pub use policy::{Dead, Start};
pub use relay::Relay;
pub use relay::health::{Counts, Health, Reading, Trouble, Worker, WorkerHealth};
pub use route::{BATCH, BATCH_MAX, Route, Source, To};
pub use state::outage::Side;
pub use state::parked::{Parked, Parking};
pub use store::fault::Fault;
pub use store::migration::Migration;
pub use store::outbox::{
    Hidden, HiddenTransactions, Inspect, OpenTransaction, Outbox, PAGE_BYTES, Page, Prune, Pulse, with_timeout,
};
#[cfg(any(feature = "postgres", feature = "mysql", test))]
pub use store::reconnect;
pub use store::setting::{SettingCheck, Wanted};
pub use store::tx::{Transaction, Tx};
pub use store::{db_clock, migration, table};
pub use subscriber::external::{BoxTask, Database, ExternalTask};
pub use subscriber::form::Form;
pub use subscriber::handler::{AsyncFunction, BatchHandler, BoxBatchHandler, BoxHandler, Handler};
pub use subscriber::reader::Reader;
pub use subscriber::{Handling, Idempotency, Subscriber};
/// Ends a relay; re-exported from `tokio-util`.
pub use tokio_util::sync::CancellationToken;
