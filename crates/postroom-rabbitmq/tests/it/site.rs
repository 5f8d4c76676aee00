//! A RabbitMQ for a test: the shared one, whose queues are deleted after the test, or a private one.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test harness: a panic fails the test"
)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lapin::options::{BasicGetOptions, BasicPublishOptions, ExchangeDeleteOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use postroom::{
    Batch, Broker, Destination, Entry, Event, Join, Letter, Message, Mode, Ordering, Receipt, Result, Start,
    Subscription, Topic,
};
use postroom_rabbitmq::RabbitMq;
use postroom_testkit::broker_suite::{Sharing, Site};
use postroom_testkit::rabbitmq_server::{self, Server};
use uuid::Uuid;

/// The RabbitMQ of one test.
#[derive(Debug)]
pub(crate) struct Rabbit {
    partitions: u16,
    url: String,
    noted: Arc<CleanupBroker>,
    server: Option<Server>,
}

/// On the shared server, with three partitions.
pub(crate) async fn shared() -> Rabbit {
    shared_with(3)
}

/// On the shared server.
pub(crate) fn shared_with(partitions: u16) -> Rabbit {
    let url = std::env::var("POSTROOM_TEST_RABBITMQ_URL").unwrap_or_else(|_| {
        panic!(
            "POSTROOM_TEST_RABBITMQ_URL is not set: this test needs a RabbitMQ. Start the services and tell this shell \
             about them with `eval \"$(cargo xtask services up)\"`, or run everything with `cargo xtask test`"
        )
    });
    Rabbit::on(url, partitions, None)
}

/// On a private server.
pub(crate) async fn private() -> Rabbit {
    let server = rabbitmq_server::rabbitmq().await;
    Rabbit::on(server.url(), 3, Some(server))
}

impl Rabbit {
    fn on(url: String, partitions: u16, server: Option<Server>) -> Self {
        let broker = RabbitMq::new(&url).and_then(|broker| broker.partitions(partitions));
        let noted = CleanupBroker {
            broker: broker.expect("an address"),
            url: server.is_none().then(|| url.clone()),
            seen: Mutex::default(),
        };
        Self {
            partitions,
            url,
            noted: Arc::new(noted),
            server,
        }
    }

    pub(crate) fn rabbit(&self) -> &RabbitMq {
        &self.noted.broker
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("a private server")
    }

    /// A channel of the plain driver.
    pub(crate) async fn plain(&self) -> Channel {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await;
        let channel = connection.expect("a connection").create_channel().await;
        channel.expect("a channel")
    }

    pub(crate) fn publisher(&self, topic: &str, mode: Mode) -> Arc<dyn Destination> {
        self.broker().publisher(topic.parse::<Topic>().expect("a topic"), mode)
    }

    pub(crate) async fn join(&self, group: &str, topic: &str) -> Box<dyn Subscription> {
        let joined = self
            .broker()
            .subscribe(Join::new(group, &[topic.to_owned()], Start::Beginning))
            .await;
        joined.expect("joined")
    }
}

#[async_trait]
impl Site for Rabbit {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::<CleanupBroker>::clone(&self.noted)
    }

    /// A queue delivers to the first member.
    fn sharing(&self) -> Sharing {
        Sharing::Standby
    }

    async fn create(&mut self, topic: &str, partitions: u16) {
        assert_eq!(self.partitions, partitions, "the groups of {topic} declare its queues");
    }

    async fn create_refusing(&mut self, _topic: &str) {
        // A topic without groups refuses messages.
    }

    async fn put(&mut self, topic: &str, content_type: &str, body: &[u8]) {
        let properties = BasicProperties::default().with_content_type(content_type.into());
        let options = BasicPublishOptions::default();
        let channel = self.plain().await;
        let put = channel.basic_publish(topic.into(), "slot.0".into(), options, body, properties);
        put.await.expect("put");
    }

    async fn dead_letters(&mut self, topic: &str) -> Vec<String> {
        let queue = format!("{topic}:the-group:dead");
        let channel = self.plain().await;
        let mut letters = Vec::new();
        while let Some(letter) = channel
            .basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true })
            .await
            .expect("a letter")
        {
            let body = String::from_utf8_lossy(&letter.data);
            let headers = letter.properties.headers().clone().unwrap_or_default();
            let headers = headers
                .inner()
                .iter()
                .map(|(name, value)| match value.as_long_string() {
                    Some(text) => format!("{name}={text}"),
                    None => format!("{name}={value:?}"),
                });
            letters.push(format!("{} {body}", headers.collect::<Vec<_>>().join(" ")));
        }
        letters
    }

    async fn stop(&mut self) {
        self.server().stop().await.expect("stopped");
    }

    async fn start(&mut self) {
        self.server().restart().await.expect("started");
    }
}

/// Records the groups used on a shared server, and deletes their queues on drop.
#[derive(Debug)]
struct CleanupBroker {
    broker: RabbitMq,
    /// `None` for a private server.
    url: Option<String>,
    seen: Mutex<BTreeSet<(String, String)>>,
}

#[async_trait]
impl Broker for CleanupBroker {
    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        self.broker.publisher(topic, mode)
    }

    async fn subscribe(&self, join: Join<'_>) -> Result<Box<dyn Subscription>> {
        let pairs = join.topics.iter().map(|topic| (join.group.to_owned(), topic.clone()));
        self.seen.lock().expect("no panic").extend(pairs);
        self.broker.subscribe(join).await
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        let pair = (letter.group.clone(), letter.origin.topic.clone());
        self.seen.lock().expect("no panic").insert(pair);
        self.broker.bury(letter).await
    }

    async fn buried(&self, group: &str, topics: &[String]) -> Result<Box<dyn Subscription>> {
        self.broker.buried(group, topics).await
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        self.broker.waiting(group, topics).await
    }
}

impl Drop for CleanupBroker {
    fn drop(&mut self) {
        let Some(url) = self.url.take() else { return };
        let seen = std::mem::take(self.seen.get_mut().expect("no panic"));
        // A thread with its own runtime, because `drop` cannot block on the runtime of the test.
        let delete_groups = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(delete_groups(&url, seen));
        });
        assert!(
            delete_groups.join().is_ok() || std::thread::panicking(),
            "queues were left behind"
        );
    }
}

async fn delete_groups(url: &str, seen: BTreeSet<(String, String)>) {
    let broker = RabbitMq::new(url)
        .and_then(|broker| broker.partitions(3))
        .expect("a broker");
    let connection = Connection::connect(url, ConnectionProperties::default()).await;
    let channel = connection
        .expect("a connection")
        .create_channel()
        .await
        .expect("a channel");
    for (group, topic) in seen {
        broker
            .forget(&group, std::slice::from_ref(&topic))
            .await
            .expect("forgotten");
        let deleted = channel.exchange_delete(topic.as_str().into(), ExchangeDeleteOptions::default());
        deleted.await.expect("deleted");
    }
}

/// A unique name.
pub(crate) fn name(of: &str) -> String {
    format!("{of}-{}", Uuid::now_v7())
}

pub(crate) fn entry(id: i64, event_type: &str, key: &str) -> Entry {
    let payload = postroom::parse_payload(&format!("{{\"n\":{id}}}")).expect("JSON");
    Entry {
        id,
        event: Event::new(event_type, "test", key, payload).expect("an event"),
        created_at: postroom::clock::now(),
    }
}

pub(crate) async fn deliver(publisher: &Arc<dyn Destination>, entries: &[Entry]) -> Vec<Receipt> {
    let entries: Vec<&Entry> = entries.iter().collect();
    let batch = Batch {
        entries: &entries,
        ordering: Ordering::Key,
    };
    publisher.deliver(&batch).await
}

/// The number in a message of [`entry`].
pub(crate) fn number(message: &Message) -> i64 {
    let payload: serde_json::Value = message.event().expect("an event").decode().expect("JSON");
    payload.get("n").and_then(serde_json::Value::as_i64).expect("a number")
}
