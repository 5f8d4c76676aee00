//! The settings of the module: the section `[modules.community]`.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::Deserialize;

use crate::domain::Limits;

/// The longest time that retention takes.
const DAYS_MAX: u32 = 3_650;

/// The settings of the community.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// How often changes of comment counts are added to the posts.
    pub flush_interval_ms: NonZeroU64,
    /// How long notifications and their frames are kept, read or not.
    pub notification_days: NonZeroU32,
    /// How long the frames of chat are kept in the streams of members: from those, connections resume.
    pub chat_frame_days: NonZeroU32,
    /// The streams of notifications.
    pub stream: StreamSettings,
    /// The longest texts that members may write, in characters.
    pub limits: Limits,
}

/// The settings of the streams of notifications.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StreamSettings {
    /// Connections of one member over all instances. Beyond it, the oldest one ends.
    pub connections_per_member: NonZeroU32,
    /// How long a connection lives. Its client comes back by itself.
    pub lifetime_seconds: NonZeroU32,
    /// How often a connection gets a `ping`.
    pub ping_seconds: NonZeroU32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flush_interval_ms: const { NonZeroU64::new(3_000).unwrap() },
            notification_days: const { NonZeroU32::new(30).unwrap() },
            chat_frame_days: const { NonZeroU32::new(7).unwrap() },
            stream: StreamSettings::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            connections_per_member: const { NonZeroU32::new(3).unwrap() },
            lifetime_seconds: const { NonZeroU32::new(1_800).unwrap() },
            ping_seconds: const { NonZeroU32::new(20).unwrap() },
        }
    }
}

impl Settings {
    /// How long the longest-lived frames are kept.
    pub(crate) fn frames_kept(&self) -> Duration {
        days(self.notification_days.max(self.chat_frame_days))
    }

    /// Settings that have the right type and cannot be used, each with its key.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut mistakes = self.limits.mistakes();
        let mut must = |is_so: bool, key, says: &str| {
            if !is_so {
                mistakes.push((key, says.to_owned()));
            }
        };
        let flush = self.flush_interval_ms.get();
        must(
            (100..=30_000).contains(&flush),
            "flush_interval_ms",
            "must be 100 to 30000",
        );
        let are_kept = |days: NonZeroU32| days.get() <= DAYS_MAX;
        must(
            are_kept(self.notification_days),
            "notification_days",
            "must be 1 to 3650",
        );
        must(are_kept(self.chat_frame_days), "chat_frame_days", "must be 1 to 3650");
        let StreamSettings {
            connections_per_member,
            lifetime_seconds,
            ping_seconds,
        } = self.stream;
        must(
            connections_per_member.get() <= 100,
            "stream.connections_per_member",
            "must be 1 to 100",
        );
        must(
            (10..=86_400).contains(&lifetime_seconds.get()),
            "stream.lifetime_seconds",
            "must be 10 to 86400",
        );
        must(
            ping_seconds.get() <= 300 && ping_seconds < lifetime_seconds,
            "stream.ping_seconds",
            "must be 1 to 300, and less than stream.lifetime_seconds",
        );
        mistakes
    }
}

/// So many days.
pub(crate) fn days(days: NonZeroU32) -> Duration {
    Duration::from_secs(u64::from(days.get()) * 86_400)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        let settings = Settings::default();
        assert_eq!(settings.flush_interval_ms.get(), 3_000);
        assert_eq!(
            (settings.notification_days.get(), settings.chat_frame_days.get()),
            (30, 7)
        );
        let stream = &settings.stream;
        let numbers = (
            stream.connections_per_member.get(),
            stream.lifetime_seconds.get(),
            stream.ping_seconds.get(),
        );
        assert_eq!(numbers, (3, 1_800, 20));
        assert_eq!(settings.mistakes(), Vec::new());
        let empty: Settings = serde_json::from_value(json!({})).unwrap();
        assert_eq!(empty, settings);
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named() {
        let check = |section: serde_json::Value, keys: &[&str]| {
            let settings: Settings = serde_json::from_value(section.clone()).unwrap();
            let found: Vec<&str> = settings.mistakes().into_iter().map(|(key, _)| key).collect();
            assert_eq!(found, keys, "{section}");
        };
        check(json!({ "flush_interval_ms": 99 }), &["flush_interval_ms"]);
        check(json!({ "flush_interval_ms": 100 }), &[]);
        check(
            json!({ "notification_days": 3_651, "chat_frame_days": 3_650 }),
            &["notification_days"],
        );
        check(
            json!({ "stream": { "connections_per_member": 101 } }),
            &["stream.connections_per_member"],
        );
        check(
            json!({ "stream": { "lifetime_seconds": 9, "ping_seconds": 1 } }),
            &["stream.lifetime_seconds"],
        );
        check(
            json!({ "stream": { "ping_seconds": 20, "lifetime_seconds": 20 } }),
            &["stream.ping_seconds"],
        );
        check(
            json!({ "limits": { "title": 201, "comment": 16_000 } }),
            &["limits.title"],
        );
        for wrong in [
            json!({ "stream": { "ping_seconds": 0 } }),
            json!({ "limits": { "post": -1 } }),
        ] {
            assert!(serde_json::from_value::<Settings>(wrong).is_err());
        }
    }
}
