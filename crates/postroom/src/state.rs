//! The relay's state, as rows of the store. Everything that runs reads it here and writes it here; operators too.

pub(crate) mod cursor;
pub(crate) mod dead;
pub(crate) mod feeding;
pub(crate) mod known_failures;
pub(crate) mod outage;
pub(crate) mod parked;
pub(crate) mod renumber;
