//! Patterns over event types.

use std::fmt;

use crate::error::{Error, Result};

/// Patterns over event types: segments are divided by dots, `*` is one segment, `**` the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<String>);

impl Filter {
    /// Every event.
    pub fn all() -> Self {
        Self(vec!["**".to_owned()])
    }

    /// Events whose type matches one of the patterns.
    pub fn any_of<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> Self {
        Self(patterns.into_iter().map(Into::into).collect())
    }

    /// Events that match this filter or the other.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        self.0.extend(
            other
                .0
                .iter()
                .filter(|pattern| !self.0.contains(*pattern))
                .cloned()
                .collect::<Vec<_>>(),
        );
        self
    }

    /// Its patterns.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The patterns of this filter that may match something that the other matches, sorted.
    pub(crate) fn relevant_to(&self, other: &Self) -> Vec<String> {
        let may_match = |pattern: &&String| pattern.contains('*') || other.matches(pattern);
        let mut relevant: Vec<String> = self.0.iter().filter(may_match).cloned().collect();
        relevant.sort();
        relevant
    }

    /// Refuses patterns that could never match what their author meant: empty ones, segments such as `order*`, and `**` before
    /// the end.
    pub fn check(&self) -> Result<()> {
        let wanted = "write event types such as \"shop.order.*\" or \"shop.**\"; * is one whole segment, ** the rest and comes last";
        match self.0.iter().find(|pattern| !is_pattern(pattern)) {
            Some(wrong) => Err(Error::invalid(format!(
                "the pattern {wrong:?} matches no event type; {wanted}"
            ))),
            None if self.0.is_empty() => Err(Error::invalid(format!("there is no pattern; {wanted}"))),
            None => Ok(()),
        }
    }

    /// Whether an event type matches.
    pub fn matches(&self, event_type: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, event_type))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

fn is_pattern(pattern: &str) -> bool {
    let mut segments = pattern.split('.').peekable();
    while let Some(segment) = segments.next() {
        let is_sound = match segment {
            "*" => true,
            "**" => segments.peek().is_none(),
            name => !name.is_empty() && !name.contains('*'),
        };
        if !is_sound {
            return false;
        }
    }
    true
}

fn matches(pattern: &str, event_type: &str) -> bool {
    let mut segments = event_type.split('.');
    for wanted in pattern.split('.') {
        match (wanted, segments.next()) {
            ("**", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(segment)) if wanted == segment => {}
            _ => return false,
        }
    }
    segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        for pattern in ["**", "*", "shop.order.*", "shop.*.paid.v1", "shop.**", "PaymentFailed"] {
            assert!(Filter::any_of([pattern]).check().is_ok(), "{pattern}");
        }
        for pattern in ["", "shop.order*", "a.**.b", "shop.", ".shop", "a..b", "***"] {
            let error = Filter::any_of(["shop.**", pattern]).check().unwrap_err();
            assert!(error.to_string().contains(&format!("{pattern:?}")), "{error}");
        }
        assert!(Filter::any_of([""; 0]).check().is_err());
    }

    #[test]
    fn patterns_match_by_segment() {
        let check = |pattern: &str, event_type: &str, expected: bool| {
            assert_eq!(
                Filter::any_of([pattern]).matches(event_type),
                expected,
                "{pattern} over {event_type}"
            );
        };
        check("**", "anything", true);
        check("shop.order.placed.v1", "shop.order.placed.v1", true);
        check("shop.order.*.v1", "shop.order.placed.v1", true);
        check("shop.order.*", "shop.order.placed.v1", false);
        check("shop.order.**", "shop.order.placed.v1", true);
        check("shop.order.**", "shop.order", false);
        check("shop.order.**", "shop.orders.placed", false);
        check("*", "PaymentFailed", true);
        check("shop", "shop.order", false);
    }
}
