//! The publisher: a batch is under way all at once, and yet nothing of a key passes what failed before it.
//!
//! librdkafka keeps the order of a partition, but goes on behind a message that failed. Two settings and a rule prevent that:
//! `enable.gapless.guarantee` makes a message that the broker refuses the last one of its producer; messages have no time-out
//! of their own, so that none expires alone, but all are purged together; and after either the producer is given up. What is
//! then left is sent by another producer message by message, a key at a time, which finds the one that is to blame.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, Destination, Entry, Mode, Receipt, Result, Topic};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{Producer as _, PurgeConfig};
use tokio::time::{Instant, timeout_at};

use crate::client::{Partitions, Producer, Shared, lock, missing_words, receipt, retire};
use crate::record::Record;
use crate::tally::Tally;

/// Keys that are sent side by side when messages go one by one.
const LANES: usize = 64;

/// Between two looks at a producer that has refused something.
const LOOK: Duration = Duration::from_millis(50);

/// Messages that are all handed over before the first of them goes.
const FEW: usize = 100;

/// Publishes for one route.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    topic: Topic,
    mode: Mode,
    /// For few messages, and for many; made with the first batch, given up after a failure.
    few: Slot,
    many: Slot,
}

/// A producer, and how long it waits for more, in ms. What is handed over while a request of its partition is under way makes
/// librdkafka wait for the answer in a busy loop; so it waits until all of a batch is there.
struct Slot {
    linger: &'static str,
    producer: Mutex<Option<Producer>>,
}

/// What became of a wave.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything was answered.
    Done,
    /// Something was refused: what has no answer is to be sent one by one.
    Refused,
    /// The broker did not answer in time.
    Late,
}

impl Publisher {
    pub(crate) fn new(shared: Arc<Shared>, topic: Topic, mode: Mode) -> Self {
        Self {
            shared,
            topic,
            mode,
            few: Slot::new("1"),
            many: Slot::new("5"),
        }
    }

    fn slot(&self, count: usize) -> &Slot {
        if count <= FEW { &self.few } else { &self.many }
    }

    fn producer(&self, slot: &Slot) -> Result<Producer> {
        let linger = slot.linger;
        let mut slot = lock(&slot.producer);
        if let Some(producer) = slot
            .as_ref()
            .filter(|producer| producer.client().fatal_error().is_none())
        {
            return Ok(producer.clone());
        }
        let settings = [
            ("enable.gapless.guarantee", "true"),
            ("message.timeout.ms", "0"),
            ("linger.ms", linger),
        ];
        Ok(slot.insert(self.shared.producer(&settings)?).clone())
    }

    async fn send_waves(&self, tally: &mut Tally<'_>, records: &[Record<'_>]) -> Result<()> {
        let topics = records.iter().map(|record| record.topic.as_str());
        let partitions = self.shared.partitions(topics).await?;
        for slot in [&self.few, &self.many] {
            drop(self.producer(slot)?); // one made only when it is needed would let that batch wait for its first connection
        }
        loop {
            let wave = tally.wave(records, &partitions);
            if wave.is_empty() {
                return Ok(());
            }
            let slot = self.slot(wave.len());
            let producer = self.producer(slot)?;
            let outcome = self.send_wave(&producer, wave, tally, (records, &partitions)).await;
            if outcome == Outcome::Done {
                continue;
            }
            lock(&slot.producer).take();
            retire(producer).await;
            if outcome == Outcome::Late {
                self.shared.forget(records.iter().map(|record| &record.topic));
                tally.settle_rest(&Receipt::Unavailable(self.late_words()));
            } else {
                self.send_singly(tally, (records, &partitions)).await;
            }
            return Ok(());
        }
    }

    async fn send_wave(
        &self,
        producer: &Producer,
        wave: Vec<(usize, usize)>,
        tally: &mut Tally<'_>,
        (records, partitions): (&[Record<'_>], &Partitions),
    ) -> Outcome {
        let mut shut = HashSet::new();
        let mut under_way = Vec::with_capacity(wave.len());
        for (at, lane) in wave {
            let Some(record) = records.get(at).filter(|_| !shut.contains(&lane)) else {
                continue;
            };
            let sent = enqueue(producer, record, partitions);
            if sent.is_err() {
                shut.insert(lane);
            }
            under_way.push((at, sent));
        }
        self.collect(producer, under_way, tally).await
    }

    /// Waits for the answers, in order.
    async fn collect(
        &self,
        producer: &Producer,
        under_way: Vec<(usize, Result<DeliveryFuture, Receipt>)>,
        tally: &mut Tally<'_>,
    ) -> Outcome {
        let mut deadline = Instant::now() + self.shared.answer_max;
        let mut outcome = Outcome::Done;
        for (at, sent) in under_way {
            match sent {
                Ok(delivery) => {
                    let is_delivered = answer(producer, delivery, &mut outcome, &mut deadline).await;
                    if is_delivered {
                        tally.settle(at, Receipt::Delivered);
                    } else if outcome == Outcome::Done {
                        outcome = Outcome::Refused;
                    }
                }
                // If something before it on its lane is without an answer, so is this.
                Err(receipt) if outcome == Outcome::Done => tally.settle(at, receipt),
                Err(_) => {}
            }
        }
        outcome
    }

    async fn send_singly(&self, tally: &mut Tally<'_>, (records, partitions): (&[Record<'_>], &Partitions)) {
        let (batch, open) = (tally.batch(), tally.open());
        let entries: Vec<&Entry> = open.iter().map(|(_, entry)| *entry).collect();
        let rest = Batch {
            entries: &entries,
            ordering: batch.ordering,
        };
        let is_away = AtomicBool::new(false);
        let send = async |nth: usize| {
            let Some(record) = open.get(nth).and_then(|(at, _)| records.get(*at)) else {
                return Receipt::Held;
            };
            if partitions.get(&record.topic) == Some(&0) {
                return Receipt::Refused(missing_words(&record.topic));
            }
            if is_away.load(Ordering::Relaxed) {
                return Receipt::Unavailable(self.late_words());
            }
            let receipt = receipt(&record.topic, self.shared.send(record).await);
            is_away.fetch_or(matches!(receipt, Receipt::Unavailable(_)), Ordering::Relaxed);
            receipt
        };
        let receipts = rest.in_lanes(LANES, send).await;
        for ((at, _), receipt) in open.iter().zip(receipts) {
            if receipt != Receipt::Held {
                tally.settle(*at, receipt);
            }
        }
    }

    fn late_words(&self) -> String {
        format!("Kafka did not answer within {:?}", self.shared.answer_max)
    }
}

impl Slot {
    fn new(linger: &'static str) -> Self {
        let producer = Mutex::default();
        Self { linger, producer }
    }
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let records = Record::all(batch, &self.topic, self.mode);
        let mut tally = Tally::of(batch);
        if let Err(error) = self.send_waves(&mut tally, &records).await {
            tally.settle_rest(&Receipt::Unavailable(error.report()));
        }
        tally.finish()
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("kafka", &self.shared)
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

/// Hands a message to the driver, which copies it; the answer comes later, unless it is a no at once.
pub(crate) fn enqueue(
    producer: &Producer,
    record: &Record<'_>,
    partitions: &Partitions,
) -> Result<DeliveryFuture, Receipt> {
    if partitions.get(&record.topic) == Some(&0) {
        return Err(Receipt::Refused(missing_words(&record.topic)));
    }
    producer
        .send_result(record.borrowed())
        .map_err(|(error, _record)| receipt(&record.topic, Err(error)))
}

/// Waits until a message is answered; whether it is durable.
async fn answer(
    producer: &Producer,
    mut delivery: DeliveryFuture,
    outcome: &mut Outcome,
    deadline: &mut Instant,
) -> bool {
    loop {
        let until = match outcome {
            Outcome::Refused => (*deadline).min(Instant::now() + LOOK),
            Outcome::Done | Outcome::Late => *deadline,
        };
        match timeout_at(until, &mut delivery).await {
            Ok(answered) => return matches!(answered, Ok(Ok(_durable))),
            Err(_) if *outcome == Outcome::Late => return false,
            // Requests that were under way when one was refused return to the queue, where nothing fetches them any more.
            Err(_) if Instant::now() < *deadline => purge(producer, PurgeConfig::default().queue()).await,
            Err(_) => {
                *outcome = Outcome::Late;
                *deadline = Instant::now() + LOOK * 20;
                purge(producer, PurgeConfig::default().queue().inflight()).await;
            }
        }
    }
}

async fn purge(producer: &Producer, what: PurgeConfig) {
    let producer = producer.clone();
    if let Err(error) = tokio::task::spawn_blocking(move || producer.purge(what)).await {
        tracing::debug!(%error, "a producer could not be purged");
    }
}
