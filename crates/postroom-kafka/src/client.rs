//! A Kafka cluster: its address, a cache of its topics' partition counts, and constructors of librdkafka clients. A client
//! connects on first use.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom::{
    Broker, Destination, Error, ErrorKind, Join, Letter, Mode, Receipt, Result, Risk, Start, Subscription, Topic,
};
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::producer::{FutureProducer, Producer as _, PurgeConfig};
use rdkafka::{ClientConfig, admin::AdminClient};
use tokio::time::timeout;

use crate::error::{code, failed, is_refusal, is_rejection};
use crate::options::Options;
use crate::publish::Publisher;
use crate::record::Record;
use crate::transact::TransactionalPublisher;

/// Kafka's default limit. The producer refuses larger messages without sending them.
const MESSAGE_BYTES_MAX: &str = "1048588";

/// Partition counts are fetched again after this time, because a topic may get more partitions.
const METADATA_TTL: Duration = Duration::from_secs(60);

/// Number of partitions by topic.
pub(crate) type Partitions = HashMap<String, usize>;

/// The type of all producers in this crate.
pub(crate) type Producer = FutureProducer<LogContext>;

/// A Kafka cluster, as a [`Broker`].
///
/// Producers are idempotent and use the aggregate id as key. [`Kafka::transactional`] publishes each batch in a transaction.
/// Consumers use `read_committed` and commit offsets on acknowledgement.
#[derive(Clone, Debug)]
pub struct Kafka {
    pub(crate) shared: Arc<Shared>,
    transactional_id: Option<String>,
}

/// State shared by publishers and group members.
pub(crate) struct Shared {
    settings: ClientConfig,
    pub(crate) answer_max: Duration,
    /// Start position of a group whose committed offset is no longer in the topic.
    pub(crate) lost: Start,
    /// Partition counts of existing topics, with the time of each lookup.
    partition_counts: Mutex<HashMap<String, (usize, Instant)>>,
    /// Sends single messages and fetches metadata. Created on first use.
    single_producer: Mutex<Option<Producer>>,
}

impl Kafka {
    /// A Kafka cluster at this address. Does not connect yet.
    pub fn new(options: &Options) -> Result<Self> {
        let shared = Shared {
            settings: options.settings()?,
            answer_max: options.answer_max,
            lost: options.lost,
            partition_counts: Mutex::default(),
            single_producer: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            transactional_id: None,
        })
    }

    /// The same cluster for one route that publishes each batch in a transaction with this transactional id.
    ///
    /// Consumers with `read_committed` see the whole batch or nothing. A new producer with the same id fences the previous one.
    /// So only one route may use the id, and one relay must process all shards of the route.
    #[must_use]
    pub fn transactional(&self, id: impl Into<String>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            transactional_id: Some(id.into()),
        }
    }
}

#[async_trait]
impl Broker for Kafka {
    fn name(&self) -> String {
        format!(
            "kafka {}",
            self.shared.settings.get("bootstrap.servers").unwrap_or_default()
        )
    }

    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        let shared = Arc::clone(&self.shared);
        match &self.transactional_id {
            Some(id) => Arc::new(TransactionalPublisher::new(shared, topic, mode, id.clone())),
            None => Arc::new(Publisher::new(shared, topic, mode)),
        }
    }

    async fn subscribe(&self, join: Join<'_>) -> Result<Box<dyn Subscription>> {
        crate::join::join(&self.shared, join.group, join.topics, join.start).await
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        crate::bury::bury(&self.shared, letter).await
    }

    /// Kafka removes no single messages: retention of `{topic}.DLT` removes the copies.
    async fn buried(&self, _group: &str, _topics: &[String]) -> Result<Box<dyn Subscription>> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "Kafka cannot remove single messages: copies of dead letters stay in their topic as long as its retention keeps them",
        ))
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        let lags = self.lag(group, topics).await?;
        Ok(lags.iter().map(|lag| lag.messages).sum())
    }

    async fn risks(&self, group: &str, topics: &[String]) -> Result<Vec<Risk>> {
        let shared = Arc::clone(&self.shared);
        let known = self.shared.blocking("fetch the topics", move || {
            let metadata = shared.admin()?.inner().fetch_metadata(None, shared.answer_max);
            let metadata = metadata.map_err(|source| failed("fetch the topics".to_owned(), source))?;
            let names = metadata.topics().iter().map(|topic| topic.name().to_owned());
            Ok(names.collect::<HashSet<String>>())
        });
        let known = known.await?;
        let missing = topics.iter().filter(|topic| !known.contains(*topic));
        let risk = |topic: &String| Risk {
            says: format!("there is no topic {topic}: the group {group} cannot join, and nothing is published there"),
            next: "create it: postroom topics apply".to_owned(),
        };
        Ok(missing.map(risk).collect())
    }
}

impl Shared {
    /// An idempotent producer with `acks=all` and these additional settings. It keeps the order of its messages.
    pub(crate) fn producer(&self, settings: &[(&str, &str)]) -> Result<Producer> {
        let mut all = self.settings.clone();
        all.set("acks", "all")
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .set("message.max.bytes", MESSAGE_BYTES_MAX)
            .set("request.timeout.ms", self.answer_max.as_millis().to_string())
            .set("topic.metadata.propagation.max.ms", "1000");
        for (name, value) in settings {
            all.set(*name, *value);
        }
        create(&all, LogContext, "create a producer")
    }

    /// A consumer that reads and commits the offsets of a group without joining it.
    pub(crate) fn offset_consumer(&self, group: &str) -> Result<BaseConsumer<LogContext>> {
        let mut settings = self.settings.clone();
        settings
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("session.timeout.ms", "6000")
            .set("isolation.level", "read_committed");
        create(&settings, LogContext, "create a consumer")
    }

    /// A consumer with these additional settings.
    pub(crate) fn consumer<C: ConsumerContext>(
        &self,
        settings: &[(&str, &str)],
        context: C,
    ) -> Result<BaseConsumer<C>> {
        let mut all = self.settings.clone();
        for (name, value) in settings {
            all.set(*name, *value);
        }
        create(&all, context, "create a consumer")
    }

    /// An admin client for topics and their settings.
    pub(crate) fn admin(&self) -> Result<AdminClient<LogContext>> {
        create(&self.settings, LogContext, "create an admin client")
    }

    /// The producer for single messages. It sends each message in its own request, so that a refusal affects only that message.
    pub(crate) fn single_producer(&self) -> Result<Producer> {
        let mut slot = lock(&self.single_producer);
        if let Some(producer) = &*slot {
            return Ok(producer.clone());
        }
        let message_timeout = self.answer_max.as_millis().to_string();
        let settings = [
            ("batch.num.messages", "1"),
            ("linger.ms", "0"),
            ("message.timeout.ms", message_timeout.as_str()),
        ];
        let producer = self.producer(&settings)?;
        Ok(slot.insert(producer).clone())
    }

    /// Sends one message and waits until it is durable.
    pub(crate) async fn send(&self, record: &Record<'_>) -> Result<(), KafkaError> {
        let producer = self
            .single_producer()
            .map_err(|error| KafkaError::ClientCreation(error.report()))?;
        // The driver has its own timeout; this one protects against a driver that ignores it.
        match timeout(self.answer_max * 2, producer.send(record.borrowed(), self.answer_max)).await {
            Ok(Ok(_delivery)) => Ok(()),
            Ok(Err((error, _message))) => Err(error),
            Err(_late) => Err(KafkaError::NoMessageReceived),
        }
    }

    /// Partition counts of these topics; 0 for a topic that does not exist.
    pub(crate) async fn partitions<'a>(self: &Arc<Self>, topics: impl Iterator<Item = &'a str>) -> Result<Partitions> {
        let is_fresh = |(_, since): &&(usize, Instant)| since.elapsed() < METADATA_TTL;
        let (mut found, mut unknown) = (Partitions::new(), Vec::new());
        for topic in topics.collect::<BTreeSet<_>>() {
            match lock(&self.partition_counts).get(topic).filter(is_fresh) {
                Some((count, _)) => drop(found.insert(topic.to_owned(), *count)),
                None => unknown.push(topic.to_owned()),
            }
        }
        if !unknown.is_empty() {
            let shared = Arc::clone(self);
            let asked = self.blocking("fetch topic metadata", move || shared.look_up(unknown));
            found.extend(asked.await?);
        }
        Ok(found)
    }

    fn look_up(&self, unknown: Vec<String>) -> Result<Partitions> {
        let producer = self.single_producer()?;
        let mut found = Partitions::new();
        for topic in unknown {
            let count = partitions_of(producer.client(), &topic, self.answer_max)?.len();
            if count > 0 {
                lock(&self.partition_counts).insert(topic.clone(), (count, Instant::now()));
            }
            found.insert(topic, count);
        }
        Ok(found)
    }

    /// Removes topics from the cache, because they may have been deleted.
    pub(crate) fn forget<'a>(&self, topics: impl Iterator<Item = &'a String>) {
        let mut known = lock(&self.partition_counts);
        for topic in topics {
            known.remove(topic);
        }
    }

    /// Runs a blocking driver call on a blocking thread. The call has its own timeout. If it exceeds that, this function returns
    /// an error and the call continues in the background.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        doing: &str,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let running = tokio::task::spawn_blocking(call);
        match timeout(self.answer_max * 3, running).await {
            Ok(Ok(result)) => result,
            Ok(Err(source)) => Err(Error::caused(ErrorKind::Failed, doing, source)),
            Err(_late) => Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{doing}: timeout: Kafka did not respond within {:?}",
                    self.answer_max * 3
                ),
            )),
        }
    }
}

/// The numbers of a topic's partitions; empty if the topic does not exist.
pub(crate) fn partitions_of<C: ClientContext>(
    client: &rdkafka::client::Client<C>,
    topic: &str,
    limit: Duration,
) -> Result<Vec<i32>> {
    let metadata = client
        .fetch_metadata(Some(topic), limit)
        .map_err(|source| failed(format!("fetch metadata of the topic {topic}"), source))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    Ok(found.map_or_else(Vec::new, |found| {
        found.partitions().iter().map(|one| one.id()).collect()
    }))
}

/// The error message for a topic that does not exist.
pub(crate) fn missing_topic_message(topic: &str) -> String {
    format!("the topic {topic} does not exist; create it with `postroom topics apply`")
}

/// The receipt of a message that was sent alone.
pub(crate) fn receipt(topic: &str, sent: Result<(), KafkaError>) -> Receipt {
    let Err(error) = sent else {
        return Receipt::Delivered;
    };
    match code(&error) {
        Some(code) if is_rejection(code) => {
            Receipt::Rejected(format!("the topic {topic} rejects the message: {error}"))
        }
        Some(code) if is_refusal(code) => Receipt::Refused(format!("the topic {topic} refuses the message: {error}")),
        _ => Receipt::unavailable(error.to_string()),
    }
}

/// Purges and drops a producer. When this returns, the producer sends none of its queued messages any more.
pub(crate) async fn purge_and_drop(producer: Producer) {
    let dropped = tokio::task::spawn_blocking(move || {
        producer.purge(PurgeConfig::default().queue().inflight());
        drop(producer);
    });
    if let Err(error) = dropped.await {
        tracing::debug!(%error, "dropping a producer failed");
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn create<C: ClientContext, T: FromClientConfigAndContext<C>>(
    settings: &ClientConfig,
    context: C,
    doing: &str,
) -> Result<T> {
    settings
        .create_with_context(context)
        .map_err(|source| failed(doing, source))
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("servers", &self.settings.get("bootstrap.servers"))
            .finish_non_exhaustive()
    }
}

/// Writes librdkafka's log at level debug. Important errors are also returned by the driver's calls.
#[derive(Debug)]
pub(crate) struct LogContext;

impl ClientContext for LogContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(?level, facility, text, "librdkafka");
    }

    fn error(&self, error: KafkaError, text: &str) {
        tracing::debug!(%error, text, "librdkafka");
    }
}

impl ConsumerContext for LogContext {}
