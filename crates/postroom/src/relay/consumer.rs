//! A consumer: feeds a subscriber from a broker. It parks failed messages in the store, where the route's worker retries them in
//! order by key, so that the topic moves on. It acknowledges messages after the commit.

mod item;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::item::{Content, Item, by_plan, marks};
use crate::broker::fields::Fields;
use crate::broker::{Broker, Join, Letter, Subscription};
use crate::destination::Receipt;
use crate::emit::ingest;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::event::entry::Entry;
use crate::event::envelope::{Envelope, JSON};
use crate::event::writer::{Writer, Written};
use crate::policy::Start;
use crate::policy::filter::Filter;
use crate::policy::ordering::Lanes;
use crate::relay::Parts;
use crate::relay::backoff::Backoff;
use crate::relay::delivery::{Delivered, Plan, deliver, pair};
use crate::relay::health::{Counts, Health, Worker};
use crate::relay::judge::Judge;
use crate::relay::repeated::Repeated;
use crate::relay::settle::{Messages, Outcome, settle_messages};
use crate::route::{BATCH_MAX, Route, Source, To};
use crate::state::cursor::{self, Changes, Shard};
use crate::state::feeding::{self, Feeding};
use crate::state::known_failures;
use crate::state::outage::{self, Side};
use crate::state::parked::{self, PARKED_MAX, Parked};
use crate::store::outbox::{Outbox, with_timeout};
use crate::store::{bounded, table};
use crate::subscriber::effects::OpenEffects;
use crate::subscriber::{HandlerPool, Subscriber};

/// About how many bytes of messages are taken at once.
const TAKE_BYTES: usize = 4 << 20;
/// How many messages are taken first, when their size is not known.
const TAKE_FIRST: usize = 16;
/// Between two looks while the group is paused, or stands behind a parked entry.
const LOOK: Duration = Duration::from_millis(500);
/// So long a member waits for the route to be fed by its broker before it leaves what it would get to others.
const FED_SOON: Duration = Duration::from_secs(10);

/// A member of a broker's group.
#[derive(Debug)]
pub(crate) struct Consumer {
    route: Arc<Route>,
    subscriber: Arc<Subscriber>,
    broker: Arc<dyn Broker>,
    topics: Vec<String>,
    /// The event types that are published to the topics.
    brings: Filter,
    /// Where the group begins if the broker knows no progress of it.
    start: Start,
    outbox: Arc<dyn Outbox>,
    changes: watch::Receiver<Changes>,
    health: Arc<Health>,
    joined: Joined,
    handlers: HandlerPool,
    feeding: Arc<Feeding>,
    /// How many messages are taken at once: as many as fit into memory by the size of the last ones.
    take: usize,
    /// The route's number when the group was last seen open.
    open_since: Option<i64>,
    /// Why it has lost its subscription.
    loss: Repeated,
}

/// Whether a consumer may take messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// Paused, or too much is parked.
    Shut,
    /// The route still reads the log, or another process feeds it in another way.
    NotFed,
    /// The route reads the log, and was changed since its group joined: another process may have fed it in between, and told the broker
    /// what it does not want.
    JoinAgain,
}

/// The groups of a relay that have joined their broker, each with the number of its route when it last began to; who awaits them
/// hears of it.
pub(crate) type Joined = Arc<watch::Sender<HashMap<String, i64>>>;

/// How a try to settle messages ended.
#[derive(Debug)]
enum Turn {
    /// So many are settled.
    Settled(usize),
    /// Nothing is settled: these events were handled here and given up elsewhere. A dead letter is the operator's to decide on.
    GivenUp(HashSet<Uuid>),
}

impl Consumer {
    /// The consumer of a route, if a broker feeds it.
    pub(crate) fn of(route: &Arc<Route>, feeding: Option<&Arc<Feeding>>, parts: &Parts) -> Option<Self> {
        let feeding = feeding?;
        let To::Subscriber(subscriber) = &route.to else {
            return None;
        };
        let Source::Broker {
            broker,
            topics,
            brings,
            start,
        } = &route.from
        else {
            return None;
        };
        Some(Self {
            route: Arc::clone(route),
            subscriber: Arc::clone(subscriber),
            broker: Arc::clone(broker),
            topics: topics.clone(),
            brings: brings.clone(),
            start: *start,
            outbox: Arc::clone(&parts.outbox),
            changes: parts.poller.subscribe_changes(),
            health: Arc::clone(&parts.health),
            joined: Arc::clone(&parts.joined),
            handlers: parts.handlers.clone(),
            feeding: Arc::clone(feeding),
            take: TAKE_FIRST,
            open_since: None,
            loss: Repeated::default(),
        })
    }

    /// Consumes until `stop`. A broker or a store that is away is waited for.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<()> {
        self.health.stands_by(&self.name());
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            if let Err(error) = self.session(&stop, &mut backoff).await {
                match self.loss.is_news(&error.report(), Instant::now()) {
                    true => {
                        tracing::warn!(group = %self.route.name, error = error.report(), "consumer lost its subscription");
                    }
                    false => {
                        tracing::debug!(group = %self.route.name, error = error.report(), "consumer lost its subscription");
                    }
                }
                self.health.stands_by(&self.name());
                self.health.behind(&self.name(), Some(&error.report()));
                stop.run_until_cancelled(self.write_down(Some(&error.report()))).await;
                backoff.wait(&stop).await;
            }
        }
        self.health.left(&self.name());
        Ok(())
    }

    /// Writes down why the broker cannot be reached, or that it can. Only who looks needs it: a store that is away is no
    /// reason not to go on.
    async fn write_down(&self, reason: Option<&str>) {
        let writing = async {
            let tx = table::begin_own(self.outbox.db()).await?;
            match reason {
                Some(reason) => outage::record(&tx, &self.shard(), Side::Feed, reason).await?,
                None => outage::clear(&tx, &self.shard(), Side::Feed).await?,
            }
            tx.commit().await
        };
        with_timeout(writing).await.unwrap_or_else(|error: Error| {
            tracing::debug!(group = %self.route.name, error = error.report(), "the store does not know how the broker is");
        });
    }

    fn name(&self) -> Worker {
        Worker {
            route: self.route.name.clone(),
            shard: None,
            is_consumer: true,
        }
    }

    fn shard(&self) -> Shard {
        Shard {
            route: self.route.name.clone(),
            number: 0,
        }
    }

    /// From joining the group to leaving it.
    async fn session(&mut self, stop: &CancellationToken, backoff: &mut Backoff) -> Result<()> {
        let is_known = self.joined.borrow().contains_key(&self.route.name);
        if is_known && self.until_fed(stop).await?.is_none() {
            return Ok(());
        }
        let version = self.changes.borrow().version(&self.route.name);
        if with_timeout(self.has_joined_before()).await? {
            self.start = Start::Beginning; // what the broker has of it now came later
        }
        let joining = self.broker.subscribe(Join {
            group: &self.subscriber.group,
            topics: &self.topics,
            wants: &self.route.filter,
            published: &self.brings,
            start: self.start,
        });
        let Some(joined) = stop.run_until_cancelled(joining).await else {
            return Ok(());
        };
        let mut subscription = joined?;
        // A broker that forgets the group from now on has lost what it had: whatever it holds then came later.
        self.start = Start::Beginning;
        self.health.works(&self.name());
        self.health.moved(&self.name(), Counts::default());
        stop.run_until_cancelled(self.write_down(None)).await;
        with_timeout(self.note_joined()).await?;
        self.joined.send_modify(|groups| {
            groups.insert(self.route.name.clone(), version);
        });
        if !matches!(self.fed_soon(stop).await?, Some(Gate::Open | Gate::Shut)) {
            return Ok(()); // other members get what this one would hold
        }
        while self.is_open(stop).await? {
            let Some(messages) = stop
                .run_until_cancelled(subscription.next(self.take.min(self.route.batch)))
                .await
            else {
                break;
            };
            let messages = messages?;
            self.loss.is_over();
            let bytes = messages
                .iter()
                .map(|message| message.body.len() + message.fields.bytes());
            let bytes = bytes.sum();
            self.take = bounded::next_piece(self.take, messages.len(), bytes, TAKE_BYTES).min(BATCH_MAX);
            let items = messages.into_iter().enumerate();
            let mut items: Vec<Item> = items
                .map(|one| Item::of(one, &self.route.filter, &self.subscriber))
                .collect();
            self.recognise(&mut items, stop, backoff).await?;
            self.work(&mut *subscription, &items, stop, backoff).await?;
        }
        Ok(())
    }

    async fn has_joined_before(&self) -> Result<bool> {
        let tx = table::look(self.outbox.db()).await?;
        let fed = feeding::read(&tx, &self.shard()).await?;
        tx.commit().await?;
        Ok(fed.by.as_ref() == Some(&self.feeding.mark))
    }

    async fn note_joined(&self) -> Result<()> {
        let tx = table::begin_own(self.outbox.db()).await?;
        feeding::joined(&tx, &self.shard(), &self.feeding.mark).await?;
        tx.commit().await
    }

    /// Waits until the broker feeds the route, or its group is to join again; `None` when it is time to stop.
    async fn until_fed(&mut self, stop: &CancellationToken) -> Result<Option<Gate>> {
        while !stop.is_cancelled() {
            match with_timeout(self.gate()).await? {
                Gate::NotFed => self.look_again(stop).await,
                gate => return Ok(Some(gate)),
            }
        }
        Ok(None)
    }

    /// The same, for as long as a member may keep its share from others.
    async fn fed_soon(&mut self, stop: &CancellationToken) -> Result<Option<Gate>> {
        let soon = tokio::time::timeout(FED_SOON, self.until_fed(stop)).await;
        soon.unwrap_or(Ok(None))
    }

    /// Waits while the group is paused or has too much parked. `false` when it is time to stop, or when the broker does not feed the
    /// route any more. Each such change also changes the route's number: without a new number there is nothing to ask.
    async fn is_open(&mut self, stop: &CancellationToken) -> Result<bool> {
        while !stop.is_cancelled() {
            let version = Some(self.changes.borrow_and_update().version(&self.route.name));
            if version == self.open_since {
                return Ok(true);
            }
            match with_timeout(self.gate()).await? {
                Gate::Open => {
                    self.open_since = version;
                    return Ok(true);
                }
                Gate::NotFed | Gate::JoinAgain => return Ok(false),
                Gate::Shut => self.look_again(stop).await,
            }
        }
        Ok(false)
    }

    async fn gate(&self) -> Result<Gate> {
        let tx = table::look(self.outbox.db()).await?;
        let is_paused = cursor::read(&tx, &self.shard()).await?.is_paused;
        let fed = feeding::read(&tx, &self.shard()).await?;
        let parked = parked::count_failed(&tx, &self.shard()).await?;
        tx.commit().await?;
        Ok(match fed.is_by(&self.feeding.mark) {
            true if !is_paused && parked < PARKED_MAX => Gate::Open,
            true => Gate::Shut,
            false if fed.by.is_none() && self.is_changed_since_joined() => Gate::JoinAgain,
            false => Gate::NotFed,
        })
    }

    fn is_changed_since_joined(&self) -> bool {
        let joined = self.joined.borrow().get(&self.route.name).copied();
        joined.is_some_and(|version| version < self.changes.borrow().version(&self.route.name))
    }

    async fn look_again(&mut self, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = self.changes.changed() => {}
        }
    }

    /// Recognises events of ours that others have passed on. A store that is away is waited for.
    async fn recognise(&self, items: &mut [Item], stop: &CancellationToken, backoff: &mut Backoff) -> Result<()> {
        while !stop.is_cancelled() {
            let mut events: Vec<&mut Event> = items.iter_mut().map(|item| &mut item.entry.event).collect();
            match with_timeout(ingest::recognise(self.outbox.db(), &mut events)).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    self.health.behind(&self.name(), None);
                    backoff.wait(stop).await;
                }
                other => return other,
            }
        }
        Ok(())
    }

    /// Works through messages in order and acknowledges as it goes; what is left when it is time to stop is given back.
    async fn work(
        &mut self,
        subscription: &mut dyn Subscription,
        items: &[Item],
        stop: &CancellationToken,
        backoff: &mut Backoff,
    ) -> Result<()> {
        let (mut rest, mut given_up) = (items, HashSet::new());
        while !rest.is_empty() && !stop.is_cancelled() {
            match self.turn(rest, &mut given_up).await {
                Ok(0) => self.look_again(stop).await,
                Ok(done) => {
                    let (settled, left) = rest.split_at_checked(done).unwrap_or((rest, &[]));
                    subscription.ack(&marks(settled)).await?;
                    rest = left;
                    backoff.reset();
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::warn!(group = %self.route.name, error = error.report(), "consumer waits for its store");
                    self.health.failed(&self.name(), &error);
                    backoff.wait(stop).await;
                }
                Err(error) => return Err(error),
            }
        }
        if !rest.is_empty() {
            subscription.nack(&marks(rest)).await?;
        }
        Ok(())
    }

    /// Handles the first of these messages and settles them in one transaction; answers how many. None, when the first has
    /// to wait. Those that were given up before have no effect.
    async fn turn(&self, items: &[Item], given_up: &mut HashSet<Uuid>) -> Result<usize> {
        loop {
            match self.try_turn(items, given_up).await? {
                Turn::Settled(count) => return Ok(count),
                Turn::GivenUp(events) => given_up.extend(events),
            }
        }
    }

    async fn try_turn(&self, items: &[Item], given_up: &mut HashSet<Uuid>) -> Result<Turn> {
        let entries: Vec<&Entry> = items.iter().map(|item| &item.entry).collect();
        let (db, shard) = (self.outbox.db(), self.shard());
        if with_timeout(cursor::is_paused(db, &shard)).await? {
            return Ok(Turn::Settled(0)); // messages that were taken wait, too
        }
        let lanes = with_timeout(parked::lanes_of(db, &shard, self.route.ordering, &entries)).await?;
        let events: Vec<Uuid> = entries.iter().map(|entry| entry.event.id).collect();
        given_up.extend(with_timeout(known_failures::given_up(db, &shard.route, &events)).await?);
        let plans: Vec<Plan> = items.iter().map(|item| self.plan(item, &lanes, given_up)).collect();
        let planned = || entries.iter().copied().zip(&plans);
        let send: Vec<&Entry> = planned()
            .filter(|(_, plan)| **plan == Plan::Send)
            .map(|(entry, _)| entry)
            .collect();
        let Delivered { receipts, effects } = deliver(&self.route, (&self.handlers, true), &send, || true).await?;
        let answered = send.iter().zip(&receipts);
        let handled = answered.filter(|(_, receipt)| **receipt == Receipt::Delivered);
        let handled: Vec<Uuid> = handled.map(|(entry, _)| entry.event.id).collect();
        let judged = pair(planned(), receipts);
        let mut settlement = Judge::now(&self.route).page(&judged, &lanes);
        by_plan(items, &plans, &mut settlement);
        let (settled, counts) = (settlement.settled, settlement.counts());
        if settled == 0 {
            return Ok(Turn::Settled(0));
        }
        let effects = match effects {
            Some(effects) => effects,
            None => with_timeout(OpenEffects::without_effects(db)).await?,
        };
        let messages = Messages {
            shard: &shard,
            mark: &self.feeding.mark,
            first: items.first().map_or(0, |item| item.entry.id),
            origins: items.iter().map(|item| &item.message.origin).collect(),
            handled: &handled,
        };
        match settle_messages(effects, &messages, settlement).await? {
            Outcome::Settled(dead) => {
                self.health.moved(&self.name(), counts);
                bury(&*self.broker, &self.letters(items, &dead)).await;
                Ok(Turn::Settled(settled))
            }
            Outcome::GivenUp(given_up) => Ok(Turn::GivenUp(given_up)),
        }
    }

    fn plan(&self, item: &Item, lanes: &Lanes, given_up: &HashSet<Uuid>) -> Plan {
        let entry = &item.entry;
        match &item.content {
            Content::Ignored => Plan::Pass,
            _ if given_up.contains(&entry.event.id) => Plan::Pass,
            Content::Broken(reason) => Plan::Reject(reason.clone()),
            Content::Event if !self.route.filter.matches(&entry.event.event_type) => Plan::Pass,
            Content::Event if lanes.contains(&self.route.ordering.lane(entry)) => Plan::Wait,
            Content::Event => Plan::Send,
        }
    }

    /// The copies of what was given up, as it came, or as the subscriber's screen has left it.
    fn letters(&self, items: &[Item], dead: &[Parked]) -> Vec<Letter> {
        let first = items.first().map_or(0, |item| item.entry.id);
        let item = |row: &Parked| items.get(usize::try_from(row.entry.id - first).ok()?);
        let letter = |row: &Parked| {
            let message = item(row)?.message.clone();
            Some(Letter {
                group: self.subscriber.group.clone(),
                event_id: row.entry.event.id,
                origin: message.origin,
                content_type: message.content_type,
                attributes: message.attributes,
                fields: message.fields,
                body: message.body,
                error: row.error.clone().unwrap_or_default(),
                attempts: row.attempts,
            })
        };
        dead.iter().filter_map(letter).collect()
    }
}

/// Copies of parked entries that were given up by a route that a broker feeds, in the form of its messages.
pub(crate) fn letters(subscriber: &Subscriber, dead: &[Parked]) -> Vec<Letter> {
    let letter = |row: &Parked| {
        let origin = row.came_from.clone()?; // a replay was never on the broker
        let (content_type, attributes, fields, body) = content(subscriber.writer.as_ref(), &row.entry);
        Some(Letter {
            group: subscriber.group.clone(),
            event_id: row.entry.event.id,
            origin,
            content_type: Some(content_type),
            attributes,
            fields,
            body,
            error: row.error.clone().unwrap_or_default(),
            attempts: row.attempts,
        })
    };
    dead.iter().filter_map(letter).collect()
}

/// Media type, attributes, other fields, and body.
type MessageContent = (String, BTreeMap<String, String>, Fields, Vec<u8>);

/// The message of an entry. An event that a writer cannot write is a CloudEvent.
fn content(writer: Option<&Writer>, entry: &Entry) -> MessageContent {
    match writer.map(|writer| writer.write(entry)) {
        Some(Ok(Written {
            content_type,
            headers,
            body,
        })) => (content_type, BTreeMap::new(), headers.into_iter().collect(), body),
        Some(Err(_)) | None => {
            let envelope = Envelope::of(entry);
            let body = envelope.data.get().as_bytes().to_vec();
            (JSON.to_owned(), envelope.attributes, Fields::default(), body)
        }
    }
}

/// Puts copies where the broker's own tools look. The letters that count are committed in the store already, so that a broker
/// that will not take a copy holds up nobody.
pub(crate) async fn bury(broker: &dyn Broker, letters: &[Letter]) {
    for letter in letters {
        if let Err(error) = broker.bury(letter).await {
            tracing::warn!(group = %letter.group, origin = %letter.origin, error = error.report(), "no copy of a dead letter");
        }
    }
}
