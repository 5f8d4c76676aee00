//! A route: which entries go to which destination, in what order, with what policy.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::broker::Broker;
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::event::Key;
use crate::outbox::Entry;
use crate::retry::Retry;
use crate::subscriber::Subscriber;

/// The largest batch, for destinations that take many at a time, as brokers do.
pub const BATCH_MAX: usize = 5_000;
/// A batch, if nothing else is said: what is under way together ends together.
pub const BATCH: usize = 1_000;

/// Which entries go where, and how.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name, unique in the database: progress is kept under it.
    pub name: String,
    /// Where its entries come from.
    pub from: Source,
    /// Which entries.
    pub filter: Filter,
    /// Where to.
    pub to: To,
    /// What must not overtake what.
    pub ordering: Ordering,
    /// What happens to refused entries.
    pub retry: Retry,
    /// What a dead letter does to its key.
    pub dead: Dead,
    /// Where a new route begins.
    pub start: Start,
    /// Most entries that are delivered together, or taken from a broker at once: 1 to [`BATCH_MAX`].
    pub batch: usize,
    /// Into how many parts its keys are cut, each with its own lease and cursor, to be worked side by side.
    pub shards: u32,
    /// Groups of the same relay that read what this route publishes. It waits for those that are new to join their broker, 15
    /// seconds at most: some brokers keep nothing for a group they do not know yet.
    pub awaits: Vec<String>,
}

impl Route {
    /// A route with the defaults: every entry, from the beginning, in order by key, one shard.
    pub fn new(name: impl Into<String>, to: To) -> Self {
        Self {
            name: name.into(),
            from: Source::Outbox,
            filter: Filter::all(),
            to,
            ordering: Ordering::Key,
            retry: Retry::default(),
            dead: Dead::Skip,
            start: Start::Beginning,
            batch: BATCH,
            shards: 1,
            awaits: Vec::new(),
        }
    }

    /// Whether this shard of the route delivers the entry when it meets it in the log. A route that a broker feeds follows
    /// the log all the same: it delivers what the broker does not bring, and everything while the broker does not feed it yet.
    pub(crate) fn reads(&self, shard: u32, entry: &Entry, is_fed: bool) -> bool {
        let is_brought = match &self.from {
            Source::Broker { brings, .. } if is_fed => brings.matches(&entry.event.event_type),
            Source::Outbox | Source::Broker { .. } => false,
        };
        !is_brought
            && self.filter.matches(&entry.event.event_type)
            && (self.shards <= 1 || entry.event.key().shard(self.shards) == shard)
    }
}

/// Where the entries of a route come from.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// The log.
    #[default]
    Outbox,
    /// A broker; only what failed is kept in the store, to be retried from there.
    Broker {
        /// Which.
        broker: Arc<dyn Broker>,
        /// The topics to read.
        topics: Vec<String>,
        /// The event types that are published there. Others are read from the log.
        brings: Filter,
        /// Where a group begins that the broker knows no progress of.
        start: Start,
    },
}

/// Where a route leads.
#[derive(Clone, Debug)]
pub enum To {
    /// A broker or sink: delivered, then settled.
    Destination(Arc<dyn Destination>),
    /// A handler in this process: its effect, its inbox row and the progress commit together.
    Subscriber(Arc<Subscriber>),
}

/// What must not overtake what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    /// One line: nothing passes a failed entry until it succeeds or is given up.
    Strict,
    /// A failed entry holds only its own key.
    #[default]
    Key,
    /// Each entry is retried alone.
    None,
}

/// Entries of one lane are delivered one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The one lane of a strict route.
    Line,
    /// The lane of a key.
    Key(Key),
    /// A lane of its own.
    Entry(i64),
}

/// Lanes that stand still.
pub(crate) type Lanes = HashSet<Lane>;

impl Ordering {
    /// The lane of an entry.
    pub fn lane(self, entry: &Entry) -> Lane {
        match self {
            Self::Strict => Lane::Line,
            Self::Key => Lane::Key(entry.event.key()),
            Self::None => Lane::Entry(entry.id),
        }
    }
}

/// What a dead letter does to its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dead {
    /// The key goes on without it.
    #[default]
    Skip,
    /// The key waits until an operator retries or discards it.
    Hold,
}

/// Where a route that the database does not know yet begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// With the oldest entry that is kept.
    #[default]
    Beginning,
    /// With what is emitted from now on.
    Head,
}

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
