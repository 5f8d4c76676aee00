//! The redis crate alone: `XADD` in pipelines.

use std::time::{Duration, Instant};

use anyhow::Result;
use redis::aio::MultiplexedConnection;

use super::Message;

/// Messages of one pipeline.
const PIPELINE: usize = 1_000;

#[derive(Debug)]
pub(super) struct Client {
    connection: MultiplexedConnection,
    topic: String,
    /// As many as a new topic has.
    streams: Vec<String>,
}

impl Client {
    pub(super) async fn connect(url: &str, topic: &str) -> Result<Self> {
        let client = redis::Client::open(url)?;
        let partitions = postroom_redis::Options::default().partitions;
        Ok(Self {
            connection: client.get_multiplexed_async_connection().await?,
            streams: (0..partitions)
                .map(|number| format!("plain:{{{topic}}}:{number}"))
                .collect(),
            topic: topic.to_owned(),
        })
    }

    pub(super) async fn send(&self, messages: &[Message], count: usize) -> Result<Duration> {
        let mut connection = self.connection.clone();
        let begun = Instant::now();
        let mut left = count;
        while left > 0 {
            let mut pipeline = redis::pipe();
            for message in messages.iter().cycle().take(left.min(PIPELINE)) {
                pipeline.add_command(self.xadd(message)?);
            }
            left -= pipeline.len();
            // An error of any command is an error of the whole.
            pipeline.exec_async(&mut connection).await?;
        }
        Ok(begun.elapsed())
    }

    fn xadd(&self, message: &Message) -> Result<redis::Cmd> {
        let number = message.event.key().shard(u32::try_from(self.streams.len())?);
        let stream = self.streams.get(usize::try_from(number)?);
        let mut xadd = redis::cmd("XADD");
        xadd.arg(stream).arg("*");
        for (name, value) in &message.attributes {
            xadd.arg(name).arg(value);
        }
        xadd.arg("content-type").arg(&message.content_type);
        xadd.arg("data").arg(&message.body);
        Ok(xadd)
    }

    pub(super) async fn count(&self) -> Result<u64> {
        let mut connection = self.connection.clone();
        let mut count = 0;
        for key in self.keys(Some("stream")).await? {
            let length: u64 = redis::cmd("XLEN").arg(key).query_async(&mut connection).await?;
            count += length;
        }
        Ok(count)
    }

    pub(super) async fn remove(&self) -> Result<()> {
        let mut connection = self.connection.clone();
        for key in self.keys(None).await? {
            redis::cmd("UNLINK").arg(key).exec_async(&mut connection).await?;
        }
        Ok(())
    }

    /// Every key of the topic, the relay's and ours, of this kind.
    async fn keys(&self, kind: Option<&str>) -> Result<Vec<String>> {
        let mut connection = self.connection.clone();
        let (mut cursor, mut keys) = (0_u64, Vec::new());
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("*{{{}}}*", self.topic));
            scan.arg("COUNT").arg(10_000);
            if let Some(kind) = kind {
                scan.arg("TYPE").arg(kind);
            }
            let (next, found): (u64, Vec<String>) = scan.query_async(&mut connection).await?;
            keys.extend(found);
            cursor = next;
            if cursor == 0 {
                keys.sort_unstable();
                keys.dedup();
                return Ok(keys);
            }
        }
    }
}
