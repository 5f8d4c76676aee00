//! Restaurant reviews, groups and search.
//!
//! It reports what happened by events in its transactions, and searches to an observer. It does not know who listens: that user
//! activity is collected is the matter of other crates (`tasteam-activity`).

mod events;
mod http;
mod search;
mod tables;

use std::sync::Arc;

use postroom_host::Module;

pub use events::{GroupJoined, JoinType, ReviewCreated};
pub use search::{SearchExecuted, SearchObserver};

/// The module's name.
pub const NAME: &str = "tasteam";

/// The service.
#[derive(Clone, Debug, Default)]
pub struct Tasteam {
    observers: Vec<Arc<dyn SearchObserver>>,
}

impl Tasteam {
    /// Adds an observer of searches.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn SearchObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// The module.
    pub fn module(self) -> Module {
        Module::new(NAME)
            .tables(tables::all())
            .event::<ReviewCreated>()
            .event::<GroupJoined>()
            .http(http::routes(self.observers.into()))
    }
}

/// The module, with no observer of searches.
pub fn module() -> Module {
    Tasteam::default().module()
}
