//! Options of the broker.

use std::time::Duration;

use postroom::{Result, Tls};

use crate::names::{NUMBER, Names, STREAM, TOPIC};

/// Options of the broker, with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Template of stream names, with the placeholders `{topic}` and `{number}`: `postroom:{{topic}}:{number}`. All other text stays
    /// as it is, also the outer braces: they are the hash tag, which keeps the streams of a topic on one node of a cluster. A
    /// template without `{number}` needs `partitions: 1`, and its stream has exactly this name: `{topic}` or `shop:{topic}`, so that
    /// other programs can `XADD` to it. Another template is another topic: the entries of the former streams stay there.
    pub stream: String,
    /// Number of partitions of a new topic: 4. It limits how many members of a group process the topic in parallel. A topic keeps
    /// its number, because another number would map keys to other partitions.
    pub partitions: u16,
    /// Duration of a lease on a partition: 15 s. A member renews it after a third of this time.
    pub lease: Duration,
    /// Timeout of a request: 5 s.
    pub timeout: Duration,
    /// Longest wait of one read for new entries: 5 s. New entries end the wait, so this delays none of them.
    pub poll_timeout: Duration,
    /// After this many deliveries to members that crash, an entry becomes a dead letter: 20. `None`: no limit.
    pub deliveries_max: Option<u32>,
    /// Minimum age of trimmed entries: 1 h. Younger ones stay for new groups, even if every group has acknowledged them.
    pub keep: Duration,
    /// Maximum length of a stream: none. A longer stream loses its oldest entries, **also unread ones**. This also limits topics
    /// without groups, which are otherwise never trimmed.
    pub length_max: Option<u64>,
    /// Number of replicas that must have an entry before it counts as delivered: 0.
    pub replicas: u32,
    /// Certificates for `rediss://…`: the system's authorities.
    pub tls: Tls,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stream: STREAM.to_owned(),
            partitions: 4,
            lease: Duration::from_secs(15),
            timeout: Duration::from_secs(5),
            poll_timeout: Duration::from_secs(5),
            deliveries_max: Some(20),
            keep: Duration::from_secs(3600),
            length_max: None,
            replicas: 0,
            tls: Tls::default(),
        }
    }
}

impl Options {
    /// Checks the template of stream names. [`crate::Redis::open`] does this too.
    pub fn check_stream(&self) -> Result<()> {
        Names::new(&self.stream, self.partitions).map(drop)
    }

    /// The same for a topic that is one stream, whose name other programs know: the topic's behind this prefix. Without a prefix, a
    /// template that has no number stays as it is.
    #[must_use]
    pub fn one_stream(&self, prefix: Option<&str>) -> Self {
        let stream = match prefix {
            Some(prefix) => format!("{prefix}{TOPIC}"),
            None if self.has_plain_stream() => TOPIC.to_owned(),
            None => self.stream.clone(),
        };
        Self {
            stream,
            partitions: 1,
            ..self.clone()
        }
    }

    /// Whether the template says nothing about the name of a topic that is one stream.
    pub fn has_plain_stream(&self) -> bool {
        self.stream == TOPIC || self.stream.contains(NUMBER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_one_stream_has_its_own_name() {
        let check = |template: &str, prefix: Option<&str>, stream: &str, is_plain: bool| {
            let options = Options {
                stream: template.to_owned(),
                ..Options::default()
            };
            let one = options.one_stream(prefix);
            assert_eq!(
                (one.stream.as_str(), one.partitions),
                (stream, 1),
                "{template} {prefix:?}"
            );
            assert_eq!(options.has_plain_stream(), is_plain, "{template}");
            one.check_stream().unwrap();
        };
        check(STREAM, None, "{topic}", true);
        check(STREAM, Some("shop:"), "shop:{topic}", true);
        check("{topic}", None, "{topic}", true);
        check("a:{topic}", None, "a:{topic}", false);
    }
}
