//! `[modules.activity.message_queue]`: the queue between mapped events and their store, by the names of the specification.

use std::num::NonZeroU32;
use std::time::Duration;

use postroom_host::Queue;
use serde::Deserialize;

use super::GROUP;

/// The settings of the message queue. For a setting that is left out, `broker` of the module and the section of the broker decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MessageQueueSettings {
    /// Whether mapped events go through the queue, and events of other programs come from it.
    pub enabled: Option<bool>,
    /// The broker.
    pub provider: Option<Provider>,
    /// Stands before `domain.user.activity` in the name of the stream.
    pub topic_prefix: Option<String>,
    /// The consumer group that stores events. Progress and dead letters are kept under this name, also without a queue.
    pub default_consumer_group: Group,
    /// The longest wait of one read, in milliseconds.
    pub poll_timeout_millis: Option<PollTimeout>,
}

/// The broker of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Provider {
    /// Redis Streams.
    #[serde(rename = "redis", alias = "redis-stream")]
    Redis,
}

/// The name of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Group(String);

/// Milliseconds, 1 to 60,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NonZeroU32")]
pub struct PollTimeout(NonZeroU32);

impl MessageQueueSettings {
    /// As the daemon reads it.
    pub(crate) fn queue(&self) -> Queue {
        Queue {
            is_enabled: self.enabled,
            provider: self.provider.map(|Provider::Redis| "redis"),
            topic_prefix: self.topic_prefix.clone(),
            poll_timeout: self
                .poll_timeout_millis
                .map(|PollTimeout(millis)| Duration::from_millis(millis.get().into())),
            names: None,
        }
    }
}

impl Group {
    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

impl Default for Group {
    fn default() -> Self {
        Self(GROUP.to_owned())
    }
}

impl TryFrom<String> for Group {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match (1..=100).contains(&name.len()) && name.chars().all(is_legal) {
            true => Ok(Self(name)),
            false => Err("must be a name of 1 to 100 letters, digits, '.', '_' and '-'".to_owned()),
        }
    }
}

impl TryFrom<NonZeroU32> for PollTimeout {
    type Error = String;

    fn try_from(millis: NonZeroU32) -> Result<Self, String> {
        match millis.get() <= 60_000 {
            true => Ok(Self(millis)),
            false => Err(format!("must be 1 to 60000, not {millis}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(section: Value) -> Result<MessageQueueSettings, String> {
        serde_json::from_value(section).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_asked_for_by_default() {
        let settings = read(json!({})).unwrap();
        assert_eq!(settings.queue(), Queue::default());
        assert_eq!(settings.default_consumer_group.name(), "activity-store");
    }

    #[test]
    fn every_key_has_its_place() {
        let settings = read(json!({
            "enabled": true, "provider": "redis-stream", "topic_prefix": "tasteam:", "default_consumer_group": "tasteam-api",
            "poll_timeout_millis": 1000,
        }));
        let settings = settings.unwrap();
        let wanted = Queue {
            is_enabled: Some(true),
            provider: Some("redis"),
            topic_prefix: Some("tasteam:".to_owned()),
            poll_timeout: Some(Duration::from_secs(1)),
            names: None,
        };
        assert_eq!(settings.queue(), wanted);
        assert_eq!(settings.default_consumer_group.name(), "tasteam-api");
    }

    #[test]
    fn a_value_that_cannot_work_is_refused_with_what_can() {
        let check = |section: Value, words: &str| {
            let said = read(section).unwrap_err();
            assert!(said.contains(words), "{said}");
        };
        check(json!({ "provider": "kafka" }), "`redis`");
        check(json!({ "default_consumer_group": "" }), "1 to 100 letters");
        check(json!({ "default_consumer_group": "a b" }), "1 to 100 letters");
        check(json!({ "poll_timeout_millis": 0 }), "nonzero");
        check(json!({ "poll_timeout_millis": 60_001 }), "1 to 60000");
    }
}
