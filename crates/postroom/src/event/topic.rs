//! Topics by convention: from the type of an event to the place on a broker where it belongs.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::event::envelope::domain;

/// Names a broker allows in common: Kafka's alphabet, the narrowest.
const NAME_BYTES_MAX: usize = 249;

/// A topic, or a template of topics: `{domain}-events` makes `order-events` of `loopers.order.paid.v1`; `{type}` is the whole
/// type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic(String);

impl Topic {
    /// The topic of an event type.
    pub fn of(&self, event_type: &str) -> String {
        self.0
            .replace("{domain}", domain(event_type))
            .replace("{type}", event_type)
    }

    /// The topic itself, if it is the same for every type.
    pub fn fixed(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|text| !text.contains('{'))
    }

    /// The same behind a prefix.
    #[must_use]
    pub fn prefixed(&self, prefix: &str) -> Self {
        Self(format!("{prefix}{}", self.0))
    }
}

impl Default for Topic {
    fn default() -> Self {
        Self("{domain}-events".to_owned())
    }
}

impl FromStr for Topic {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain = text.replace("{domain}", "d").replace("{type}", "t");
        if let Some(odd) = plain.chars().find(|c| !is_legal(*c)) {
            return Err(Error::invalid(format!(
                "the topic {text:?} contains {odd:?}; use letters, digits, '.', '_', '-' and the parts {{domain}} and {{type}}"
            )));
        }
        if plain.is_empty() || plain.len() > NAME_BYTES_MAX || plain == "." || plain == ".." {
            return Err(Error::invalid(format!(
                "the topic {text:?} cannot be used; give a name of 1 to {NAME_BYTES_MAX} characters"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_follows_from_the_type() {
        let check = |topic: &str, event_type: &str, expected: &str| {
            assert_eq!(topic.parse::<Topic>().unwrap().of(event_type), expected);
        };
        check("{domain}-events", "loopers.order.paid.v1", "order-events");
        check("{domain}-events", "loopers.like.created.v1", "like-events");
        check("ledger-events", "ledger.account.credited", "ledger-events");
        check("app.{type}", "shop.sold", "app.shop.sold");
        assert_eq!(Topic::default().of("a.b.c"), "b-events");
    }

    #[test]
    fn a_topic_no_broker_takes_is_refused() {
        for bad in ["", ".", "a b", "{tenant}", &"x".repeat(250)] {
            assert!(bad.parse::<Topic>().is_err(), "{bad:?}");
        }
    }
}
