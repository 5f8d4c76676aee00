//! The port to brokers: where routes publish to, and where subscribers are fed from when they are not fed from the outbox.

pub(crate) mod fields;
pub(crate) mod namespaced;
pub(crate) mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use uuid::Uuid;

use crate::broker::fields::Fields;
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::event::envelope::{Envelope, Mode};
use crate::event::topic::Topic;
use crate::policy::Start;
use crate::policy::filter::Filter;

/// The type under which a message is kept that is no event.
pub(crate) const UNREADABLE: &str = "postroom.unreadable.v1";

/// A broker: Kafka, RabbitMQ, Redis Streams.
///
/// # Contract
/// 1. A message that a publisher delivers to a topic is received, at least once, by every group that joined it, in order per
///    aggregate id.
/// 2. A subscription hands out each message to one member of its group at a time. When a member leaves or
///    dies, its unacknowledged messages are delivered again, in order per key; acknowledged messages are not.
/// 3. Connections are made again by themselves; a call ends in time with an error while the broker is away.
/// 4. A copy of a dead letter that was buried stays until it is acknowledged as one of [`Broker::buried`], or until other tools remove
///    it. Copies that are handed out and not acknowledged stay, with their content. A broker that cannot remove single
///    messages answers `Unsupported`.
#[async_trait]
pub trait Broker: fmt::Debug + Send + Sync {
    /// Which broker this is, and where: the same after a restart, another for another server. Without passwords. When it
    /// changes, its groups read the log once before they go on from the broker.
    fn name(&self) -> String {
        std::any::type_name::<Self>().to_owned()
    }

    /// Where a route publishes: each entry to its topic, in order by aggregate id.
    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination>;

    /// Joins a group. A group that is new begins where `start` says; one that is known goes on where it was.
    async fn subscribe(&self, join: Join<'_>) -> Result<Box<dyn Subscription>>;

    /// Keeps a copy where the broker's own tools look for dead letters (`{topic}.DLT` and the like), with where it came from
    /// and why. The dead letter that operators act on is the one in the store.
    async fn bury(&self, letter: &Letter) -> Result<()>;

    /// The copies of a group's dead letters of these topics. `next` answers with none at the end; `ack` removes copies; those that
    /// were not acknowledged are back when the subscription is dropped, on some brokers behind those that were not handed out.
    async fn buried(&self, group: &str, topics: &[String]) -> Result<Box<dyn Subscription>>;

    /// About how many messages wait for a group that has joined. Some brokers also count unacknowledged messages and internal
    /// markers. For metrics; do not call it often.
    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64>;

    /// Settings of the broker, or of what it keeps for a group, that can cost messages. Changes nothing. An error when the broker
    /// cannot be reached.
    async fn risks(&self, group: &str, topics: &[String]) -> Result<Vec<Risk>> {
        self.waiting(group, topics).await?;
        Ok(Vec::new())
    }
}

/// How a group joins.
#[derive(Clone, Copy, Debug)]
pub struct Join<'a> {
    /// Its name.
    pub group: &'a str,
    /// The topics that it reads.
    pub topics: &'a [String],
    /// The event types that it wants. A broker that stores each message for each group may leave out others.
    pub wants: &'a Filter,
    /// The event types that are published to the topics, as far as the process knows them.
    pub published: &'a Filter,
    /// Where it begins if it is new.
    pub start: Start,
}

static EVERYTHING: LazyLock<Filter> = LazyLock::new(Filter::all);

impl<'a> Join<'a> {
    /// A group that wants everything in these topics.
    pub fn new(group: &'a str, topics: &'a [String], start: Start) -> Self {
        Self {
            group,
            topics,
            wants: &EVERYTHING,
            published: &EVERYTHING,
            start,
        }
    }
}

/// A setting that can cost messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Risk {
    /// The setting, and its consequence.
    pub says: String,
    /// The correction.
    pub next: String,
}

/// A member of a group.
#[async_trait]
pub trait Subscription: fmt::Debug + Send {
    /// Waits for messages, at most `max`. Dropping the future loses none.
    async fn next(&mut self, max: usize) -> Result<Vec<Message>>;

    /// These are done, durably: called after the commit of their effects.
    async fn ack(&mut self, done: &[Mark]) -> Result<()>;

    /// These were not worked; they come again, here or at another member.
    async fn nack(&mut self, back: &[Mark]) -> Result<()>;
}

/// How a subscription recognises a message it has handed out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mark {
    /// A place in a partition of a topic.
    Offset {
        /// Its topic.
        topic: String,
        /// Its partition.
        partition: i32,
        /// Its offset.
        offset: i64,
    },
    /// A number of the connection's.
    Tag(u64),
    /// A name within a topic.
    Id {
        /// Its topic.
        topic: String,
        /// Its name.
        id: String,
    },
}

/// A message of a broker.
#[derive(Clone, Debug)]
pub struct Message {
    /// Names the message in an acknowledgement.
    pub mark: Mark,
    /// Where it came from.
    pub origin: Origin,
    /// The media type of the body: says whether it is structured.
    pub content_type: Option<String>,
    /// CloudEvents attributes, without the transport's prefix.
    pub attributes: BTreeMap<String, String>,
    /// The other fields or headers.
    pub fields: Fields,
    /// The body: of a Redis entry, the field `data`.
    pub body: Vec<u8>,
    /// Why no handler is to get it: its broker has delivered it several times, and each member that received it crashed. It becomes
    /// a dead letter.
    pub given_up: Option<String>,
}

impl Message {
    /// Whether it says that it is a CloudEvent.
    pub fn is_cloud_event(&self) -> bool {
        self.is_structured() || self.attributes.contains_key("specversion")
    }

    /// The event inside.
    pub fn event(&self) -> Result<Event> {
        let envelope = if self.is_structured() {
            Envelope::from_structured(&self.body)?
        } else {
            Envelope::from_binary(self.attributes.clone(), &self.body)?
        };
        envelope.into_event()
    }

    fn is_structured(&self) -> bool {
        let content_type = self.content_type.as_deref();
        content_type.is_some_and(|kind| kind.trim_start().starts_with("application/cloudevents"))
    }
}

/// Where a message came from: the topic, and the place in it in the broker's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The topic.
    pub topic: String,
    /// For example `partition 2, offset 17`.
    pub place: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.topic, self.place)
    }
}

impl std::str::FromStr for Origin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (topic, place) = text
            .split_once('#')
            .ok_or_else(|| Error::invalid(format!("{text:?} is not an origin")))?;
        Ok(Self {
            topic: topic.to_owned(),
            place: place.to_owned(),
        })
    }
}

/// A message that was given up.
#[derive(Clone, Debug)]
pub struct Letter {
    /// Which group gave it up.
    pub group: String,
    /// The id of its event in the store. Brokers keep it with the copy, in the field [`Letter::EVENT_ID`].
    pub event_id: Uuid,
    /// Where it came from.
    pub origin: Origin,
    /// The media type of the body.
    pub content_type: Option<String>,
    /// CloudEvents attributes, without the transport's prefix.
    pub attributes: BTreeMap<String, String>,
    /// The other fields or headers.
    pub fields: Fields,
    /// The body, as it came, or as the subscriber's screen has left it.
    pub body: Vec<u8>,
    /// Why it was given up.
    pub error: String,
    /// How often it was tried.
    pub attempts: u32,
}

impl Letter {
    /// The field, or header, of a copy that has the id of its event.
    pub const EVENT_ID: &str = "postroom-event-id";

    /// Where it came from and why, by the names of the fields or headers that a copy has in addition to those of its message.
    pub fn marks(&self) -> [(&'static str, String); 6] {
        [
            ("postroom-origin-topic", self.origin.topic.clone()),
            ("postroom-origin-place", self.origin.place.clone()),
            ("postroom-group", self.group.clone()),
            ("postroom-error", self.error.clone()),
            ("postroom-attempts", self.attempts.to_string()),
            (Self::EVENT_ID, self.event_id.to_string()),
        ]
    }
}
