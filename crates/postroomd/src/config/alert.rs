//! `[alerts]`: how often alert rules are looked at, and who is told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom::alert::{Channel, Messenger};
use postroom_host::Messengers;
use postroom_http::{PagerDuty, Slack};
use toml::Value;

use super::section::Section;
use super::value;

const EVERY_MIN: Duration = Duration::from_secs(1);
/// As long as a routing key of PagerDuty is.
const KEY_CHARS: usize = 32;

/// `[alerts]`
#[derive(Clone, PartialEq)]
pub(crate) struct Alerts {
    pub(crate) every: Duration,
    /// A secret: every holder of this address can post to the channel.
    slack: Option<String>,
    /// A secret: every holder of this key can page the people on call.
    pagerduty: Option<String>,
    pagerduty_url: String,
}

impl Default for Alerts {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(30),
            slack: None,
            pagerduty: None,
            pagerduty_url: PagerDuty::URL.to_owned(),
        }
    }
}

/// Secrets are not shown.
impl fmt::Debug for Alerts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alerts(every {:?}, to {:?})", self.every, self.channels())
    }
}

impl Alerts {
    /// The configured channels.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        let slack = self.slack.as_ref().map(|_| Channel::Slack);
        let pagerduty = self.pagerduty.as_ref().map(|_| Channel::PagerDuty);
        slack.into_iter().chain(pagerduty).collect()
    }

    /// The clients that send notices, by channel; `source` names the machine in a notice.
    pub(crate) fn messengers(&self, source: &str) -> postroom::Result<Messengers> {
        let mut messengers = Messengers::new();
        if let Some(url) = &self.slack {
            let slack: Arc<dyn Messenger> = Arc::new(Slack::new(url)?);
            messengers.insert(Channel::Slack, slack);
        }
        if let Some(key) = &self.pagerduty {
            let pagerduty: Arc<dyn Messenger> = Arc::new(PagerDuty::new(&self.pagerduty_url, key, source)?);
            messengers.insert(Channel::PagerDuty, pagerduty);
        }
        Ok(messengers)
    }
}

pub(super) fn read(section: &mut Section<'_>) -> Alerts {
    let default = Alerts::default();
    Alerts {
        every: section.take_or("every", value::duration_from(EVERY_MIN), default.every),
        slack: section.take("slack", slack),
        pagerduty: section.take("pagerduty", routing_key),
        pagerduty_url: section.take_or("pagerduty_url", value::http_url, default.pagerduty_url),
    }
}

/// An address that is not repeated when it is wrong.
fn slack(value: &Value) -> Result<String, String> {
    let url = value.as_str().filter(|url| Slack::new(url).is_ok());
    url.map(str::to_owned)
        .ok_or_else(|| "must be the address of an incoming webhook, https://…".to_owned())
}

fn routing_key(value: &Value) -> Result<String, String> {
    let key = value::secret(value)?;
    match key.chars().count() {
        KEY_CHARS => Ok(key),
        other => Err(format!(
            "must be a routing key of {KEY_CHARS} characters, not one of {other}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn read(toml: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
        let owned = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::read(toml, owned).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_environment_brings_the_secrets_and_nothing_shows_them() {
        let environment = [
            ("POSTROOM__ALERTS__SLACK", "https://hooks.slack.com/services/T/B/hush"),
            ("POSTROOM__ALERTS__PAGERDUTY", KEY),
        ];
        let alerts = read("[alerts]\nevery = \"5s\"", &environment).unwrap().alerts;
        let shown = format!("{alerts:?} {:?}", alerts.messengers("here").unwrap());
        assert!(shown.starts_with("Alerts(every 5s, to [Slack, PagerDuty])"), "{shown}");
        assert!(!shown.contains("hush") && !shown.contains(KEY), "{shown}");
        assert!(read("", &[]).unwrap().alerts.messengers("here").unwrap().is_empty());
    }

    #[test]
    fn mistakes_are_told_without_the_secrets() {
        let toml = "[alerts]\nevery = \"1ms\"\nslack = \"hush\"\npagerduty = \"hush-hush\"\npagerduty_url = \"events\"";
        insta::assert_snapshot!(read(toml, &[]).unwrap_err());
    }
}
