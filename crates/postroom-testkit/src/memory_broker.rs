//! A broker in memory: the plainest one that fulfils the port's contract. One partition per topic; of a group's members one
//! at a time is handed messages, so that keys stay in order.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postroom::envelope::{CLOUDEVENTS_JSON, JSON};
use postroom::{
    Batch, Broker, Destination, Entry, Envelope, Error, ErrorKind, Fields, Join, Letter, Mark, Message, Mode, Origin,
    Receipt, Result, Start, Subscription, Topic,
};
use tokio::sync::Notify;

use crate::broker_suite::{Sharing, Site};

/// Topics whose names end like this take nothing.
const REFUSED: &str = "refused";

/// How long a group takes to join a slow broker.
const SLOW: Duration = Duration::from_millis(200);

/// A broker that nobody else sees.
#[derive(Clone, Debug, Default)]
pub struct MemoryBroker(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    flaw: Flaw,
    state: Mutex<State>,
    news: Notify,
}

/// The defect of a broken twin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    #[default]
    None,
    /// It publishes every entry, also after an earlier entry has failed.
    Heedless,
    /// It counts a message as done once it has handed it out.
    Forgetful,
    /// It takes no copies of dead letters; the platform must tolerate this.
    Unburied,
    /// It removes every copy of a dead letter instead of those that are acknowledged.
    Sweeping,
    /// It lets a group join only after a delay; the platform must tolerate this too.
    Slow,
    /// It reports that members share a group, and feeds only one of them.
    Hoarding,
}

#[derive(Debug, Default)]
struct State {
    is_down: bool,
    topics: BTreeMap<String, Vec<Stored>>,
    /// How far each group has come in each topic.
    groups: HashMap<(String, String), usize>,
    /// The member that receives the messages of each group now.
    active: HashMap<String, u64>,
    members: u64,
    letters: Vec<Letter>,
}

#[derive(Clone, Debug)]
struct Stored {
    content_type: String,
    attributes: BTreeMap<String, String>,
    fields: Fields,
    body: Vec<u8>,
}

impl MemoryBroker {
    /// A broken twin.
    pub fn with(flaw: Flaw) -> Self {
        Self(Arc::new(Shared {
            flaw,
            ..Shared::default()
        }))
    }

    /// Stores a message of a program that knows no CloudEvents: fields and no body.
    pub fn put_fields(&self, topic: &str, fields: &[(&str, &str)]) {
        let stored = Stored {
            content_type: String::new(),
            attributes: BTreeMap::new(),
            fields: fields.iter().copied().collect(),
            body: Vec::new(),
        };
        self.state().topics.entry(topic.to_owned()).or_default().push(stored);
        self.0.news.notify_waiters();
    }

    /// Loses everything it has stored, groups too.
    pub fn lose(&self) {
        let mut state = self.state();
        state.topics.clear();
        state.groups.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, entry: &Entry, topic: &str, mode: &Mode) -> Receipt {
        let stored = match Stored::of(entry, mode) {
            Ok(stored) => stored,
            Err(error) => return Receipt::Rejected(error.report()),
        };
        if topic.ends_with(REFUSED) {
            return Receipt::Refused(format!("the topic {topic} takes nothing"));
        }
        let mut state = self.state();
        if state.is_down {
            return Receipt::unavailable("the broker in memory is switched off");
        }
        state.topics.entry(topic.to_owned()).or_default().push(stored);
        self.0.news.notify_waiters();
        Receipt::Delivered
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        let publisher = Publisher {
            broker: self.clone(),
            topic,
            mode,
        };
        match self.0.flaw {
            Flaw::Heedless => Arc::new(Heedless(publisher)),
            _ => Arc::new(publisher),
        }
    }

    async fn subscribe(&self, join: Join<'_>) -> Result<Box<dyn Subscription>> {
        let Join {
            group, topics, start, ..
        } = join;
        if self.0.flaw == Flaw::Slow {
            tokio::time::sleep(SLOW).await;
        }
        let mut state = self.state();
        state.check()?;
        for topic in topics {
            let begin = match start {
                Start::Beginning => 0,
                Start::Head => state.topics.get(topic).map_or(0, Vec::len),
            };
            state.groups.entry((group.to_owned(), topic.clone())).or_insert(begin);
        }
        state.members += 1;
        Ok(Box::new(Member {
            broker: self.clone(),
            number: state.members,
            group: group.to_owned(),
            topics: topics.to_vec(),
            taken: HashMap::new(),
        }))
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        if self.0.flaw == Flaw::Unburied {
            return Err(Error::new(ErrorKind::NotFound, "there is no place for dead letters"));
        }
        let mut state = self.state();
        state.check()?;
        state.letters.push(letter.clone());
        Ok(())
    }

    async fn buried(&self, group: &str, topics: &[String]) -> Result<Box<dyn Subscription>> {
        let state = self.state();
        state.check()?;
        if self.0.flaw == Flaw::Unburied {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "there are no copies of dead letters",
            ));
        }
        let is_theirs = |letter: &&Letter| letter.group == group && topics.contains(&letter.origin.topic);
        Ok(Box::new(Copies {
            broker: self.clone(),
            rest: state.letters.iter().filter(is_theirs).cloned().collect(),
        }))
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        let state = self.state();
        state.check()?;
        let of_topic = |topic: &String| {
            let done = state.groups.get(&(group.to_owned(), topic.clone())).copied();
            let all = state.topics.get(topic).map_or(0, Vec::len);
            all.saturating_sub(done.unwrap_or(0)) as u64
        };
        Ok(topics.iter().map(of_topic).sum())
    }
}

impl State {
    fn check(&self) -> Result<()> {
        if self.is_down {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the broker in memory is switched off",
            ));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Publisher {
    broker: MemoryBroker,
    topic: Topic,
    mode: Mode,
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let publish = async |at: usize| {
            batch.entries.get(at).map_or(Receipt::Held, |entry| {
                let topic = self.topic.of(&entry.event.event_type);
                self.broker.publish(entry, &topic, &self.mode)
            })
        };
        batch.in_lanes(8, publish).await
    }
}

/// A broken twin of the publisher: sends everything, whatever became of the entries before.
#[derive(Debug)]
struct Heedless(Publisher);

#[async_trait]
impl Destination for Heedless {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let publish = |entry: &&Entry| {
            let topic = self.0.topic.of(&entry.event.event_type);
            self.0.broker.publish(entry, &topic, &self.0.mode)
        };
        batch.entries.iter().map(publish).collect()
    }
}

/// A member of a group.
#[derive(Debug)]
struct Member {
    broker: MemoryBroker,
    number: u64,
    group: String,
    topics: Vec<String>,
    /// How far messages were handed out, per topic.
    taken: HashMap<String, usize>,
}

impl Member {
    fn take(&mut self, max: usize) -> Result<Vec<Message>> {
        let broker = self.broker.clone();
        let mut state = broker.state();
        state.check()?;
        if *state.active.entry(self.group.clone()).or_insert(self.number) != self.number {
            return Ok(Vec::new());
        }
        let mut messages = Vec::new();
        for topic in &self.topics {
            let done = state
                .groups
                .get(&(self.group.clone(), topic.clone()))
                .copied()
                .unwrap_or(0);
            let from = self.taken.get(topic).copied().unwrap_or(done);
            let stored = state
                .topics
                .get(topic)
                .and_then(|all| all.get(from..))
                .unwrap_or_default();
            let some = stored.iter().take(max - messages.len());
            let before = messages.len();
            messages.extend(some.enumerate().map(|(at, stored)| stored.message(topic, from + at)));
            self.taken.insert(topic.clone(), from + messages.len() - before);
        }
        if broker.0.flaw == Flaw::Forgetful {
            for (topic, taken) in &self.taken {
                state.groups.insert((self.group.clone(), topic.clone()), *taken);
            }
        }
        Ok(messages)
    }

    fn place(mark: &Mark) -> Option<(String, usize)> {
        match mark {
            Mark::Offset { topic, offset, .. } => Some((topic.clone(), usize::try_from(*offset).ok()?)),
            Mark::Tag(_) | Mark::Id { .. } => None,
        }
    }
}

/// The copies of a group's dead letters, as they were when it began to read them.
#[derive(Debug)]
struct Copies {
    broker: MemoryBroker,
    rest: VecDeque<Letter>,
}

#[async_trait]
impl Subscription for Copies {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        let count = max.min(self.rest.len());
        Ok(self.rest.drain(..count).map(copy).collect())
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        let mut state = self.broker.state();
        state.check()?;
        if self.broker.0.flaw == Flaw::Sweeping {
            state.letters.clear();
        }
        for mark in done {
            let oldest = state.letters.iter().position(|letter| mark_of(letter) == *mark);
            oldest.map(|at| state.letters.remove(at));
        }
        Ok(())
    }

    async fn nack(&mut self, _back: &[Mark]) -> Result<()> {
        Ok(())
    }
}

/// The mark of a copy. Several copies of one letter have the same; the oldest goes first.
fn mark_of(letter: &Letter) -> Mark {
    Mark::Id {
        topic: letter.group.clone(),
        id: letter.event_id.to_string(),
    }
}

fn copy(letter: Letter) -> Message {
    let mut fields = letter.fields.clone();
    letter
        .marks()
        .into_iter()
        .for_each(|(name, value)| fields.insert(name, value));
    Message {
        mark: mark_of(&letter),
        origin: letter.origin,
        content_type: letter.content_type,
        attributes: letter.attributes,
        fields,
        body: letter.body,
        given_up: None,
    }
}

impl Stored {
    fn of(entry: &Entry, mode: &Mode) -> Result<Self> {
        let empty = Self {
            content_type: String::new(),
            attributes: BTreeMap::new(),
            fields: Fields::default(),
            body: Vec::new(),
        };
        Ok(match mode {
            Mode::Structured => Self {
                content_type: CLOUDEVENTS_JSON.to_owned(),
                body: Envelope::of(entry).to_structured(),
                ..empty
            },
            Mode::Binary => {
                let Envelope { attributes, data } = Envelope::of(entry);
                Self {
                    content_type: JSON.to_owned(),
                    body: data.get().as_bytes().to_vec(),
                    attributes,
                    ..empty
                }
            }
            Mode::Own(writer) => {
                let written = writer.write(entry)?;
                Self {
                    content_type: written.content_type,
                    body: written.body,
                    fields: written.headers.into_iter().collect(),
                    ..empty
                }
            }
        })
    }

    fn message(&self, topic: &str, at: usize) -> Message {
        Message {
            mark: Mark::Offset {
                topic: topic.to_owned(),
                partition: 0,
                offset: i64::try_from(at).unwrap_or(i64::MAX),
            },
            origin: Origin {
                topic: topic.to_owned(),
                place: at.to_string(),
            },
            content_type: Some(self.content_type.clone()),
            attributes: self.attributes.clone(),
            fields: self.fields.clone(),
            body: self.body.clone(),
            given_up: None,
        }
    }
}

#[async_trait]
impl Subscription for Member {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        let shared = Arc::clone(&self.broker.0);
        loop {
            let news = shared.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let messages = self.take(max)?;
            if !messages.is_empty() {
                return Ok(messages);
            }
            news.await;
        }
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        let mut state = self.broker.state();
        state.check()?;
        for (topic, at) in done.iter().filter_map(Self::place) {
            let reached = state.groups.entry((self.group.clone(), topic)).or_default();
            *reached = (*reached).max(at + 1);
        }
        Ok(())
    }

    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        for (topic, at) in back.iter().filter_map(Self::place) {
            let taken = self.taken.entry(topic).or_default();
            *taken = (*taken).min(at);
        }
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.broker.state();
        if state.active.get(&self.group) == Some(&self.number) {
            state.active.remove(&self.group);
        }
        drop(state);
        self.broker.0.news.notify_waiters();
    }
}

#[async_trait]
impl Site for MemoryBroker {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(self.clone())
    }

    fn sharing(&self) -> Sharing {
        match self.0.flaw {
            Flaw::Hoarding => Sharing::Spread,
            _ => Sharing::Standby,
        }
    }

    async fn create(&mut self, topic: &str, _partitions: u16) {
        self.state().topics.entry(topic.to_owned()).or_default();
    }

    async fn create_refusing(&mut self, topic: &str) {
        assert!(topic.ends_with(REFUSED), "{topic} would take messages");
    }

    async fn put(&mut self, topic: &str, content_type: &str, body: &[u8]) {
        let stored = Stored {
            content_type: content_type.to_owned(),
            attributes: BTreeMap::new(),
            fields: Fields::default(),
            body: body.to_vec(),
        };
        self.state().topics.entry(topic.to_owned()).or_default().push(stored);
        self.0.news.notify_waiters();
    }

    async fn dead_letters(&mut self, topic: &str) -> Vec<String> {
        let state = self.state();
        let of_topic = state.letters.iter().filter(|letter| letter.origin.topic == topic);
        of_topic
            .map(|letter| {
                let fields = letter
                    .fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)));
                let fields: Vec<String> = fields.collect();
                format!(
                    "{letter:?} {} {}",
                    fields.join(" "),
                    String::from_utf8_lossy(&letter.body)
                )
            })
            .collect()
    }

    async fn stop(&mut self) {
        self.state().is_down = true;
        self.0.news.notify_waiters();
    }

    async fn start(&mut self) {
        self.state().is_down = false;
        self.0.news.notify_waiters();
    }
}
