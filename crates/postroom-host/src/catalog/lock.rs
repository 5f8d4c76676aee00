//! The lock file: the catalogue as it was committed, so that a change that breaks somebody is seen before it is merged.

use std::collections::BTreeMap;

use postroom::catalog;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Catalogue;

/// Each event as others rely on it, by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lock(BTreeMap<String, Locked>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Locked {
    aggregate_type: String,
    publisher: String,
    topic: String,
    schema: Value,
}

/// The catalogue compared with its lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Breaking changes, each with the way out.
    pub breaches: Vec<String>,
    /// Compatible changes that are not locked yet.
    pub news: Vec<String>,
}

impl Lock {
    pub(super) fn of(catalogue: &Catalogue) -> Self {
        let locked = catalogue.events.iter().map(|listed| {
            let locked = Locked {
                aggregate_type: listed.event.aggregate_type.to_owned(),
                publisher: listed.publisher.to_owned(),
                topic: listed.topic.clone(),
                schema: listed.event.schema.clone().to_value(),
            };
            (listed.event.name.to_owned(), locked)
        });
        Self(locked.collect())
    }

    /// Compares what is committed with what the code says now.
    pub fn against(&self, now: &Self) -> Verdict {
        let mut verdict = Verdict::default();
        for (name, was) in &self.0 {
            match now.0.get(name) {
                Some(is) => was.compare(is, name, &mut verdict),
                None => verdict.breaches.push(format!(
                    "{name} is gone: its events may still be in logs, archives and topics. Bring it back; when nobody can meet \
                     one any more, take it out of the lock file"
                )),
            }
        }
        for name in now.0.keys().filter(|name| !self.0.contains_key(*name)) {
            verdict.news.push(format!("{name} is new"));
        }
        verdict
    }
}

impl Locked {
    fn compare(&self, is: &Self, name: &str, verdict: &mut Verdict) {
        let before = verdict.breaches.len();
        for (what, was, is) in [
            ("the aggregate", &self.aggregate_type, &is.aggregate_type),
            ("the topic", &self.topic, &is.topic),
        ] {
            if was != is {
                verdict.breaches.push(format!(
                    "{name}: {what} was {was} and is {is}; its readers look there. Undo it, or make a new version beside it"
                ));
            }
        }
        for breach in catalog::breaches(&self.schema, &is.schema) {
            verdict.breaches.push(format!(
                "{name}: {breach}. Undo it, or make a new version beside it, with an upcaster from this one"
            ));
        }
        if self != is && verdict.breaches.len() == before {
            verdict
                .news
                .push(format!("{name} has changed, and nobody breaks on it"));
        }
    }
}
