//! The broker: topics, groups and dead letters on one server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use postroom::{Broker, Destination, Join, Letter, Mode, Result, Risk, Subscription, Topic};
use redis::Client;
use tokio_util::task::TaskTracker;

use crate::buried::Copies;
use crate::connection::Connection;
use crate::fields;
use crate::member::Member;
use crate::names::{self, Names};
use crate::options::Options;
use crate::publisher::Publisher;
use crate::rate_limit::RedisRateLimiter;
use crate::script::{self, Call};
use crate::tls;

/// Maximum number of entries that one trim removes from a stream.
const TRIM_MAX: u32 = 100_000;

/// A broker on Redis Streams. Cloning it shares its connection.
#[derive(Clone, Debug)]
pub struct Redis(Arc<Shared>);

/// State shared by publishers and members.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) names: Names,
    pub(crate) options: Options,
    pub(crate) connection: Connection,
    /// Lease keepers of the members. They release the leases after the member was dropped.
    pub(crate) tasks: TaskTracker,
}

/// The lag of a group on a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u16,
    /// Entries that the group has not read yet. Unknown if entries were deleted manually.
    pub unread: Option<u64>,
    /// Entries that were read and not acknowledged.
    pub pending: u64,
}

impl Redis {
    /// A broker at `redis://[user:password@]host:port/db`, or `rediss://…` with TLS. Does not connect
    /// yet.
    pub fn open(url: &str, options: Options) -> Result<Self> {
        let client = tls::client(url, &options.tls)?;
        Ok(Self(Arc::new(Shared {
            names: Names::new(&options.stream, options.partitions)?,
            connection: Connection::new(&client, options.timeout),
            client,
            options,
            tasks: TaskTracker::new(),
        })))
    }

    /// A rate limit that all instances with this server and this beginning of stream names share. It has a connection of its own.
    pub fn rate_limiter(&self) -> RedisRateLimiter {
        RedisRateLimiter::new(&self.0)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Creates a topic with this many partitions, unless it exists. Returns its number of partitions.
    pub async fn create(&self, topic: &str, partitions: u16) -> Result<u16> {
        names::check(topic)?;
        self.0.partitions(topic, partitions.max(1)).await
    }

    /// Removes entries that every group has acknowledged and that are older than `keep`. Returns their number. Publishers and
    /// members do this periodically.
    pub async fn trim(&self, topic: &str) -> Result<u64> {
        let partitions = self.0.partitions(topic, self.0.options.partitions).await?;
        self.0.trim(&self.0.connection, topic, partitions).await
    }

    /// The lag of a group by partition. Omits topics that the group never joined.
    pub async fn lag(&self, group: &str, topics: &[String]) -> Result<Vec<Lag>> {
        let mut lags = Vec::new();
        for topic in topics {
            names::check(topic)?;
            let partitions = self.0.partitions(topic, self.0.options.partitions).await?;
            let call = Call::on(&script::LAG, &self.0.names.streams(topic, partitions)).arg(group);
            let answers: Vec<(i64, i64)> = self
                .0
                .connection
                .call("measure the lag of a group in Redis", call)
                .await?;
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
            self.0.names.label()
        )
    }

    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        Arc::new(Publisher {
            shared: Arc::clone(&self.0),
            connection: Connection::new(&self.0.client, self.0.options.timeout),
            topic,
            mode,
            topics: Mutex::default(),
        })
    }

    async fn subscribe(&self, join: Join<'_>) -> Result<Box<dyn Subscription>> {
        let Join {
            group, topics, start, ..
        } = join;
        Ok(Box::new(Member::join(&self.0, group, topics, start).await?))
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        names::check(&letter.origin.topic)?;
        let mut call = Call::on(&script::BURY, &[self.0.names.dead(&letter.origin.topic)]);
        fields::of_letter(letter).write(&mut call.command);
        self.0.connection.call("copy a dead letter to Redis", call).await
    }

    async fn buried(&self, group: &str, topics: &[String]) -> Result<Box<dyn Subscription>> {
        for topic in topics {
            names::check(topic)?;
        }
        Ok(Box::new(Copies::new(&self.0, group, topics)))
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        let lags = self.lag(group, topics).await?;
        Ok(lags.iter().map(|lag| lag.unread.unwrap_or(0) + lag.pending).sum())
    }

    async fn risks(&self, _group: &str, _topics: &[String]) -> Result<Vec<Risk>> {
        self.0
            .connection
            .command::<redis::Value>("reach Redis", redis::cmd("PING"))
            .await?;
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("appendonly").arg("maxmemory-policy");
        // Many managed Redis services refuse CONFIG GET.
        let settings = self.0.connection.command("read the settings of Redis", ask).await;
        Ok(settings.map_or_else(|_hidden| Vec::new(), |settings| risks_of(&settings)))
    }
}

/// Settings of Redis that can lose messages.
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

impl Shared {
    /// Number of partitions of a topic; a new topic gets `wanted`.
    pub(crate) async fn partitions(&self, topic: &str, wanted: u16) -> Result<u16> {
        const DOING: &str = "read the number of partitions of a topic";
        self.names.check_partitions(topic, wanted)?;
        let key = self.names.partitions(topic);
        let mut get = redis::cmd("GET");
        get.arg(&key);
        // GET comes first, because a server with full memory refuses all writing commands.
        let mut known: Option<u16> = self.connection.command(DOING, get.clone()).await?;
        if known.is_none() {
            let mut set = redis::cmd("SET");
            set.arg(&key).arg(wanted).arg("NX");
            self.connection.command::<redis::Value>(DOING, set).await?;
            known = self.connection.command(DOING, get).await?;
        }
        let partitions = known.unwrap_or(wanted).max(1);
        self.names.check_partitions(topic, partitions)?;
        Ok(partitions)
    }

    /// Creates the group on every stream that does not have it.
    pub(crate) async fn create_group(
        &self,
        topic: &str,
        partitions: u16,
        group: &str,
        begin: &str,
    ) -> Result<(u32, u32)> {
        let call = Call::on(&script::GROUP, &self.names.streams(topic, partitions));
        self.connection
            .call("create a group in Redis", call.arg(group).arg(begin))
            .await
    }

    pub(crate) async fn trim(&self, connection: &Connection, topic: &str, partitions: u16) -> Result<u64> {
        let keep_ms = self.options.keep.as_millis().to_string();
        let call = Call::on(&script::TRIM, &self.names.streams(topic, partitions))
            .arg(keep_ms)
            .arg(self.options.length_max.unwrap_or(0))
            .arg(TRIM_MAX);
        connection.call("trim a topic in Redis", call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_can_lose_messages_are_named() {
        let check = |policy: &str, appendonly: &str, expected: usize| {
            let settings = [("maxmemory-policy", policy), ("appendonly", appendonly)];
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            assert_eq!(risks_of(&settings).len(), expected, "{policy} {appendonly}");
        };
        check("noeviction", "yes", 0);
        check("allkeys-lru", "yes", 1);
        check("volatile-ttl", "no", 2);
        assert!(risks_of(&HashMap::new()).is_empty(), "hidden settings are no risk");
    }
}
