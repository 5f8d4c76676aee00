//! The settings of a project.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use postroom::{Error, Result, Start};
use serde::Deserialize;

const BATCH_SIZES: RangeInclusive<usize> = 1..=500;
const TIMEOUTS_MS: RangeInclusive<u64> = 100..=60_000;
const CIRCUIT_OPEN_S: RangeInclusive<u64> = 1..=86_400;
const KEY_BYTES_MAX: usize = 64;

/// The project of PostHog that takes events, and how they are sent. `Debug` does not print the key.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PosthogSettings {
    /// Whether events are sent. The mode of the module must say so too. Unless set: no.
    pub enabled: Option<bool>,
    /// Its address. The addresses of PostHog's web application mean those of its ingestion, for example `https://app.posthog.com`
    /// means `https://us.i.posthog.com`.
    pub host: String,
    /// The key of the project, which begins with `phc_`.
    pub project_api_key: String,
    /// Most events in a request.
    pub batch_size: usize,
    /// The total time of a request, in milliseconds.
    pub timeout_ms: u64,
    /// After so many refusals an event becomes a dead letter. Outages do not count.
    pub max_retries: u32,
    /// So many seconds the project is left alone after an outage, before it is tried again.
    pub circuit_open_seconds: u64,
    /// Where sending begins when it is switched on: with the next stored event, or with the oldest that the outbox holds.
    pub start: Start,
}

impl Default for PosthogSettings {
    fn default() -> Self {
        Self {
            enabled: None,
            host: "https://app.posthog.com".to_owned(),
            project_api_key: String::new(),
            batch_size: 100,
            timeout_ms: 3_000,
            max_retries: 5,
            circuit_open_seconds: 60,
            start: Start::Head,
        }
    }
}

impl PosthogSettings {
    /// Checks every field. The error names the field, the limit and the way out, and does not repeat the key.
    pub fn check(&self) -> Result<()> {
        check_key(self.project_api_key.trim())?;
        if !BATCH_SIZES.contains(&self.batch_size) {
            return Err(out_of_range("batch_size", &self.batch_size, &BATCH_SIZES));
        }
        if !TIMEOUTS_MS.contains(&self.timeout_ms) {
            return Err(out_of_range("timeout_ms", &self.timeout_ms, &TIMEOUTS_MS));
        }
        if !CIRCUIT_OPEN_S.contains(&self.circuit_open_seconds) {
            return Err(out_of_range(
                "circuit_open_seconds",
                &self.circuit_open_seconds,
                &CIRCUIT_OPEN_S,
            ));
        }
        if self.max_retries == 0 {
            return Err(Error::invalid("max_retries is 0; set at least 1"));
        }
        Ok(())
    }

    /// The address of the ingestion, without a slash at the end.
    pub(super) fn origin(&self) -> String {
        let host = self.host.trim().trim_end_matches('/');
        let (scheme, name) = host.split_once("://").unwrap_or(("https", host));
        let name = match name {
            "posthog.com" | "app.posthog.com" | "us.posthog.com" => "us.i.posthog.com",
            "eu.posthog.com" => "eu.i.posthog.com",
            other => other,
        };
        format!("{scheme}://{name}")
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

fn check_key(key: &str) -> Result<()> {
    let wrong = match key {
        "" => "is empty",
        _ if key.len() > KEY_BYTES_MAX => "has more than 64 bytes",
        _ if !key.bytes().all(|byte| byte.is_ascii_graphic()) => "contains a character that no key has",
        _ if key.starts_with("phx_") => "is a personal API key",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!(
        "project_api_key {wrong}; set the project API key from the settings of the project, which begins with phc_"
    )))
}

fn out_of_range<T: fmt::Display>(field: &str, value: &T, range: &RangeInclusive<T>) -> Error {
    Error::invalid(format!(
        "{field} is {value}; set a number from {} to {}",
        range.start(),
        range.end()
    ))
}

impl fmt::Debug for PosthogSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PosthogSettings")
            .field("enabled", &self.enabled)
            .field("host", &self.host)
            .field("batch_size", &self.batch_size)
            .field("timeout_ms", &self.timeout_ms)
            .field("max_retries", &self.max_retries)
            .field("circuit_open_seconds", &self.circuit_open_seconds)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(key: &str) -> PosthogSettings {
        PosthogSettings {
            project_api_key: key.to_owned(),
            ..PosthogSettings::default()
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        let settings: PosthogSettings = serde_json::from_str(r#"{"project_api_key":"phc_1"}"#).unwrap();
        assert_eq!(settings, with_key("phc_1"));
        assert_eq!((settings.batch_size, settings.timeout_ms), (100, 3_000));
        assert_eq!((settings.max_retries, settings.circuit_open_seconds), (5, 60));
        assert_eq!(settings.origin(), "https://us.i.posthog.com");
    }

    #[test]
    fn an_address_of_the_application_means_the_ingestion() {
        let check = |host: &str, expected: &str| {
            let settings = PosthogSettings {
                host: host.to_owned(),
                ..PosthogSettings::default()
            };
            assert_eq!(settings.origin(), expected, "{host}");
        };
        check("app.posthog.com", "https://us.i.posthog.com");
        check("https://us.posthog.com/", "https://us.i.posthog.com");
        check("https://eu.posthog.com", "https://eu.i.posthog.com");
        check("https://eu.i.posthog.com", "https://eu.i.posthog.com");
        check("http://127.0.0.1:8000", "http://127.0.0.1:8000");
        check("https://example.com/ingest/", "https://example.com/ingest");
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named_and_the_key_is_not_shown() {
        let long = format!("phc_{}", "sesame".repeat(11));
        for (key, says) in [
            ("", "is empty"),
            (&long, "more than 64 bytes"),
            ("phc_ses\u{e4}me", "no key has"),
            ("phx_sesame", "personal API key"),
        ] {
            let report = with_key(key).check().unwrap_err().report();
            assert!(report.contains("project_api_key") && report.contains(says), "{report}");
            assert!(!report.contains("same"), "{report}");
        }
        let mut settings = with_key("phc_sesame");
        settings.check().unwrap();
        assert!(!format!("{settings:?}").contains("sesame"));
        settings.batch_size = 501;
        let report = settings.check().unwrap_err().report();
        assert!(
            report.contains("batch_size is 501; set a number from 1 to 500"),
            "{report}"
        );
    }
}
