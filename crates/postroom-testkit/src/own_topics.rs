//! Topics on Kafka that no other test uses.

#![expect(clippy::panic, reason = "a test harness: a test without its topics has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom::{Broker, Join, Message, Namespaced, Result, Start};
use postroom_kafka::{Kafka, Options, TopicSpec};
use tokio::time::timeout;
use uuid::Uuid;

use crate::fresh::variable;
use crate::wait::PATIENCE;

/// Topics behind a prefix of their own.
#[derive(Clone, Debug)]
pub struct OwnTopics {
    /// The prefix of every topic and group.
    pub prefix: String,
    kafka: Kafka,
}

impl OwnTopics {
    /// These topics and their dead letters on the Kafka of `POSTROOM_TEST_KAFKA_URL`.
    pub async fn create(topics: &[&str]) -> Self {
        Self::on(&variable("POSTROOM_TEST_KAFKA_URL"), topics).await
    }

    /// These topics and their dead letters, three partitions each, as `postroom topics apply` makes them.
    pub async fn on(url: &str, topics: &[&str]) -> Self {
        let prefix = format!("test-{}-", Uuid::now_v7());
        let spec = |name: String| TopicSpec {
            name: format!("{prefix}{name}"),
            partitions: 3,
            replication: 1,
            config: BTreeMap::new(),
        };
        let names = topics
            .iter()
            .flat_map(|topic| [(*topic).to_owned(), format!("{topic}.DLT")]);
        let specs: Vec<TopicSpec> = names.map(spec).collect();
        let kafka = must(Kafka::new(&Options::new(url)), "use Kafka");
        must(kafka.apply(&specs).await, "make topics");
        Self { prefix, kafka }
    }

    /// The topics with this prefix on a Kafka, made by somebody else.
    pub fn with_prefix(url: &str, prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            kafka: must(Kafka::new(&Options::new(url)), "use Kafka"),
        }
    }

    /// The Kafka, with nothing on it but these topics.
    pub fn broker(&self) -> Arc<dyn Broker> {
        let own = Namespaced::new(Arc::new(self.kafka.clone()), &self.prefix);
        Arc::new(must(own, "put a prefix before topics"))
    }

    /// So many messages of a topic, as somebody gets them who was not there before.
    pub async fn read(&self, topic: &str, count: usize) -> Vec<Message> {
        let (group, topics) = (format!("reader-{}", Uuid::now_v7()), [topic.to_owned()]);
        let joined = self
            .broker()
            .subscribe(Join::new(&group, &topics, Start::Beginning))
            .await;
        let (mut reader, mut messages) = (must(joined, "join a group"), Vec::new());
        while messages.len() < count {
            let next = timeout(PATIENCE, reader.next(100)).await;
            let next = next.unwrap_or_else(|_| panic!("only {} of {count} came through {topic}", messages.len()));
            messages.extend(must(next, "read a topic"));
        }
        messages
    }
}

fn must<T>(result: Result<T>, doing: &str) -> T {
    result.unwrap_or_else(|error| panic!("{doing}: {}", error.report()))
}
