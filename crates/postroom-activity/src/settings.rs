//! The settings of the module: the section `[modules.activity]`, by the names and with the defaults of the specification.

mod client_events;
mod message_queue;
mod pii;

use std::num::{NonZeroU32, NonZeroUsize};

use postroom::Start;
use serde::Deserialize;

use crate::ingest::IngestSettings;
use crate::sink::PosthogSettings;

pub use client_events::ClientEvents;
pub use message_queue::{Group, MessageQueueSettings, PollTimeout, Provider};
pub use pii::{PiiSettings, Secret};

/// The consumer group that stores events, unless the settings say another name.
pub(crate) const GROUP: &str = "activity-store";

/// The environment variables of the specification, each with its key.
pub(crate) const VARIABLES: [(&str, &str); 18] = [
    ("ANALYTICS_ENABLED", "enabled"),
    ("ANALYTICS_MODE", "mode"),
    ("ANALYTICS_CLIENT_INGEST_ENABLED", "client_ingest_enabled"),
    ("ANALYTICS_INGEST_MAX_BATCH_SIZE", "ingest_max_batch_size"),
    ("ANALYTICS_INGEST_RATE_LIMIT_PER_MINUTE", "ingest_rate_limit_per_minute"),
    ("ANALYTICS_STRICT_SERVER_EVENT_LOSSLESS", "strict_server_event_lossless"),
    ("ANALYTICS_KEYWORD_MODE", "pii.keyword_mode"),
    ("ANALYTICS_STORE_IP", "pii.store_ip"),
    ("ANALYTICS_STORE_USER_AGENT", "pii.store_user_agent"),
    ("ANALYTICS_HASH_SECRET", "pii.hash_secret"),
    ("ANALYTICS_HASH_SECRETS_OLD", "pii.hash_secrets_old"),
    ("ANALYTICS_POSTHOG_ENABLED", "posthog.enabled"),
    ("ANALYTICS_POSTHOG_HOST", "posthog.host"),
    ("ANALYTICS_POSTHOG_PROJECT_API_KEY", "posthog.project_api_key"),
    ("ANALYTICS_POSTHOG_BATCH_SIZE", "posthog.batch_size"),
    ("ANALYTICS_POSTHOG_TIMEOUT_MS", "posthog.timeout_ms"),
    ("ANALYTICS_POSTHOG_MAX_RETRIES", "posthog.max_retries"),
    ("ANALYTICS_POSTHOG_CIRCUIT_OPEN_SECONDS", "posthog.circuit_open_seconds"),
];

/// The settings of activity collection.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Where activity goes. Unless set: to the table of this module only.
    pub mode: Option<Mode>,
    /// Whether clients may send events.
    pub client_ingest_enabled: bool,
    /// Events in one request of a client.
    pub ingest_max_batch_size: NonZeroUsize,
    /// Requests of one client in a minute.
    pub ingest_rate_limit_per_minute: NonZeroU32,
    /// Whether facts of the server are mapped however long that takes. If not, the mapping of an event is given up after an hour.
    pub strict_server_event_lossless: bool,
    /// Personal data.
    pub pii: PiiSettings,
    /// The queue between mapped events and their store.
    pub message_queue: MessageQueueSettings,
    /// The events that clients may send, beside those that the code lists.
    pub client_events: ClientEvents,
    /// Where collection begins when it is switched on: with the oldest event that the outbox holds, or with the next one.
    pub start: Start,
    /// PostHog.
    pub posthog: PosthogSettings,
}

/// Where activity goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Mode {
    /// To the table of this module only.
    #[default]
    InternalOnly,
    /// Also to PostHog, if it is enabled.
    InternalPlusPosthog,
}

impl Default for Settings {
    fn default() -> Self {
        let ingest = IngestSettings::default();
        Self {
            mode: None,
            client_ingest_enabled: ingest.client_ingest_enabled,
            ingest_max_batch_size: ingest.ingest_max_batch_size,
            ingest_rate_limit_per_minute: ingest.ingest_rate_limit_per_minute,
            strict_server_event_lossless: true,
            pii: PiiSettings::default(),
            message_queue: MessageQueueSettings::default(),
            client_events: ClientEvents::default(),
            start: Start::Beginning,
            posthog: PosthogSettings::default(),
        }
    }
}

impl Settings {
    /// Whether events go to PostHog: the mode and PostHog's own switch must both say so.
    pub fn sends_to_posthog(&self) -> bool {
        self.mode == Some(Mode::InternalPlusPosthog) && self.posthog.enabled == Some(true)
    }

    /// Whether a setting says that PostHog is off. Without any, another process of the same store may send to it.
    pub(crate) fn switches_posthog_off(&self) -> bool {
        self.mode == Some(Mode::InternalOnly) || self.posthog.enabled == Some(false)
    }

    pub(crate) fn ingest(&self) -> IngestSettings {
        IngestSettings {
            client_ingest_enabled: self.client_ingest_enabled,
            ingest_max_batch_size: self.ingest_max_batch_size,
            ingest_rate_limit_per_minute: self.ingest_rate_limit_per_minute,
        }
    }

    /// Everything that is wrong with them.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut must = |is_so: bool, says: &str| {
            if !is_so {
                mistakes.push(says.to_owned());
            }
        };
        must(
            self.ingest_max_batch_size.get() <= 1_000,
            "ingest_max_batch_size must be 1 to 1000",
        );
        if self.sends_to_posthog()
            && let Err(error) = self.posthog.check()
        {
            mistakes.push(format!("posthog.{}", error.report()));
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use postroom_pii::KeywordMode;

    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        let settings = Settings::default();
        assert_eq!(settings.mode, None);
        assert!(!settings.sends_to_posthog() && !settings.switches_posthog_off());
        assert_eq!(
            (
                settings.ingest_max_batch_size.get(),
                settings.ingest_rate_limit_per_minute.get()
            ),
            (100, 120)
        );
        assert!(!settings.client_ingest_enabled && settings.strict_server_event_lossless);
        let pii = &settings.pii;
        assert_eq!(
            (pii.keyword_mode, pii.store_ip, pii.store_user_agent),
            (KeywordMode::Hash, false, false)
        );
        assert_eq!(settings.start, Start::Beginning);
        let posthog = &settings.posthog;
        assert_eq!(posthog.start, Start::Head);
        assert_eq!(
            (posthog.enabled, posthog.host.as_str()),
            (None, "https://app.posthog.com")
        );
        assert_eq!((posthog.batch_size, posthog.timeout_ms), (100, 3_000));
        assert_eq!((posthog.max_retries, posthog.circuit_open_seconds), (5, 60));
        assert_eq!(settings.mistakes(), Vec::<String>::new());
    }

    #[test]
    fn posthog_needs_both_switches_and_a_key() {
        let mut settings = Settings {
            mode: Some(Mode::InternalPlusPosthog),
            ..Settings::default()
        };
        assert!(!settings.sends_to_posthog());
        settings.posthog.enabled = Some(true);
        assert!(settings.sends_to_posthog());
        assert!(
            settings.mistakes()[0].contains("project_api_key"),
            "{:?}",
            settings.mistakes()
        );
        settings.posthog.project_api_key = "phc_x".to_owned();
        assert!(settings.mistakes().is_empty());
        settings.mode = Some(Mode::InternalOnly);
        assert!(!settings.sends_to_posthog() && settings.switches_posthog_off());
        assert!(!format!("{settings:?}").contains("phc_x"), "the key is in no log");
    }
}
