#![doc = include_str!("../README.md")]

pub mod fan_out;
pub mod rate_limit;
pub mod registry;
pub mod state;
pub mod tally;
pub mod ticket;

pub use fan_out::{FanOut, Listener, LocalFanOut, Message};
pub use rate_limit::{LocalRateLimiter, RateLimiter, Taken};
pub use registry::{LocalRegistry, Registry};
pub use state::{SharedState, Slot};
pub use tally::{LocalTally, Tally};
pub use ticket::{LocalTickets, Tickets};
