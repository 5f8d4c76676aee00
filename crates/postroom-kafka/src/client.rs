//! A Kafka: its address, what is known of its topics, and the clients that librdkafka makes of it. Nothing connects before
//! it is used.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom::{
    Broker, Destination, Error, ErrorKind, Letter, Mode, Receipt, Result, Risk, Start, Subscription, Topic,
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
use crate::transact::Transactor;

/// What a broker takes by default; a message above it is refused before it is sent.
const MESSAGE_BYTES_MAX: &str = "1048588";

/// What is known of a topic is asked for again after this: it may have got more partitions.
const KNOWN_MAX: Duration = Duration::from_secs(60);

/// How many partitions topics have.
pub(crate) type Partitions = HashMap<String, usize>;

/// A producer of ours.
pub(crate) type Producer = FutureProducer<Voice>;

/// A Kafka cluster, as a [`Broker`].
///
/// Publishing is idempotent and keyed by aggregate id; [`Kafka::transactional`] makes a batch all or nothing. Messages are
/// received with `read_committed`, and offsets are committed when they are acknowledged.
#[derive(Clone, Debug)]
pub struct Kafka {
    pub(crate) shared: Arc<Shared>,
    transactional_id: Option<String>,
}

/// What publishers and members have in common.
pub(crate) struct Shared {
    settings: ClientConfig,
    pub(crate) answer_max: Duration,
    /// Where a group goes on whose offset is lost.
    pub(crate) lost: Start,
    /// Topics that exist, with how many partitions, and since when we know.
    known: Mutex<HashMap<String, (usize, Instant)>>,
    /// For single messages and for questions.
    single: Mutex<Option<Producer>>,
}

impl Kafka {
    /// A Kafka at this address. It is not asked for anything yet.
    pub fn new(options: &Options) -> Result<Self> {
        let shared = Shared {
            settings: options.settings()?,
            answer_max: options.answer_max,
            lost: options.lost,
            known: Mutex::default(),
            single: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            transactional_id: None,
        })
    }

    /// The same Kafka for one route: what it publishes is sent in transactions, one per batch, under this id.
    ///
    /// Readers with `read_committed` see a batch wholly or not at all, and who publishes under the same id later fences off
    /// who did before. So the id must be the route's alone, and one relay must work all shards of the route.
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
            Some(id) => Arc::new(Transactor::new(shared, topic, mode, id.clone())),
            None => Arc::new(Publisher::new(shared, topic, mode)),
        }
    }

    async fn subscribe(&self, group: &str, topics: &[String], start: Start) -> Result<Box<dyn Subscription>> {
        crate::join::join(&self.shared, group, topics, start).await
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        crate::bury::bury(&self.shared, letter).await
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        let lags = self.lag(group, topics).await?;
        Ok(lags.iter().map(|lag| lag.messages).sum())
    }

    async fn risks(&self, group: &str, topics: &[String]) -> Result<Vec<Risk>> {
        let shared = Arc::clone(&self.shared);
        let known = self.shared.blocking("ask for the topics", move || {
            let metadata = shared.admin()?.inner().fetch_metadata(None, shared.answer_max);
            let metadata = metadata.map_err(|source| failed("ask for the topics".to_owned(), source))?;
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
    /// A producer whose messages are durable at every replica in sync, once each, in order; with these settings besides.
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
        create(&all, Voice, "make a producer")
    }

    /// A consumer that joins no group: it looks after the offsets of one.
    pub(crate) fn clerk(&self, group: &str) -> Result<BaseConsumer<Voice>> {
        let mut settings = self.settings.clone();
        settings
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("session.timeout.ms", "6000")
            .set("isolation.level", "read_committed");
        create(&settings, Voice, "make a consumer")
    }

    /// A consumer with these settings.
    pub(crate) fn consumer<C: ConsumerContext>(
        &self,
        settings: &[(&str, &str)],
        context: C,
    ) -> Result<BaseConsumer<C>> {
        let mut all = self.settings.clone();
        for (name, value) in settings {
            all.set(*name, *value);
        }
        create(&all, context, "make a consumer")
    }

    /// A client for topics and their settings.
    pub(crate) fn admin(&self) -> Result<AdminClient<Voice>> {
        create(&self.settings, Voice, "make an admin client")
    }

    /// The producer for single messages: each is a request of its own, so that one that is refused takes no other with it.
    pub(crate) fn single(&self) -> Result<Producer> {
        let mut slot = lock(&self.single);
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
            .single()
            .map_err(|error| KafkaError::ClientCreation(error.report()))?;
        // The driver ends it by itself in time; this is for a driver that does not.
        match timeout(self.answer_max * 2, producer.send(record.borrowed(), self.answer_max)).await {
            Ok(Ok(_delivery)) => Ok(()),
            Ok(Err((error, _message))) => Err(error),
            Err(_late) => Err(KafkaError::NoMessageReceived),
        }
    }

    /// How many partitions these topics have; none, if one does not exist.
    pub(crate) async fn partitions<'a>(self: &Arc<Self>, topics: impl Iterator<Item = &'a str>) -> Result<Partitions> {
        let is_fresh = |(_, since): &&(usize, Instant)| since.elapsed() < KNOWN_MAX;
        let (mut found, mut unknown) = (Partitions::new(), Vec::new());
        for topic in topics.collect::<BTreeSet<_>>() {
            match lock(&self.known).get(topic).filter(is_fresh) {
                Some((count, _)) => drop(found.insert(topic.to_owned(), *count)),
                None => unknown.push(topic.to_owned()),
            }
        }
        if !unknown.is_empty() {
            let shared = Arc::clone(self);
            let asked = self.blocking("ask for topics", move || shared.look_up(unknown));
            found.extend(asked.await?);
        }
        Ok(found)
    }

    fn look_up(&self, unknown: Vec<String>) -> Result<Partitions> {
        let producer = self.single()?;
        let mut found = Partitions::new();
        for topic in unknown {
            let count = partitions_of(producer.client(), &topic, self.answer_max)?.len();
            if count > 0 {
                lock(&self.known).insert(topic.clone(), (count, Instant::now()));
            }
            found.insert(topic, count);
        }
        Ok(found)
    }

    /// A topic that did not answer may have been deleted: it is looked up the next time.
    pub(crate) fn forget<'a>(&self, topics: impl Iterator<Item = &'a String>) {
        let mut known = lock(&self.known);
        for topic in topics {
            known.remove(topic);
        }
    }

    /// Runs a call of the driver that blocks, on a thread where it may. It has a limit of its own; if it misses that, it is
    /// left to itself.
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
                format!("{doing}: Kafka did not answer within {:?}", self.answer_max * 3),
            )),
        }
    }
}

/// The numbers of a topic's partitions; none, if it does not exist.
pub(crate) fn partitions_of<C: ClientContext>(
    client: &rdkafka::client::Client<C>,
    topic: &str,
    limit: Duration,
) -> Result<Vec<i32>> {
    let metadata = client
        .fetch_metadata(Some(topic), limit)
        .map_err(|source| failed(format!("ask for the topic {topic}"), source))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    Ok(found.map_or_else(Vec::new, |found| {
        found.partitions().iter().map(|one| one.id()).collect()
    }))
}

/// What to do about a topic that does not exist.
pub(crate) fn missing_words(topic: &str) -> String {
    format!("the topic {topic} does not exist; create it with `postroom topics apply`")
}

/// What to answer for one message that was sent alone.
pub(crate) fn receipt(topic: &str, sent: Result<(), KafkaError>) -> Receipt {
    let Err(error) = sent else {
        return Receipt::Delivered;
    };
    match code(&error) {
        Some(code) if is_rejection(code) => Receipt::Rejected(format!("the topic {topic} does not take it: {error}")),
        Some(code) if is_refusal(code) => Receipt::Refused(format!("the topic {topic} does not take it: {error}")),
        _ => Receipt::Unavailable(error.to_string()),
    }
}

/// Gives up a producer: when this ends, nothing of what it held will be sent any more.
pub(crate) async fn retire(producer: Producer) {
    let dropped = tokio::task::spawn_blocking(move || {
        producer.purge(PurgeConfig::default().queue().inflight());
        drop(producer);
    });
    if let Err(error) = dropped.await {
        tracing::debug!(%error, "a producer was not given up in order");
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

/// Where librdkafka's own log goes. What matters of it comes back as an error too.
#[derive(Debug)]
pub(crate) struct Voice;

impl ClientContext for Voice {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, words: &str) {
        tracing::debug!(?level, facility, words, "librdkafka");
    }

    fn error(&self, error: KafkaError, words: &str) {
        tracing::debug!(%error, words, "librdkafka");
    }
}

impl ConsumerContext for Voice {}
