//! User activity collection for tasteam. It knows both sides; tasteam does not know it. One file per collected event.

mod group_joined;
mod review_created;
mod search_executed;

use std::sync::{Arc, LazyLock};

use postroom_activity::{Activity, Recorder};
use postroom_host::Module;
use tasteam::Tasteam;

pub use group_joined::GroupJoinedMapper;
pub use review_created::ReviewCreatedMapper;
pub use search_executed::SearchRecorder;

/// The searches of this process, from the module `tasteam` to the module `activity`.
static SEARCHES: LazyLock<Recorder> = LazyLock::new(Recorder::default);

/// The module `tasteam`, whose searches this process collects if the module `activity` is on.
pub fn tasteam() -> Module {
    let searches = Arc::new(SearchRecorder(SEARCHES.clone()));
    Tasteam::default().observer(searches).module()
}

/// The module `activity`, which collects what happens in tasteam.
pub fn activity() -> Module {
    collecting(SEARCHES.clone()).module()
}

/// Activity collection with the mappers of tasteam. It also stores the events that are recorded with `recorder`.
pub fn collecting(recorder: Recorder) -> Activity {
    Activity::default()
        .mapper(ReviewCreatedMapper)
        .mapper(GroupJoinedMapper)
        .recorder(recorder)
}
