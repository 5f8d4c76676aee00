//! A consumer: feeds a subscriber from a broker. What fails is kept in the store and retried from there by the route's line,
//! in order by key, so that the topic moves on; what is handled, parked or given up is acknowledged after the commit.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sea_orm::DatabaseTransaction;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::broker::{Broker, Letter, Mark, Message, Origin, Subscription};
use crate::clock;
use crate::cursor::{self, Shard};
use crate::dead;
use crate::destination::Receipt;
use crate::down::{self, Side};
use crate::envelope::{Envelope, JSON};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, KEY_BYTES_MAX};
use crate::judge::{Judge, Settlement};
use crate::kept;
use crate::outbox::{Entry, Outbox, Pulse, answered};
use crate::parked::{self, Parked};
use crate::pulse::Heart;
use crate::route::{Filter, Lanes, Route, Source, Start, To};
use crate::subscriber::Subscriber;
use crate::table;
use crate::vitals::{Counts, Vitals, Worker};

/// A group with this many parked rows takes no more until some are gone.
const PARKED_MAX: u64 = 10_000;
/// Between two looks while the group is paused, or stands behind a parked entry.
const LOOK: Duration = Duration::from_millis(500);
/// Numbers of entries that came through a broker begin here, so that they meet no number of the log.
const NUMBERS: i64 = 1 << 52;
/// The header that keeps where a parked message came from.
const ORIGIN: &str = "postroomorigin";
/// The type under which a message is kept that is no event.
pub(crate) const UNREADABLE: &str = "postroom.unreadable.v1";
/// How much of an unreadable message is kept.
const UNREADABLE_BYTES_MAX: usize = 100_000;

/// What a consumer works with.
#[derive(Debug)]
pub(crate) struct Consumer {
    route: Arc<Route>,
    subscriber: Arc<Subscriber>,
    broker: Arc<dyn Broker>,
    topics: Vec<String>,
    /// Where the group begins if the broker knows no progress of it.
    start: Start,
    outbox: Arc<dyn Outbox>,
    pulse: watch::Receiver<Pulse>,
    vitals: Arc<Vitals>,
    joined: Joined,
    /// The signal after which the group was last seen open.
    open_since: Option<i64>,
}

/// The groups of a relay that have joined their broker once; who awaits them hears of it.
pub(crate) type Joined = Arc<watch::Sender<HashSet<String>>>;

/// A message as it is worked.
#[derive(Debug)]
struct Item {
    message: Message,
    /// Numbered by its place among the messages taken together.
    entry: Entry,
    /// Why no handler gets it: it is no event, or its broker has given it up.
    broken: Option<String>,
}

impl Consumer {
    /// The consumer of a route, if a broker feeds it.
    pub(crate) fn of(
        route: &Arc<Route>,
        outbox: &Arc<dyn Outbox>,
        heart: &Heart,
        vitals: &Arc<Vitals>,
        joined: &Joined,
    ) -> Option<Self> {
        let To::Subscriber(subscriber) = &route.to else {
            return None;
        };
        let Source::Broker {
            broker, topics, start, ..
        } = &route.from
        else {
            return None;
        };
        Some(Self {
            route: Arc::clone(route),
            subscriber: Arc::clone(subscriber),
            broker: Arc::clone(broker),
            topics: topics.clone(),
            start: *start,
            outbox: Arc::clone(outbox),
            pulse: heart.subscribe(),
            vitals: Arc::clone(vitals),
            joined: Arc::clone(joined),
            open_since: None,
        })
    }

    /// Consumes until `stop`. A broker or a store that is away is waited for.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<()> {
        self.vitals.stands_by(&self.name());
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            if let Err(error) = self.session(&stop, &mut backoff).await {
                tracing::warn!(group = %self.route.name, error = error.report(), "consumer lost its subscription");
                self.vitals.stands_by(&self.name());
                self.vitals.behind(&self.name(), Some(&error.report()));
                stop.run_until_cancelled(self.write_down(Some(&error.report()))).await;
                backoff.wait(&stop).await;
            }
        }
        self.vitals.left(&self.name());
        Ok(())
    }

    /// Writes down why the broker cannot be reached, or that it can. Only who looks needs it: a store that is away is no
    /// reason not to go on.
    async fn write_down(&self, reason: Option<&str>) {
        let writing = async {
            let tx = table::begin_own(self.outbox.db()).await?;
            match reason {
                Some(reason) => down::record(&tx, &self.shard(), Side::Feed, reason).await?,
                None => down::clear(&tx, &self.shard(), Side::Feed).await?,
            }
            tx.commit()
                .await
                .map_err(|source| Error::db("commit what is out of reach", source))
        };
        answered(writing).await.unwrap_or_else(|error: Error| {
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
        let (broker, topics) = (Arc::clone(&self.broker), self.topics.clone());
        let joining = broker.subscribe(&self.subscriber.group, &topics, self.start);
        let Some(joined) = stop.run_until_cancelled(joining).await else {
            return Ok(());
        };
        let mut subscription = joined?;
        // A broker that forgets the group from now on has lost what it had: whatever it holds then came later.
        self.start = Start::Beginning;
        self.vitals.works(&self.name());
        self.vitals.moved(&self.name(), Counts::default());
        stop.run_until_cancelled(self.write_down(None)).await;
        self.joined.send_modify(|groups| {
            groups.insert(self.route.name.clone());
        });
        while self.is_open(stop).await? {
            let Some(messages) = stop.run_until_cancelled(subscription.next(self.route.batch)).await else {
                break;
            };
            let items = messages?.into_iter().enumerate();
            let items: Vec<Item> = items.map(|one| Item::of(one, &self.route.filter)).collect();
            self.work(&mut *subscription, &items, stop, backoff).await?;
        }
        Ok(())
    }

    /// Waits while the group is paused or has too much parked; `false` when it is time to stop. Whoever pauses or parks raises
    /// the signal, so that only then there is something to ask.
    async fn is_open(&mut self, stop: &CancellationToken) -> Result<bool> {
        while !stop.is_cancelled() {
            let signal = Some(self.pulse.borrow().signal);
            if signal == self.open_since {
                return Ok(true);
            }
            if answered(self.has_room()).await? {
                self.open_since = signal;
                return Ok(true);
            }
            self.look_again(stop).await;
        }
        Ok(false)
    }

    /// Whether the group is not paused, and has not too much parked.
    async fn has_room(&self) -> Result<bool> {
        let tx = table::look(self.outbox.db()).await?;
        let is_paused = cursor::read(&tx, &self.shard()).await?.is_paused;
        let parked = parked::count(&tx, &self.shard()).await?;
        tx.commit().await?;
        Ok(!is_paused && parked < PARKED_MAX)
    }

    async fn look_again(&mut self, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = self.pulse.changed() => {}
        }
    }

    /// Works through messages in order and acknowledges as it goes; what is left when it is time to stop is given back.
    async fn work(
        &mut self,
        subscription: &mut dyn Subscription,
        items: &[Item],
        stop: &CancellationToken,
        backoff: &mut Backoff,
    ) -> Result<()> {
        let mut rest = items;
        while !rest.is_empty() && !stop.is_cancelled() {
            match self.turn(rest).await {
                Ok(0) => self.look_again(stop).await,
                Ok(done) => {
                    let (settled, left) = rest.split_at_checked(done).unwrap_or((rest, &[]));
                    subscription.ack(&marks(settled)).await?;
                    rest = left;
                    backoff.reset();
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::warn!(group = %self.route.name, error = error.report(), "consumer waits for its store");
                    self.vitals.behind(&self.name(), None);
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
    /// to wait.
    async fn turn(&self, items: &[Item]) -> Result<usize> {
        let entries: Vec<&Entry> = items.iter().map(|item| &item.entry).collect();
        let (db, shard) = (self.outbox.db(), self.shard());
        let lanes = answered(parked::lanes_of(db, &shard, self.route.ordering, &entries)).await?;
        let send: Vec<&Entry> = items
            .iter()
            .filter(|item| self.is_sent(item, &lanes))
            .map(|item| &item.entry)
            .collect();
        let (receipts, tx) = if send.is_empty() {
            (Vec::new(), table::begin_own(db).await?)
        } else {
            self.subscriber.handle(db, &send).await?
        };
        let judged = self.pair(items, receipts, &lanes);
        let judge = Judge {
            route: &self.route,
            now: clock::now(),
            roll: rand::random(),
        };
        let settlement = judge.page(&judged, &lanes);
        let (settled, mut counts) = (settlement.settled, settlement.counts());
        let is_passed = |item: &&Item| item.broken.is_none() && !self.is_for_us(&item.entry);
        let passed = items.iter().take(settled).filter(is_passed).count() as u64;
        counts.delivered = counts.delivered.saturating_sub(passed);
        if settled == 0 {
            return Ok(0);
        }
        let dead = answered(async {
            let dead = self.settle(&tx, items, settlement).await?;
            let committed = tx.commit().await;
            committed.map_err(|source| Error::db("commit what was consumed", source))?;
            Ok(dead)
        })
        .await?;
        self.vitals.moved(&self.name(), counts);
        bury(&*self.broker, &self.letters(items, &dead)).await;
        Ok(settled)
    }

    /// Whether the handler gets it now: an event for this subscriber with nothing parked before it.
    fn is_sent(&self, item: &Item, lanes: &Lanes) -> bool {
        item.broken.is_none() && self.is_for_us(&item.entry) && !lanes.contains(&self.route.ordering.lane(&item.entry))
    }

    fn is_for_us(&self, entry: &Entry) -> bool {
        self.route.filter.matches(&entry.event.event_type)
    }

    /// Pairs entries with their receipts, up to the first one that was sent and has no answer yet.
    fn pair<'a>(&self, items: &'a [Item], receipts: Vec<Receipt>, lanes: &Lanes) -> Vec<(&'a Entry, Option<Receipt>)> {
        let mut answers = receipts.into_iter();
        let mut judged = Vec::with_capacity(items.len());
        for item in items {
            let receipt = match &item.broken {
                Some(reason) => Some(Receipt::Rejected(reason.clone())),
                None if !self.is_for_us(&item.entry) => Some(Receipt::Delivered),
                None if self.is_sent(item, lanes) => match answers.next() {
                    Some(receipt) => Some(receipt),
                    None => break,
                },
                None => None,
            };
            judged.push((&item.entry, receipt));
        }
        judged
    }

    /// Writes down what was delivered and what failed, unless it is kept already from an earlier time; answers what is newly
    /// given up.
    async fn settle(
        &self,
        tx: &DatabaseTransaction,
        items: &[Item],
        mut settlement: Settlement,
    ) -> Result<Vec<Parked>> {
        let shard = self.shard();
        if settlement.park.is_empty() && settlement.dead.is_empty() {
            cursor::count(tx, &shard, settlement.delivered).await?;
            return Ok(Vec::new());
        }
        cursor::lock(tx, &shard.route).await?; // what operators and the line do to parked rows comes before or after
        let failed = settlement.park.iter().chain(&settlement.dead);
        let events: Vec<Uuid> = failed.map(|row| row.entry.event.id).collect();
        let kept = kept::among(tx, &shard.route, &events).await?;
        for rows in [&mut settlement.park, &mut settlement.dead] {
            let mut seen = kept.clone();
            rows.retain(|row| seen.insert(row.entry.event.id));
        }
        cursor::count(tx, &shard, settlement.delivered).await?;
        self.keep(tx, items, &settlement).await?;
        Ok(settlement.dead)
    }

    /// Parks and gives up, numbered so that nothing else is met and in the order it came.
    async fn keep(&self, tx: &DatabaseTransaction, items: &[Item], settlement: &Settlement) -> Result<()> {
        let shard = self.shard();
        let base = NUMBERS + cursor::signal_numbered(tx, items.len()).await?;
        let first = items.first().map_or(0, |item| item.entry.id);
        let numbered = |row: &Parked| {
            let at = row.entry.id - first;
            let item = usize::try_from(at).ok().and_then(|at| items.get(at));
            let origin = item.map_or_else(String::new, |item| item.message.origin.to_string());
            let event = row.entry.event.clone().header(ORIGIN, origin);
            let entry = Entry {
                id: base + at,
                event,
                ..row.entry
            };
            Parked { entry, ..row.clone() }
        };
        let park: Vec<Parked> = settlement.park.iter().map(numbered).collect();
        let dead: Vec<Parked> = settlement.dead.iter().map(numbered).collect();
        parked::insert(tx, &shard, "broker", &park).await?;
        dead::insert(tx, &shard, &dead).await
    }

    /// The copies of what was given up, as it came.
    fn letters(&self, items: &[Item], dead: &[Parked]) -> Vec<Letter> {
        let first = items.first().map_or(0, |item| item.entry.id);
        let item = |row: &Parked| items.get(usize::try_from(row.entry.id - first).ok()?);
        let letter = |row: &Parked| {
            let message = item(row)?.message.clone();
            Some(Letter {
                group: self.subscriber.group.clone(),
                origin: message.origin,
                content_type: message.content_type,
                attributes: message.attributes,
                body: message.body,
                error: row.error.clone().unwrap_or_default(),
                attempts: row.attempts,
            })
        };
        dead.iter().filter_map(letter).collect()
    }
}

impl Item {
    fn of((at, message): (usize, Message), filter: &Filter) -> Self {
        let (event, broken) = match message.event() {
            Ok(mut event) => {
                event.headers.remove(ORIGIN); // ours to write
                let is_for_us = filter.matches(&event.event_type);
                (event, message.given_up.clone().filter(|_| is_for_us))
            }
            Err(error) => (unreadable(&message), Some(error.report())),
        };
        let entry = Entry {
            id: i64::try_from(at).unwrap_or(i64::MAX),
            event,
            created_at: clock::now(),
        };
        Self { message, entry, broken }
    }
}

fn marks(items: &[Item]) -> Vec<Mark> {
    items.iter().map(|item| item.message.mark.clone()).collect()
}

/// A stand-in for a message that is no event, so that it can be kept, shown and discarded like one.
fn unreadable(message: &Message) -> Event {
    let body = message.body.get(..UNREADABLE_BYTES_MAX).unwrap_or(&message.body);
    let payload = json!({
        "content_type": message.content_type,
        "attributes": message.attributes,
        "body": String::from_utf8_lossy(body),
    });
    let text = payload.to_string().replace("\\u0000", "\\ufffd"); // no database keeps a NUL
    let payload = serde_json::value::RawValue::from_string(text);
    let mut key = message.origin.to_string();
    key.truncate(key.floor_char_boundary(KEY_BYTES_MAX));
    let again = [key.as_bytes(), &message.body].concat(); // brought again, it is the same one
    Event {
        id: Uuid::new_v5(&Uuid::NAMESPACE_URL, &again),
        event_type: UNREADABLE.to_owned(),
        source: String::new(),
        aggregate_type: "message".to_owned(),
        aggregate_id: key,
        payload: payload.unwrap_or_else(|_never| serde_json::value::RawValue::NULL.to_owned()),
        headers: crate::event::Headers::new(),
        occurred_at: clock::now(),
    }
}

/// Copies of parked entries that were given up by a route that a broker feeds.
pub(crate) fn letters(group: &str, dead: &[Parked]) -> Vec<Letter> {
    let letter = |row: &Parked| {
        let mut entry = row.entry.clone();
        let origin = entry.event.headers.remove(ORIGIN)?; // without one it is a replay: it never was on the broker
        let envelope = Envelope::of(&entry);
        Some(Letter {
            group: group.to_owned(),
            origin: origin.parse::<Origin>().ok()?,
            content_type: Some(JSON.to_owned()),
            attributes: envelope.attributes,
            body: envelope.data.get().as_bytes().to_vec(),
            error: row.error.clone().unwrap_or_default(),
            attempts: row.attempts,
        })
    };
    dead.iter().filter_map(letter).collect()
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
