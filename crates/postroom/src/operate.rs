//! The operators' API: the progress of every route, the state of an event, what blocks delivery, and what to do about it.
//!
//! Answers are types: states and reasons are enums with fields, and a [`NextStep`] names an operation with its arguments. A
//! command line or a console renders them. Functions that only look say so: they write nothing, and work for a database user
//! that may only read.

mod audit;
pub mod dead;
mod failure;
mod forget;
mod history;
mod listing;
mod reason;
pub mod replay;
mod retry;
mod setup;
mod status;
mod tail;
mod timeline;
pub mod token;

use crate::error::Result;
use crate::policy::filter::Filter;
use crate::policy::ordering::Ordering;
use crate::state::{cursor, outage};
use crate::store::outbox::Inspect;
use crate::store::table;

pub use crate::error::{Letters, NextStep};
pub use crate::state::cursor::signal;
pub use crate::state::outage::Side;
pub use audit::record as record_act;
pub use failure::{Failures, failures};
pub use forget::{GivenUp, Standing, forget, retire, standing};
pub use history::{History, HistoryPage};
pub use listing::{newest, timelines, undelivered};
pub use reason::{Reason, ReasonKind, why, why_among};
pub use retry::{RetriedNow, retry_now};
pub use setup::{SettingReport, broker_risks, clock_skew, settings};
pub use status::{RouteState, RouteStatus, Status, status};
pub use tail::Tail;
pub use timeline::{Delivery, DeliveryState, Scheduled, Timeline, scheduled, timeline};

/// A route, which events it carries, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// Its name.
    pub route: String,
    /// Which events.
    pub filter: Filter,
    /// Which events wait when one fails.
    pub ordering: Ordering,
}

impl Carrier {
    /// A route that keeps the order of each key.
    pub fn new(route: impl Into<String>, filter: Filter) -> Self {
        Self {
            route: route.into(),
            filter,
            ordering: Ordering::Key,
        }
    }
}

/// How many, in words that fit: `1 entry`, `2 entries`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Pauses or resumes a route, whichever process works it. A route that waits for the next probe of its destination probes at once
/// when it is resumed, also if it was not paused.
pub async fn set_paused(store: &dyn Inspect, route: &str, is_paused: bool, actor: &str) -> Result<()> {
    let tx = table::begin_own(store.db()).await?;
    cursor::set_paused(&tx, route, is_paused).await?;
    let action = if is_paused { "route.pause" } else { "route.resume" };
    let detail = match !is_paused && outage::probe_now(&tx, route).await? {
        true => serde_json::json!({ "probe": "now" }),
        false => serde_json::json!({}),
    };
    audit::record(&tx, actor, action, route, &detail).await?;
    signal(&tx, route).await?;
    tx.commit().await?;
    Ok(())
}
