//! The settings of the module: the section `[modules.community]`.

use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;

/// The settings of the community.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// How often changes of comment counts are added to the posts.
    pub flush_interval_ms: NonZeroU64,
    /// How long notifications and their frames are kept, read or not.
    pub notification_days: NonZeroU32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flush_interval_ms: const { NonZeroU64::new(3_000).unwrap() },
            notification_days: const { NonZeroU32::new(30).unwrap() },
        }
    }
}
