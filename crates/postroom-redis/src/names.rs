//! The names of keys in Redis.
//!
//! All keys of a topic use its name as hash tag, so in a cluster they are on one node: a script can add a batch to several
//! partitions, and one blocking read covers all partitions. Topics are distributed over the nodes. Partitions only distribute
//! the work of a topic over the members of a group. Split a topic that exceeds the capacity of a node (`app.{type}`).

use std::fmt::Write as _;

use postroom::{Error, Result};
use sha2::{Digest as _, Sha256};

/// Builds the names of keys.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        if prefix.contains(['{', '}']) {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} contains braces; Redis reserves them for hash tags"
            )));
        }
        Ok(Self {
            prefix: prefix.to_owned(),
        })
    }

    /// The stream of a partition.
    pub(crate) fn stream(&self, topic: &str, partition: u16) -> String {
        format!("{}{{{topic}}}:{partition}", self.prefix)
    }

    /// Every stream of a topic.
    pub(crate) fn streams(&self, topic: &str, partitions: u16) -> Vec<String> {
        (0..partitions).map(|partition| self.stream(topic, partition)).collect()
    }

    /// The stream of a topic's dead letters.
    pub(crate) fn dead(&self, topic: &str) -> String {
        format!("{}{{{topic}}}:dead", self.prefix)
    }

    /// The key with the number of partitions of a topic.
    pub(crate) fn partitions(&self, topic: &str) -> String {
        format!("{}{{{topic}}}:partitions", self.prefix)
    }

    /// The hash with the leases of a group on a topic.
    pub(crate) fn leases(&self, topic: &str, group: &str) -> String {
        format!("{}{{{topic}}}:leases:{group}", self.prefix)
    }

    /// The counter of a client. The client may be a person's address, so its name is hashed. The hash keeps it out of listings and
    /// logs; it does not stop a reader of Redis who tries all addresses.
    pub(crate) fn rate(&self, client: &str) -> String {
        let mut name = format!("{}rate:", self.prefix);
        for byte in Sha256::digest(client).iter().take(16) {
            // Writing to a string cannot fail.
            write!(name, "{byte:02x}").unwrap_or_default();
        }
        name
    }
}

/// Checks that a topic can be a hash tag.
pub(crate) fn check(topic: &str) -> Result<()> {
    if topic.is_empty() || topic.contains(['{', '}']) {
        return Err(Error::invalid(format!(
            "the topic {topic:?} is empty or contains braces"
        )));
    }
    Ok(())
}
