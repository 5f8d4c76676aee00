//! The transactional publisher sends a batch in one transaction: consumers with `read_committed` see all of it or nothing.
//! If the broker refuses a message, the publisher aborts the transaction and sends each entry in its own transaction, in order,
//! which finds the refused one. A new producer with the same transactional id fences the previous one.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, Destination, Mode, Receipt, Result, Topic};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::producer::future_producer::DeliveryFuture;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::client::{Partitions, Producer, Shared, purge_and_drop, receipt};
use crate::error::{failed, is_fenced};
use crate::progress::BatchProgress;
use crate::publish::enqueue;
use crate::record::Record;

/// After it was fenced, a publisher waits this long before it initializes a new producer. By then a relay that has lost its
/// lease has noticed that.
const FENCED_BACKOFF: Duration = Duration::from_secs(30);

/// Publishes the events of one route in transactions.
pub(crate) struct TransactionalPublisher {
    shared: Arc<Shared>,
    topic: Topic,
    mode: Mode,
    id: String,
    /// The lock allows one transaction at a time.
    state: Mutex<ProducerState>,
}

/// The state of the transactional producer.
enum ProducerState {
    /// There is no producer, or it must be replaced.
    Uninitialized,
    Ready(Producer),
    /// Another producer with the same id fenced this one, at this time.
    Fenced(Instant),
}

/// A transaction that was not committed.
enum TransactionError {
    /// The broker refused a message; the transaction was aborted.
    Refused(KafkaError),
    /// The producer cannot be used any more, for this reason.
    Unavailable(String),
}

impl TransactionalPublisher {
    pub(crate) fn new(shared: Arc<Shared>, topic: Topic, mode: Mode, id: String) -> Self {
        Self {
            shared,
            topic,
            mode,
            id,
            state: Mutex::new(ProducerState::Uninitialized),
        }
    }

    async fn send(&self, progress: &mut BatchProgress<'_>, records: &[Record<'_>]) -> Result<(), TransactionError> {
        let topics = records.iter().map(|record| record.topic.as_str());
        let partitions = self.shared.partitions(topics).await;
        let partitions = partitions.map_err(|error| TransactionError::Unavailable(error.report()))?;
        let mut state = self.state.lock().await;
        let mut producer = self.acquire_producer(&mut state).await?;
        let sent = self.send_with(&mut producer, progress, (records, &partitions)).await;
        // If this future is dropped inside a transaction, the state stays `Uninitialized`: the next batch gets a new producer.
        *state = match &sent {
            Ok(()) | Err(TransactionError::Refused(_)) => ProducerState::Ready(producer),
            Err(TransactionError::Unavailable(message)) if *message == self.fenced_message() => {
                ProducerState::Fenced(Instant::now())
            }
            Err(TransactionError::Unavailable(_)) => ProducerState::Uninitialized,
        };
        sent
    }

    async fn send_with(
        &self,
        producer: &mut Producer,
        progress: &mut BatchProgress<'_>,
        (records, partitions): (&[Record<'_>], &Partitions),
    ) -> Result<(), TransactionError> {
        let mut next: Vec<usize> = progress.pending().iter().map(|(at, _)| *at).collect();
        while let Some(first) = next.first().copied() {
            match self.transaction(producer, &next, progress, (records, partitions)).await {
                Err(TransactionError::Refused(error)) => {
                    if let ([at], Some(record)) = (next.as_slice(), records.get(first)) {
                        progress.settle(*at, receipt(&record.topic, Err(error)));
                    }
                    // The aborted message leaves a gap in the producer's sequence numbers, which the broker refuses: replace it.
                    let gapless = self.acquire_producer(&mut ProducerState::Uninitialized).await?;
                    purge_and_drop(std::mem::replace(producer, gapless)).await;
                }
                other => other?,
            }
            // After the first transaction the pending entries, if any, go one by one in order.
            next = progress.pending().first().map(|(at, _)| *at).into_iter().collect();
        }
        Ok(())
    }

    /// Returns the producer. A new one is initialized first, which fences all earlier ones.
    async fn acquire_producer(&self, state: &mut ProducerState) -> Result<Producer, TransactionError> {
        match std::mem::replace(state, ProducerState::Uninitialized) {
            ProducerState::Ready(producer) => return Ok(producer),
            ProducerState::Fenced(since) if since.elapsed() < FENCED_BACKOFF => {
                *state = ProducerState::Fenced(since);
                return Err(TransactionError::Unavailable(self.fenced_message()));
            }
            ProducerState::Uninitialized | ProducerState::Fenced(_) => {}
        }
        let (limit, limit_ms) = (self.shared.answer_max, self.shared.answer_max.as_millis().to_string());
        let transaction_ms = (self.shared.answer_max * 4).as_millis().to_string();
        let settings = [
            ("transactional.id", self.id.as_str()),
            ("message.timeout.ms", limit_ms.as_str()),
            ("transaction.timeout.ms", transaction_ms.as_str()),
            ("linger.ms", "1"),
        ];
        let made = self.shared.producer(&settings);
        let producer = made.map_err(|error| TransactionError::Unavailable(error.report()))?;
        let begin = producer.clone();
        // A paused relay whose lease has expired would fence the relay that has taken over.
        if !postroom::is_leased() {
            return Err(TransactionError::Unavailable(self.unleased_message()));
        }
        let begun = self.shared.blocking("initialize transactions", move || {
            let begun = begin.init_transactions(limit);
            begun.map_err(|source| failed("initialize transactions", source))
        });
        begun
            .await
            .map_err(|error| TransactionError::Unavailable(error.report()))?;
        Ok(producer)
    }

    /// Sends these entries in one transaction. Leaves out entries that the driver refuses, and later entries of their lanes.
    async fn transaction(
        &self,
        producer: &Producer,
        all: &[usize],
        progress: &mut BatchProgress<'_>,
        (records, partitions): (&[Record<'_>], &Partitions),
    ) -> Result<(), TransactionError> {
        producer
            .begin_transaction()
            .map_err(|error| self.unavailable(producer, &error))?;
        let (mut in_flight, mut refused) = (Vec::with_capacity(all.len()), Vec::new());
        let mut blocked = HashSet::new();
        for (at, lane) in all.iter().filter_map(|at| Some((*at, progress.lane(*at)?))) {
            let Some(record) = records.get(at).filter(|_| !blocked.contains(&lane)) else {
                continue;
            };
            match enqueue(producer, record, partitions) {
                Ok(delivery) => in_flight.push((at, delivery)),
                Err(receipt) => {
                    blocked.insert(lane);
                    refused.push((at, receipt));
                }
            }
        }
        self.commit(producer, in_flight, progress).await?;
        for (at, receipt) in refused {
            progress.settle(at, receipt);
        }
        Ok(())
    }

    /// Ends a transaction: commits it if every message is durable, aborts it otherwise.
    async fn commit(
        &self,
        producer: &Producer,
        in_flight: Vec<(usize, DeliveryFuture)>,
        progress: &mut BatchProgress<'_>,
    ) -> Result<(), TransactionError> {
        let (sent, deliveries): (Vec<usize>, Vec<DeliveryFuture>) = in_flight.into_iter().unzip();
        // Wait for the deliveries first: the commit also waits for them, but with a longer timeout.
        let refused = self.refusal(deliveries).await;
        let (limit, ending, is_complete) = (self.shared.answer_max, producer.clone(), refused.is_none());
        let ended = tokio::task::spawn_blocking(move || {
            let committed = if is_complete {
                ending.commit_transaction(limit)
            } else {
                Ok(())
            };
            // If the abort fails, the publisher discards the producer; the next one with this id aborts the transaction.
            let is_abort = !is_complete || committed.is_err();
            committed.and(if is_abort {
                ending.abort_transaction(limit)
            } else {
                Ok(())
            })
        });
        match (ended.await, refused) {
            (Ok(Ok(())), None) => {
                sent.into_iter().for_each(|at| progress.settle(at, Receipt::Delivered));
                Ok(())
            }
            (Ok(Ok(())), Some(error)) if !matches!(receipt("", Err(error.clone())), Receipt::Unavailable { .. }) => {
                Err(TransactionError::Refused(error))
            }
            (Ok(Ok(())), Some(error)) | (Ok(Err(error)), _) => Err(self.unavailable(producer, &error)),
            (Err(error), _) => Err(TransactionError::Unavailable(error.to_string())),
        }
    }

    /// The first refusal by the broker; without a refusal, the first other delivery error.
    async fn refusal(&self, deliveries: Vec<DeliveryFuture>) -> Option<KafkaError> {
        let deadline = Instant::now() + self.shared.answer_max * 2;
        let mut refusal = None;
        for delivery in deliveries {
            let error = match timeout_at(deadline, delivery).await {
                Ok(Ok(Ok(_durable))) => continue,
                Ok(Ok(Err((error, _)))) => error,
                Ok(Err(_)) | Err(_) => KafkaError::Canceled,
            };
            if !matches!(receipt("", Err(error.clone())), Receipt::Unavailable { .. }) {
                return Some(error);
            }
            refusal.get_or_insert(error);
        }
        refusal
    }

    fn unavailable(&self, producer: &Producer, error: &KafkaError) -> TransactionError {
        let fatal = producer
            .client()
            .fatal_error()
            .map(|(code, _)| KafkaError::Global(code));
        if is_fenced(error) || fatal.as_ref().is_some_and(is_fenced) {
            return TransactionError::Unavailable(self.fenced_message());
        }
        TransactionError::Unavailable(error.to_string())
    }

    fn unleased_message(&self) -> String {
        format!(
            "the lease of this relay has expired; another relay may publish under the transactional id {}",
            self.id
        )
    }

    fn fenced_message(&self) -> String {
        format!(
            "fenced: another relay publishes under the transactional id {}; this one retries after {FENCED_BACKOFF:?}",
            self.id
        )
    }
}

#[async_trait]
impl Destination for TransactionalPublisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let records = Record::all(batch, &self.topic, &self.mode);
        let mut progress = BatchProgress::of(batch);
        if records.is_empty() {
            return progress.finish();
        }
        if let Err(TransactionError::Unavailable(message)) = self.send(&mut progress, &records).await {
            progress.settle_pending(&Receipt::unavailable(message));
        }
        progress.finish()
    }
}

impl fmt::Debug for TransactionalPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionalPublisher")
            .field("kafka", &self.shared)
            .field("topic", &self.topic)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
