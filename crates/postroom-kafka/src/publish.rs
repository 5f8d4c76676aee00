//! The publisher: a batch is under way all at once, and yet nothing of a key passes what failed before it.
//!
//! librdkafka keeps the order of a partition, but goes on behind a message that failed. Two settings and a rule prevent that:
//! `enable.gapless.guarantee` makes a message that the broker refuses the last one of its producer; messages have no time-out
//! of their own, so that none expires alone, but all are purged together; and after either the producer is given up. What is
//! then left is sent by another producer message by message, a key at a time, which finds the one that is to blame.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use postroom::{Batch, Destination, Entry, Lane, Mode, Receipt, Result, Topic};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{Producer as _, PurgeConfig};
use tokio::time::{Instant, timeout_at};

use crate::client::{Producer, Shared, lock, missing_words, receipt};
use crate::record::Record;
use crate::tally::Tally;

/// Keys that are sent side by side when messages go one by one.
const LANES: usize = 64;

/// Publishes for one route.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    topic: Topic,
    mode: Mode,
    /// Made when it is needed; given up after a failure.
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
            producer: Mutex::default(),
        }
    }

    fn producer(&self) -> Result<Producer> {
        let mut slot = lock(&self.producer);
        if let Some(producer) = slot
            .as_ref()
            .filter(|producer| producer.client().fatal_error().is_none())
        {
            return Ok(producer.clone());
        }
        let settings = [
            ("enable.gapless.guarantee", "true"),
            ("message.timeout.ms", "0"),
            ("linger.ms", "1"),
        ];
        Ok(slot.insert(self.shared.producer(&settings)?).clone())
    }

    /// Gives up a producer: nothing of what it holds is sent any more.
    async fn give_up(&self, producer: Producer) {
        lock(&self.producer).take();
        let dropped = tokio::task::spawn_blocking(move || {
            producer.purge(PurgeConfig::default().queue().inflight());
            drop(producer);
        });
        if let Err(error) = dropped.await {
            tracing::debug!(%error, "a producer was not given up in order");
        }
    }

    async fn send_waves(&self, tally: &mut Tally<'_>, records: &[Record]) -> Result<()> {
        let topics: BTreeSet<String> = records.iter().map(|record| record.topic.clone()).collect();
        let missing = self.shared.missing(topics).await?;
        loop {
            let wave = tally.wave(records);
            if wave.is_empty() {
                return Ok(());
            }
            let producer = self.producer()?;
            let outcome = self.send_wave(&producer, wave, tally, (records, &missing)).await;
            if outcome == Outcome::Done {
                continue;
            }
            self.give_up(producer).await;
            if outcome == Outcome::Late {
                self.shared.forget(records.iter().map(|record| &record.topic));
                tally.settle_rest(&Receipt::Unavailable(self.late_words()));
            } else {
                self.send_singly(tally, (records, &missing)).await;
            }
            return Ok(());
        }
    }

    async fn send_wave(
        &self,
        producer: &Producer,
        wave: Vec<(usize, Lane)>,
        tally: &mut Tally<'_>,
        (records, missing): (&[Record], &HashSet<String>),
    ) -> Outcome {
        let mut shut = HashSet::new();
        let mut under_way = Vec::with_capacity(wave.len());
        for (at, lane) in wave {
            let Some(record) = records.get(at).filter(|_| !shut.contains(&lane)) else {
                continue;
            };
            let sent = enqueue(producer, record, missing);
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
            let mut delivery = match sent {
                Ok(delivery) => delivery,
                Err(receipt) => {
                    // If something before it on its lane is without an answer, so is this.
                    if outcome == Outcome::Done {
                        tally.settle(at, receipt);
                    }
                    continue;
                }
            };
            let mut answer = timeout_at(deadline, &mut delivery).await;
            if answer.is_err() && outcome != Outcome::Late {
                outcome = Outcome::Late;
                purge(producer).await;
                deadline = Instant::now() + self.shared.answer_max;
                answer = timeout_at(deadline, &mut delivery).await;
            }
            match answer {
                Ok(Ok(Ok(_durable))) => tally.settle(at, Receipt::Delivered),
                _ if outcome == Outcome::Done => outcome = Outcome::Refused,
                _ => {}
            }
        }
        outcome
    }

    async fn send_singly(&self, tally: &mut Tally<'_>, (records, missing): (&[Record], &HashSet<String>)) {
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
            if missing.contains(&record.topic) {
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

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let records: Vec<Record> = batch
            .entries
            .iter()
            .map(|entry| Record::of(entry, &self.topic, self.mode))
            .collect();
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
    record: &Record,
    missing: &HashSet<String>,
) -> Result<DeliveryFuture, Receipt> {
    if missing.contains(&record.topic) {
        return Err(Receipt::Refused(missing_words(&record.topic)));
    }
    producer
        .send_result(record.borrowed())
        .map_err(|(error, _record)| receipt(&record.topic, Err(error)))
}

async fn purge(producer: &Producer) {
    let producer = producer.clone();
    let purged = tokio::task::spawn_blocking(move || producer.purge(PurgeConfig::default().queue().inflight()));
    if let Err(error) = purged.await {
        tracing::debug!(%error, "a producer could not be purged");
    }
}
