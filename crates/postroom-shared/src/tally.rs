//! Tally: changes of counters that are committed and not yet in the counter's own row, for reads that want the newest number.
//!
//! The database has the truth. A tally may be lost at any time: reads then show the number of the last flush.

mod local;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;

pub use local::LocalTally;

/// Sums changes per counter until they are settled.
///
/// The contract, which `postroom_testkit::tally_suite` checks:
///
/// 1. The sum of a counter is the sum of the changes that were added and not settled. A change counts once however often it is
///    added, on whichever instance.
/// 2. A change that is settled before it is added is never counted (within [`KEPT`]). Settling twice does nothing.
/// 3. A change that is neither settled nor added again within [`KEPT`] is forgotten: what a restored or half-lost state says
///    too much is right again after that time.
/// 4. Counters are independent of each other, and so are changes of different counters with the same id.
/// 5. Concurrent calls of all instances lose and double nothing.
#[async_trait]
pub trait Tally: fmt::Debug + Send + Sync {
    /// Adds changes.
    async fn add(&self, changes: &[Change]) -> Result<()>;

    /// Takes changes out again, because the counter's own row contains them now.
    async fn settle(&self, changes: &[Change]) -> Result<()>;

    /// The sums of these counters, in the same order; 0 for one without changes.
    async fn read(&self, counters: &[String]) -> Result<Vec<i64>>;
}

/// How long a change is remembered after it was last added, or first settled.
pub const KEPT: Duration = Duration::from_secs(60);

/// A change of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The counter: the name of its key, for example `count:comment:delta:{7}`. The part in braces keeps its keys on one node.
    pub counter: String,
    /// Identifies the change.
    pub id: String,
    /// How much is added to the counter.
    pub delta: i64,
}
