//! The broker: topics, groups and dead letters on one server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use postroom::{Broker, Destination, Letter, Mode, Result, Risk, Start, Subscription, Topic};
use redis::Client;
use tokio_util::task::TaskTracker;

use crate::fields;
use crate::link::Link;
use crate::member::Member;
use crate::names::{self, Names};
use crate::options::Options;
use crate::publisher::Publisher;
use crate::script::{self, Call};
use crate::tls;

/// So many entries are removed from a stream at once at most.
const TRIM_MAX: u32 = 100_000;

/// A broker on Redis Streams. Cloning it shares its connection.
#[derive(Clone, Debug)]
pub struct Redis(Arc<Core>);

/// What publishers and members share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) client: Client,
    pub(crate) names: Names,
    pub(crate) options: Options,
    pub(crate) link: Link,
    /// Members say farewell here after they were dropped.
    pub(crate) tasks: TaskTracker,
}

/// How far a group is behind on a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u16,
    /// Entries the group was not handed yet; unknown after entries were deleted by hand.
    pub unread: Option<u64>,
    /// Entries that were handed out and not acknowledged.
    pub pending: u64,
}

impl Redis {
    /// A broker at `redis://[user:password@]host:port/db`, or `rediss://…`, which is encrypted. Nothing is connected yet.
    pub fn open(url: &str, options: Options) -> Result<Self> {
        let client = tls::client(url, &options.tls)?;
        Ok(Self(Arc::new(Core {
            names: Names::new(&options.prefix)?,
            link: Link::new(&client, options.timeout),
            client,
            options,
            tasks: TaskTracker::new(),
        })))
    }

    /// Makes a topic with so many partitions, unless it is there; answers how many it has.
    pub async fn create(&self, topic: &str, partitions: u16) -> Result<u16> {
        names::check(topic)?;
        self.0.partitions(topic, partitions.max(1)).await
    }

    /// Removes from a topic what every group has acknowledged and what is old enough; answers how many entries. Publishers
    /// and members do so now and then by themselves.
    pub async fn trim(&self, topic: &str) -> Result<u64> {
        let partitions = self.0.partitions(topic, self.0.options.partitions).await?;
        self.0.trim(&self.0.link, topic, partitions).await
    }

    /// How far a group is behind, by partition. A topic the group never joined is not listed.
    pub async fn lag(&self, group: &str, topics: &[String]) -> Result<Vec<Lag>> {
        let mut lags = Vec::new();
        for topic in topics {
            names::check(topic)?;
            let partitions = self.0.partitions(topic, self.0.options.partitions).await?;
            let call = Call::on(&script::LAG, &self.0.names.streams(topic, partitions)).arg(group);
            let answers: Vec<(i64, i64)> = self.0.link.call("ask Redis how far a group is", call).await?;
            let lag = |(partition, (unread, pending)): (u16, (i64, i64))| {
                Some(Lag {
                    topic: topic.clone(),
                    partition,
                    unread: u64::try_from(unread).ok(),
                    pending: u64::try_from(pending).ok()?,
                })
            };
            lags.extend((0..partitions).zip(answers).filter_map(lag));
        }
        Ok(lags)
    }
}

#[async_trait]
impl Broker for Redis {
    fn name(&self) -> String {
        let at = self.0.client.get_connection_info();
        format!(
            "redis {}/{} {}",
            at.addr(),
            at.redis_settings().db(),
            self.0.options.prefix
        )
    }

    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        Arc::new(Publisher {
            core: Arc::clone(&self.0),
            link: Link::new(&self.0.client, self.0.options.timeout),
            topic,
            mode,
            known: Mutex::default(),
        })
    }

    async fn subscribe(&self, group: &str, topics: &[String], start: Start) -> Result<Box<dyn Subscription>> {
        Ok(Box::new(Member::join(&self.0, group, topics, start).await?))
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        names::check(&letter.origin.topic)?;
        let mut call = Call::on(&script::BURY, &[self.0.names.dead(&letter.origin.topic)]);
        fields::of_letter(letter).write(&mut call.command);
        self.0.link.call("bury a dead letter in Redis", call).await
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        let lags = self.lag(group, topics).await?;
        Ok(lags.iter().map(|lag| lag.unread.unwrap_or(0) + lag.pending).sum())
    }

    async fn risks(&self, _group: &str, _topics: &[String]) -> Result<Vec<Risk>> {
        self.0
            .link
            .command::<redis::Value>("reach Redis", redis::cmd("PING"))
            .await?;
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("appendonly").arg("maxmemory-policy");
        // Many who offer Redis as a service do not let their users see its settings.
        let settings = self.0.link.command("read the settings of Redis", ask).await;
        Ok(settings.map_or_else(|_hidden| Vec::new(), |settings| risks_of(&settings)))
    }
}

/// Settings of a Redis that can cost messages.
fn risks_of(settings: &HashMap<String, String>) -> Vec<Risk> {
    let setting = |name: &str| settings.get(name).map(String::as_str);
    let mut risks = Vec::new();
    if let Some(policy) = setting("maxmemory-policy").filter(|policy| *policy != "noeviction") {
        risks.push(Risk {
            says: format!(
                "maxmemory-policy is {policy}: a Redis without free memory removes streams with their messages"
            ),
            next: "set maxmemory-policy to noeviction".to_owned(),
        });
    }
    if setting("appendonly") == Some("no") {
        risks.push(Risk {
            says: "appendonly is no: a Redis that is restarted has lost the messages since its last snapshot"
                .to_owned(),
            next: "set appendonly to yes and appendfsync to always, or publish with replicas".to_owned(),
        });
    }
    risks
}

impl Core {
    /// How many partitions a topic has; one that is new gets `wanted`.
    pub(crate) async fn partitions(&self, topic: &str, wanted: u16) -> Result<u16> {
        const DOING: &str = "find out how many partitions a topic has";
        let key = self.names.partitions(topic);
        let mut get = redis::cmd("GET");
        get.arg(&key);
        // Asked first, because a server with its memory full answers this and nothing that may write.
        let mut known: Option<u16> = self.link.command(DOING, get.clone()).await?;
        if known.is_none() {
            let mut set = redis::cmd("SET");
            set.arg(&key).arg(wanted).arg("NX");
            self.link.command::<redis::Value>(DOING, set).await?;
            known = self.link.command(DOING, get).await?;
        }
        Ok(known.unwrap_or(wanted).max(1))
    }

    /// Makes the group on every stream that does not have it.
    pub(crate) async fn make_group(
        &self,
        topic: &str,
        partitions: u16,
        group: &str,
        begin: &str,
    ) -> Result<(u32, u32)> {
        let call = Call::on(&script::GROUP, &self.names.streams(topic, partitions));
        self.link
            .call("make a group in Redis", call.arg(group).arg(begin))
            .await
    }

    pub(crate) async fn trim(&self, link: &Link, topic: &str, partitions: u16) -> Result<u64> {
        let keep_ms = self.options.keep.as_millis().to_string();
        let call = Call::on(&script::TRIM, &self.names.streams(topic, partitions))
            .arg(keep_ms)
            .arg(self.options.length_max.unwrap_or(0))
            .arg(TRIM_MAX);
        link.call("trim a topic in Redis", call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_can_cost_messages_are_named() {
        let check = |policy: &str, appendonly: &str, expected: usize| {
            let settings = [("maxmemory-policy", policy), ("appendonly", appendonly)];
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            assert_eq!(risks_of(&settings).len(), expected, "{policy} {appendonly}");
        };
        check("noeviction", "yes", 0);
        check("allkeys-lru", "yes", 1);
        check("volatile-ttl", "no", 2);
        assert!(risks_of(&HashMap::new()).is_empty(), "what is not shown is not judged");
    }
}
