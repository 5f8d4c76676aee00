//! The names of keys in Redis, made from the template of stream names.
//!
//! All keys of a topic have the same hash tag, so in a cluster they are on one node: a script can add a batch to several
//! partitions, and one blocking read covers all partitions. Topics are distributed over the nodes. Partitions only distribute
//! the work of a topic over the members of a group. Split a topic that exceeds the capacity of a node (`app.{type}`).

use std::fmt::Write as _;

use postroom::{Error, Result};
use sha2::{Digest as _, Sha256};

/// The template of stream names, unless the options have another one.
pub(crate) const STREAM: &str = "postroom:{{topic}}:{number}";

pub(crate) const TOPIC: &str = "{topic}";
pub(crate) const NUMBER: &str = "{number}";

/// Builds the names of keys.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    template: String,
}

impl Names {
    /// Names by a template that was checked.
    pub(crate) fn new(template: &str, partitions: u16) -> Result<Self> {
        let refused = |says: String| Error::invalid(format!("the stream name {template:?} {says}"));
        let has_tag = has_hash_tag(template).map_err(refused)?;
        let names = Self {
            template: template.to_owned(),
        };
        if names.has_number() && !has_tag {
            return Err(refused(format!(
                "has {NUMBER} and no hash tag, so a cluster would keep the streams of a topic on different nodes; write \
                 {{{TOPIC}}} instead of {TOPIC}"
            )));
        }
        if !names.has_number() && partitions > 1 {
            return Err(refused(format!(
                "has no {NUMBER}, and partitions is {partitions}; set partitions to 1, or name the streams {:?}",
                format!("{{{TOPIC}}}:{NUMBER}")
            )));
        }
        Ok(names)
    }

    /// The name of these names: the prefix alone if the rest is as usual, otherwise the template.
    pub(crate) fn label(&self) -> &str {
        let usual = STREAM.trim_start_matches("postroom:");
        self.template.strip_suffix(usual).unwrap_or(&self.template)
    }

    /// The stream of a partition.
    pub(crate) fn stream(&self, topic: &str, partition: u16) -> String {
        self.fill(topic, &partition.to_string())
    }

    /// Every stream of a topic.
    pub(crate) fn streams(&self, topic: &str, partitions: u16) -> Vec<String> {
        (0..partitions).map(|partition| self.stream(topic, partition)).collect()
    }

    /// The stream of a topic's dead letters.
    pub(crate) fn dead(&self, topic: &str) -> String {
        self.beside(topic, "dead")
    }

    /// The key with the number of partitions of a topic.
    pub(crate) fn partitions(&self, topic: &str) -> String {
        self.beside(topic, "partitions")
    }

    /// The hash with the leases of a group on a topic.
    pub(crate) fn leases(&self, topic: &str, group: &str) -> String {
        self.beside(topic, &format!("leases:{group}"))
    }

    /// The counter of a client. The client may be a person's address, so its name is hashed. The hash keeps it out of listings and
    /// logs; it does not stop a reader of Redis who tries all addresses.
    pub(crate) fn rate(&self, client: &str) -> String {
        let prefix = self.template.split('{').next().unwrap_or_default();
        let mut name = format!("{prefix}rate:");
        for byte in Sha256::digest(client).iter().take(16) {
            // Writing to a string cannot fail.
            write!(name, "{byte:02x}").unwrap_or_default();
        }
        name
    }

    /// Refuses several partitions of a topic that would be the same stream.
    pub(crate) fn check_partitions(&self, topic: &str, partitions: u16) -> Result<()> {
        if partitions > 1 && !self.has_number() {
            return Err(Error::invalid(format!(
                "the topic {topic} has {partitions} partitions, and the stream name {:?} has no {NUMBER}; a topic keeps its number of \
                 partitions, so use another stream name",
                self.template
            )));
        }
        Ok(())
    }

    /// A key in the slot of the streams: the word stands in the place of the number. Without such a place it follows the name of
    /// the stream, which is then the hash tag.
    fn beside(&self, topic: &str, word: &str) -> String {
        let stream = self.fill(topic, word);
        match (self.has_number(), stream.contains('{')) {
            (true, _) => stream,
            (false, true) => format!("{stream}:{word}"),
            (false, false) => format!("{{{stream}}}:{word}"),
        }
    }

    fn has_number(&self) -> bool {
        self.template.contains(NUMBER)
    }

    fn fill(&self, topic: &str, number: &str) -> String {
        self.template.replace(TOPIC, topic).replace(NUMBER, number)
    }
}

/// Whether a template has a hash tag: braces around the topic, before the number. Other braces are an error.
fn has_hash_tag(template: &str) -> Result<bool, String> {
    if !template.contains(TOPIC) {
        return Err(format!("is the same for every topic; put {TOPIC} into it"));
    }
    let unknown =
        || format!("has braces around something else than {TOPIC}; the placeholders are {TOPIC} and {NUMBER}");
    let plain = template.replace(TOPIC, "\0").replace(NUMBER, "\u{1}");
    let Some((before, rest)) = plain.split_once('{') else {
        return if plain.contains('}') { Err(unknown()) } else { Ok(false) };
    };
    let (tag, after) = rest.split_once('}').ok_or_else(unknown)?;
    if [before, tag, after].iter().any(|part| part.contains(['{', '}'])) || !tag.contains('\0') {
        return Err(unknown());
    }
    if [before, tag].iter().any(|part| part.contains('\u{1}')) {
        return Err(format!("has {NUMBER} inside or before its hash tag; put it behind"));
    }
    Ok(true)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a key that decides its slot, by the rules of a Redis cluster.
    fn slot_text(key: &str) -> &str {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
    }

    #[test]
    fn the_usual_names_stay_as_they_are() {
        let names = Names::new(STREAM, 4).unwrap();
        assert_eq!(names.stream("order-events", 3), "postroom:{order-events}:3");
        assert_eq!(names.dead("order-events"), "postroom:{order-events}:dead");
        assert_eq!(names.partitions("order-events"), "postroom:{order-events}:partitions");
        assert_eq!(names.leases("order-events", "g"), "postroom:{order-events}:leases:g");
        assert_eq!(names.label(), "postroom:");
    }

    #[test]
    fn every_key_of_a_topic_is_in_the_slot_of_its_streams() {
        let check = |template: &str, partitions: u16, stream: &str, dead: &str| {
            let names = Names::new(template, partitions).unwrap();
            let topic = "domain.user.activity";
            assert_eq!(names.stream(topic, 0), stream);
            assert_eq!(names.dead(topic), dead);
            let helpers = [names.dead(topic), names.partitions(topic), names.leases(topic, "{g}")];
            for key in names.streams(topic, partitions).iter().chain(&helpers) {
                assert_eq!(slot_text(key), slot_text(stream), "{template}: {key}");
            }
        };
        let tagged = "{domain.user.activity}:dead";
        check("{topic}", 1, "domain.user.activity", tagged);
        check("{{topic}}", 1, "{domain.user.activity}", tagged);
        check("{{topic}}:{number}", 2, "{domain.user.activity}:0", tagged);
        let tagged = "{tasteam:domain.user.activity}:dead";
        check("tasteam:{topic}", 1, "tasteam:domain.user.activity", tagged);
        check(
            "{a:{topic}}:s{number}:z",
            2,
            "{a:domain.user.activity}:s0:z",
            "{a:domain.user.activity}:sdead:z",
        );
    }

    #[test]
    fn a_name_that_cannot_work_is_refused() {
        let check = |template: &str, partitions: u16, words: &str| {
            let error = Names::new(template, partitions).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains(&format!("{template:?}")),
                "{error}"
            );
        };
        check("", 1, "put {topic} into it");
        check("orders:{number}", 2, "put {topic} into it");
        check(
            "{topic}",
            4,
            "has no {number}, and partitions is 4; set partitions to 1",
        );
        check("{topic}:{number}", 4, "write {{topic}} instead of {topic}");
        check("{topic}:{group}", 1, "around something else than {topic}");
        check("{{topic}}:{nubmer}", 1, "around something else than {topic}");
        check("{topic}}", 1, "around something else than {topic}");
        check("{{topic}", 1, "around something else than {topic}");
        check("{{topic}:{number}}", 1, "inside or before its hash tag");
        check("{number}:{{topic}}", 1, "inside or before its hash tag");
        let names = Names::new("{topic}", 1).unwrap();
        assert!(names.check_partitions("t", 1).is_ok());
        assert!(
            names
                .check_partitions("t", 2)
                .unwrap_err()
                .to_string()
                .contains("2 partitions")
        );
    }
}
