//! Plans and applies topic settings. Never deletes a topic and never removes partitions.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::time::Duration;

use postroom::operate::counted;
use postroom::{Error, ErrorKind, Result};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigSource, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
    TopicResult,
};
use rdkafka::error::KafkaError;
use tokio::time::{Instant, sleep};

use crate::client::{Kafka, LogContext};
use crate::error::failed;

/// Poll interval while waiting for a created topic.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The specification of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    /// Its name.
    pub name: String,
    /// Minimum number of partitions.
    pub partitions: i32,
    /// Replication factor.
    pub replication: i32,
    /// Settings such as `retention.ms`. Other settings stay unchanged.
    pub config: BTreeMap<String, String>,
}

/// A difference between a specification and the existing topic. Its `Display` text is the action of `apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The topic does not exist; `apply` creates it.
    Missing(TopicSpec),
    /// The topic has too few partitions; `apply` adds them. Keys may then map to other partitions than before.
    Partitions {
        /// The topic.
        topic: String,
        /// Current number of partitions.
        found: i32,
        /// Specified number of partitions.
        wanted: i32,
    },
    /// A setting has another value; `apply` changes it.
    Config {
        /// The topic.
        topic: String,
        /// The setting.
        name: String,
        /// Current value, often the broker's default.
        found: Option<String>,
        /// Specified value.
        wanted: String,
    },
    /// A difference that `apply` leaves unchanged: more partitions than specified, or another replication factor.
    Kept {
        /// The topic.
        topic: String,
        /// Description of the difference, with a hint.
        what: String,
    },
}

/// The current state of a topic.
struct ExistingTopic {
    partitions: i32,
    replication: i32,
    config: BTreeMap<String, Setting>,
}

struct Setting {
    text: Option<String>,
    /// Set for this topic, not inherited from the broker.
    is_topic_override: bool,
}

impl Kafka {
    /// Compares these specifications with the existing topics. Changes nothing.
    pub async fn plan(&self, wanted: &[TopicSpec]) -> Result<Vec<Difference>> {
        let admin = self.shared.admin()?;
        let mut differences = Vec::new();
        for spec in wanted {
            match self.find(&admin, &spec.name).await? {
                None => differences.push(Difference::Missing(spec.clone())),
                Some(found) => differences.extend(compare(spec, &found)),
            }
        }
        Ok(differences)
    }

    /// Creates and changes topics as specified, and returns the differences that it found.
    pub async fn apply(&self, wanted: &[TopicSpec]) -> Result<Vec<Difference>> {
        let admin = self.shared.admin()?;
        let differences = self.plan(wanted).await?;
        for difference in &differences {
            match difference {
                Difference::Missing(spec) => self.create(&admin, spec).await?,
                Difference::Partitions { topic, wanted, .. } => self.add_partitions(&admin, topic, *wanted).await?,
                Difference::Config { .. } | Difference::Kept { .. } => {}
            }
        }
        for spec in wanted {
            let of_topic = |one: &&Difference| matches!(one, Difference::Config { topic, .. } if *topic == spec.name);
            if differences.iter().any(|one| of_topic(&one)) {
                self.configure(&admin, spec).await?;
            }
        }
        Ok(differences)
    }

    async fn find(&self, admin: &AdminClient<LogContext>, topic: &str) -> Result<Option<ExistingTopic>> {
        let (shared, name) = (std::sync::Arc::clone(&self.shared), topic.to_owned());
        let counts = self.shared.blocking("fetch topic metadata", move || {
            let admin = shared.admin()?;
            let metadata = admin.inner().fetch_metadata(Some(&name), shared.answer_max);
            let metadata = metadata.map_err(|source| failed(format!("fetch metadata of the topic {name}"), source))?;
            let found = metadata.topics().iter().find(|found| found.name() == name);
            let counts = found.and_then(|found| {
                let replicas = found.partitions().iter().map(|one| one.replicas().len()).min()?;
                Some((found.partitions().len(), replicas))
            });
            Ok(counts)
        });
        let Some((partitions, replication)) = counts.await? else {
            return Ok(None);
        };
        Ok(Some(ExistingTopic {
            partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
            replication: i32::try_from(replication).unwrap_or(i32::MAX),
            config: self.config_of(admin, topic).await?,
        }))
    }

    async fn config_of(&self, admin: &AdminClient<LogContext>, topic: &str) -> Result<BTreeMap<String, Setting>> {
        let doing = format!("fetch the settings of {topic}");
        let resource = ResourceSpecifier::Topic(topic);
        let answers = admin.describe_configs([&resource], &self.limits()).await;
        let answers = answers.map_err(|source| failed(&doing, source))?;
        let mut config = BTreeMap::new();
        for answer in answers {
            let resource = answer.map_err(|code| failed(&doing, KafkaError::AdminOp(code)))?;
            for entry in resource.entries {
                let is_topic_override = entry.source == ConfigSource::DynamicTopic;
                let text = entry.value;
                config.insert(
                    entry.name,
                    Setting {
                        text,
                        is_topic_override,
                    },
                );
            }
        }
        Ok(config)
    }

    async fn create(&self, admin: &AdminClient<LogContext>, spec: &TopicSpec) -> Result<()> {
        let replication = TopicReplication::Fixed(spec.replication);
        let mut topic = NewTopic::new(&spec.name, spec.partitions, replication);
        for (name, value) in &spec.config {
            topic = topic.set(name, value);
        }
        let created = admin.create_topics([&topic], &self.limits()).await;
        check(&format!("create the topic {}", spec.name), created)?;
        self.wait_until_visible(&spec.name).await
    }

    /// Waits until the brokers know a created topic.
    async fn wait_until_visible(&self, topic: &str) -> Result<()> {
        let deadline = Instant::now() + self.shared.answer_max;
        loop {
            let partitions = self.shared.partitions(iter::once(topic)).await?;
            if partitions.get(topic) != Some(&0) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("the topic {topic} was created, but the brokers do not know it yet"),
                ));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn add_partitions(&self, admin: &AdminClient<LogContext>, topic: &str, wanted: i32) -> Result<()> {
        let count = usize::try_from(wanted).unwrap_or(0);
        let more = NewPartitions::new(topic, count);
        let added = admin.create_partitions([&more], &self.limits()).await;
        check(&format!("add partitions to {topic}"), added)
    }

    /// Applies the specified settings. The protocol replaces all overrides of a topic, so the existing ones are sent too.
    async fn configure(&self, admin: &AdminClient<LogContext>, spec: &TopicSpec) -> Result<()> {
        let config = self.config_of(admin, &spec.name).await?;
        let own = config.iter().filter(|(_, value)| value.is_topic_override);
        let mut all: BTreeMap<&str, &str> = own
            .filter_map(|(name, value)| Some((name.as_str(), value.text.as_deref()?)))
            .collect();
        all.extend(spec.config.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut alter = AlterConfig::new(ResourceSpecifier::Topic(&spec.name));
        for (name, value) in all {
            alter = alter.set(name, value);
        }
        let doing = format!("change the settings of {}", spec.name);
        let answers = admin.alter_configs([&alter], &self.limits()).await;
        let answers = answers.map_err(|source| failed(&doing, source))?;
        for answer in answers {
            answer.map_err(|(_, code)| failed(&doing, KafkaError::AdminOp(code)))?;
        }
        Ok(())
    }

    fn limits(&self) -> AdminOptions {
        let limit: Duration = self.shared.answer_max;
        AdminOptions::new()
            .request_timeout(Some(limit))
            .operation_timeout(Some(limit))
    }
}

fn compare(spec: &TopicSpec, found: &ExistingTopic) -> Vec<Difference> {
    let topic = spec.name.clone();
    let mut differences = Vec::new();
    if found.partitions < spec.partitions {
        differences.push(Difference::Partitions {
            topic: topic.clone(),
            found: found.partitions,
            wanted: spec.partitions,
        });
    }
    let mut keep = |what: String| {
        let topic = topic.clone();
        differences.push(Difference::Kept { topic, what });
    };
    if found.partitions > spec.partitions {
        keep(format!("has {}, not {}", partitions(found.partitions), spec.partitions));
    }
    if found.replication != spec.replication {
        keep(format!(
            "is kept by {}, not {}; use kafka-reassign-partitions.sh",
            brokers(found.replication),
            spec.replication
        ));
    }
    for (name, wanted) in &spec.config {
        let value = found.config.get(name).and_then(|value| value.text.clone());
        if value.as_ref() != Some(wanted) {
            differences.push(Difference::Config {
                topic: topic.clone(),
                name: name.clone(),
                found: value,
                wanted: wanted.clone(),
            });
        }
    }
    differences
}

fn partitions(count: i32) -> String {
    counted(u64::try_from(count).unwrap_or(0), "partition", "partitions")
}

fn brokers(count: i32) -> String {
    counted(u64::try_from(count).unwrap_or(0), "broker", "brokers")
}

fn check(doing: &str, answers: Result<Vec<TopicResult>, KafkaError>) -> Result<()> {
    let answers = answers.map_err(|source| failed(doing, source))?;
    if answers.is_empty() {
        return Err(Error::new(ErrorKind::Failed, format!("{doing}: the response is empty")));
    }
    for answer in answers {
        answer.map_err(|(_, code)| failed(doing, KafkaError::AdminOp(code)))?;
    }
    Ok(())
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(spec) => write!(
                f,
                "create {} with {}, kept by {}",
                spec.name,
                partitions(spec.partitions),
                brokers(spec.replication)
            ),
            Self::Partitions { topic, found, wanted } => write!(
                f,
                "add partitions to {topic}, from {found} to {wanted}; keys move to other partitions, so publish nothing meanwhile"
            ),
            Self::Config {
                topic,
                name,
                found,
                wanted,
            } => write!(
                f,
                "set {name} of {topic} to {wanted}; it is {}",
                found.as_deref().unwrap_or("not set")
            ),
            Self::Kept { topic, what } => write!(f, "leave {topic}, which {what}"),
        }
    }
}
