//! The catalogue: what can happen, as others may rely on it.

mod event_type;
mod evolution;
mod naming;

pub use event_type::EventType;
pub use evolution::{Breach, breaches};
pub use naming::Naming;
