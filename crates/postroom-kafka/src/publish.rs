//! The publisher sends a whole batch at once, but no message overtakes an earlier failed message of the same key.
//!
//! librdkafka keeps the order of a partition, but continues after a failed message. Two settings and a rule prevent that.
//! `enable.gapless.guarantee`: after a refused message the producer sends nothing more. `message.timeout.ms = 0`: no message
//! expires alone; all are purged together. After a refusal or a timeout the publisher discards the producer. After a refusal
//! another producer sends the remaining messages one by one in each key, which finds the refused message.

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

use crate::client::{Partitions, Producer, Shared, lock, missing_topic_message, purge_and_drop, receipt};
use crate::progress::BatchProgress;
use crate::record::Record;

/// Number of lanes sent in parallel when messages are sent one by one.
const PARALLEL_LANES: usize = 64;

/// Interval of purging a producer after a refusal.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A batch of at most this many messages uses the producer with the shorter linger time.
const SMALL_BATCH_MAX: usize = 100;

/// Publishes for one route.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    topic: Topic,
    mode: Mode,
    /// Producers for small and for large batches. The first batch creates both; a failure discards the one in use.
    small_batches: ProducerSlot,
    large_batches: ProducerSlot,
}

/// A producer and its linger time in ms. The linger time lets librdkafka collect the whole batch first: if messages arrive while
/// a request of their partition is in flight, librdkafka waits for the response in a busy loop.
struct ProducerSlot {
    linger: &'static str,
    producer: Mutex<Option<Producer>>,
}

/// The outcome of a chunk.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Every message has a receipt.
    Done,
    /// The broker refused a message: send the pending ones one by one.
    Refused,
    /// The broker did not respond before the timeout.
    TimedOut,
}

impl Publisher {
    pub(crate) fn new(shared: Arc<Shared>, topic: Topic, mode: Mode) -> Self {
        Self {
            shared,
            topic,
            mode,
            small_batches: ProducerSlot::new("1"),
            large_batches: ProducerSlot::new("5"),
        }
    }

    fn slot(&self, count: usize) -> &ProducerSlot {
        if count <= SMALL_BATCH_MAX {
            &self.small_batches
        } else {
            &self.large_batches
        }
    }

    fn producer(&self, slot: &ProducerSlot) -> Result<Producer> {
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

    async fn send_chunks(&self, progress: &mut BatchProgress<'_>, records: &[Record<'_>]) -> Result<()> {
        let topics = records.iter().map(|record| record.topic.as_str());
        let partitions = self.shared.partitions(topics).await?;
        for slot in [&self.small_batches, &self.large_batches] {
            drop(self.producer(slot)?); // create both now: a later batch need not wait for a first connection
        }
        loop {
            let chunk = progress.next_chunk(records, &partitions);
            if chunk.is_empty() {
                return Ok(());
            }
            let slot = self.slot(chunk.len());
            let producer = self.producer(slot)?;
            let outcome = self
                .send_chunk(&producer, chunk, progress, (records, &partitions))
                .await;
            if outcome == Outcome::Done {
                continue;
            }
            lock(&slot.producer).take();
            purge_and_drop(producer).await;
            if outcome == Outcome::TimedOut {
                self.shared.forget(records.iter().map(|record| &record.topic));
                progress.settle_pending(&Receipt::unavailable(self.timeout_message()));
            } else {
                self.send_one_by_one(progress, (records, &partitions)).await;
            }
            return Ok(());
        }
    }

    async fn send_chunk(
        &self,
        producer: &Producer,
        chunk: Vec<(usize, usize)>,
        progress: &mut BatchProgress<'_>,
        (records, partitions): (&[Record<'_>], &Partitions),
    ) -> Outcome {
        let mut blocked = HashSet::new();
        let mut in_flight = Vec::with_capacity(chunk.len());
        for (at, lane) in chunk {
            let Some(record) = records.get(at).filter(|_| !blocked.contains(&lane)) else {
                continue;
            };
            let sent = enqueue(producer, record, partitions);
            if sent.is_err() {
                blocked.insert(lane);
            }
            in_flight.push((at, sent));
        }
        self.await_deliveries(producer, in_flight, progress).await
    }

    /// Waits for the delivery results, in order.
    async fn await_deliveries(
        &self,
        producer: &Producer,
        in_flight: Vec<(usize, Result<DeliveryFuture, Receipt>)>,
        progress: &mut BatchProgress<'_>,
    ) -> Outcome {
        let mut deadline = Instant::now() + self.shared.answer_max;
        let mut outcome = Outcome::Done;
        for (at, sent) in in_flight {
            match sent {
                Ok(delivery) => {
                    let is_delivered = await_delivery(producer, delivery, &mut outcome, &mut deadline).await;
                    if is_delivered {
                        progress.settle(at, Receipt::Delivered);
                    } else if outcome == Outcome::Done {
                        outcome = Outcome::Refused;
                    }
                }
                // After a refusal or a timeout, an earlier entry of its lane may be without a receipt: leave this one pending.
                Err(receipt) if outcome == Outcome::Done => progress.settle(at, receipt),
                Err(_) => {}
            }
        }
        outcome
    }

    async fn send_one_by_one(
        &self,
        progress: &mut BatchProgress<'_>,
        (records, partitions): (&[Record<'_>], &Partitions),
    ) {
        let (batch, pending) = (progress.batch(), progress.pending());
        let entries: Vec<&Entry> = pending.iter().map(|(_, entry)| *entry).collect();
        let rest = Batch {
            entries: &entries,
            ordering: batch.ordering,
        };
        let is_unavailable = AtomicBool::new(false);
        let send = async |nth: usize| {
            let Some(record) = pending.get(nth).and_then(|(at, _)| records.get(*at)) else {
                return Receipt::Held;
            };
            if let Some(receipt) = unsendable(record, partitions) {
                return receipt;
            }
            if is_unavailable.load(Ordering::Relaxed) {
                return Receipt::unavailable(self.timeout_message());
            }
            let receipt = receipt(&record.topic, self.shared.send(record).await);
            is_unavailable.fetch_or(matches!(receipt, Receipt::Unavailable { .. }), Ordering::Relaxed);
            receipt
        };
        let receipts = rest.in_lanes(PARALLEL_LANES, send).await;
        for ((at, _), receipt) in pending.iter().zip(receipts) {
            if receipt != Receipt::Held {
                progress.settle(*at, receipt);
            }
        }
    }

    fn timeout_message(&self) -> String {
        format!("timeout: Kafka did not respond within {:?}", self.shared.answer_max)
    }
}

impl ProducerSlot {
    fn new(linger: &'static str) -> Self {
        let producer = Mutex::default();
        Self { linger, producer }
    }
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let records = Record::all(batch, &self.topic, &self.mode);
        let mut progress = BatchProgress::of(batch);
        if let Err(error) = self.send_chunks(&mut progress, &records).await {
            progress.settle_pending(&Receipt::unavailable(error.report()));
        }
        progress.finish()
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

/// The receipt of a record that cannot be sent.
fn unsendable(record: &Record<'_>, partitions: &Partitions) -> Option<Receipt> {
    if let Some(says) = &record.rejected {
        return Some(Receipt::Rejected(says.clone()));
    }
    let is_missing = partitions.get(&record.topic) == Some(&0);
    is_missing.then(|| Receipt::Refused(missing_topic_message(&record.topic)))
}

/// Queues a message in the driver, which copies it. Returns a receipt if the driver refuses it immediately.
pub(crate) fn enqueue(
    producer: &Producer,
    record: &Record<'_>,
    partitions: &Partitions,
) -> Result<DeliveryFuture, Receipt> {
    if let Some(receipt) = unsendable(record, partitions) {
        return Err(receipt);
    }
    producer
        .send_result(record.borrowed())
        .map_err(|(error, _record)| receipt(&record.topic, Err(error)))
}

/// Waits for the result of a message. Returns whether the message is durable.
async fn await_delivery(
    producer: &Producer,
    mut delivery: DeliveryFuture,
    outcome: &mut Outcome,
    deadline: &mut Instant,
) -> bool {
    loop {
        let until = match outcome {
            Outcome::Refused => (*deadline).min(Instant::now() + POLL_INTERVAL),
            Outcome::Done | Outcome::TimedOut => *deadline,
        };
        match timeout_at(until, &mut delivery).await {
            Ok(result) => return matches!(result, Ok(Ok(_durable))),
            Err(_) if *outcome == Outcome::TimedOut => return false,
            // Requests in flight at the time of a refusal return to the queue, and the driver never sends them again: purge it.
            Err(_) if Instant::now() < *deadline => purge(producer, PurgeConfig::default().queue()).await,
            Err(_) => {
                *outcome = Outcome::TimedOut;
                *deadline = Instant::now() + POLL_INTERVAL * 20;
                purge(producer, PurgeConfig::default().queue().inflight()).await;
            }
        }
    }
}

async fn purge(producer: &Producer, what: PurgeConfig) {
    let producer = producer.clone();
    if let Err(error) = tokio::task::spawn_blocking(move || producer.purge(what)).await {
        tracing::debug!(%error, "purging a producer failed");
    }
}
