//! The names of keys.
//!
//! All keys of a topic carry its name as their hash tag, so that in a cluster they lie on one node: a script adds a batch
//! to several partitions in one step, buries and acknowledges in one step, and one call waits on all partitions. Topics
//! spread over the nodes; partitions are there for the members of a group, not for the server, whose one node takes more
//! than a topic brings. A topic that outgrows a node is cut into several (`app.{type}`).

use postroom::{Error, Result};

/// How keys are named on this server.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        if prefix.contains(['{', '}']) {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} has braces; they mark what stays together in a cluster"
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

    /// Where dead letters of a topic are kept.
    pub(crate) fn dead(&self, topic: &str) -> String {
        format!("{}{{{topic}}}:dead", self.prefix)
    }

    /// How many partitions a topic has.
    pub(crate) fn partitions(&self, topic: &str) -> String {
        format!("{}{{{topic}}}:partitions", self.prefix)
    }

    /// Who in a group works which partition of a topic.
    pub(crate) fn leases(&self, topic: &str, group: &str) -> String {
        format!("{}{{{topic}}}:leases:{group}", self.prefix)
    }
}

/// Whether a name can be a hash tag.
pub(crate) fn check(topic: &str) -> Result<()> {
    if topic.is_empty() || topic.contains(['{', '}']) {
        return Err(Error::invalid(format!("the topic {topic:?} is empty or has braces")));
    }
    Ok(())
}
