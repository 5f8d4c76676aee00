//! The transactional publisher: a batch is one transaction, so that readers with `read_committed` see all of it or nothing.
//! If the broker does not take a message the transaction is aborted, and entries get transactions of their own, one after the
//! other, which finds the one that is to blame. Who comes later with the same id fences off who was there before.

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

use crate::client::{Partitions, Producer, Shared, receipt, retire};
use crate::error::{failed, is_fenced};
use crate::publish::enqueue;
use crate::record::Record;
use crate::tally::Tally;

/// Who was fenced off does not fence back before this: by then a relay that was deposed knows it.
const FENCED_REST: Duration = Duration::from_secs(30);

/// Publishes for one route, in transactions.
pub(crate) struct Transactor {
    shared: Arc<Shared>,
    topic: Topic,
    mode: Mode,
    id: String,
    /// One transaction at a time.
    seat: Mutex<Seat>,
}

/// Whether we may begin a transaction.
enum Seat {
    /// Not yet: nobody was fenced off for us.
    Empty,
    Taken(Producer),
    /// Another one has taken it.
    Lost(Instant),
}

/// A transaction that was not committed.
enum Broken {
    /// The broker did not take a message of it; it was aborted.
    Refused(KafkaError),
    /// The whole producer is of no use any more.
    Away(String),
}

impl Transactor {
    pub(crate) fn new(shared: Arc<Shared>, topic: Topic, mode: Mode, id: String) -> Self {
        Self {
            shared,
            topic,
            mode,
            id,
            seat: Mutex::new(Seat::Empty),
        }
    }

    async fn send(&self, tally: &mut Tally<'_>, records: &[Record<'_>]) -> Result<(), Broken> {
        let topics = records.iter().map(|record| record.topic.as_str());
        let partitions = self.shared.partitions(topics).await;
        let partitions = partitions.map_err(|error| Broken::Away(error.report()))?;
        let mut seat = self.seat.lock().await;
        let mut producer = self.sit_down(&mut seat).await?;
        let sent = self.send_with(&mut producer, tally, (records, &partitions)).await;
        // Not on every way out: who is cut off inside a transaction begins anew.
        *seat = match &sent {
            Ok(()) | Err(Broken::Refused(_)) => Seat::Taken(producer),
            Err(Broken::Away(words)) if *words == self.fenced_words() => Seat::Lost(Instant::now()),
            Err(Broken::Away(_)) => Seat::Empty,
        };
        sent
    }

    async fn send_with(
        &self,
        producer: &mut Producer,
        tally: &mut Tally<'_>,
        (records, partitions): (&[Record<'_>], &Partitions),
    ) -> Result<(), Broken> {
        let mut next: Vec<usize> = tally.open().iter().map(|(at, _)| *at).collect();
        while let Some(first) = next.first().copied() {
            match self.transaction(producer, &next, tally, (records, partitions)).await {
                Err(Broken::Refused(error)) => {
                    if let ([at], Some(record)) = (next.as_slice(), records.get(first)) {
                        tally.settle(*at, receipt(&record.topic, Err(error)));
                    }
                    // Its sequence numbers have a gap now, which the broker would not forgive.
                    let gapless = self.sit_down(&mut Seat::Empty).await?;
                    retire(std::mem::replace(producer, gapless)).await;
                }
                other => other?,
            }
            // Someone's fault, or nothing is left: each for itself, in order.
            next = tally.open().first().map(|(at, _)| *at).into_iter().collect();
        }
        Ok(())
    }

    /// The producer, which has fenced off all before it.
    async fn sit_down(&self, seat: &mut Seat) -> Result<Producer, Broken> {
        match std::mem::replace(seat, Seat::Empty) {
            Seat::Taken(producer) => return Ok(producer),
            Seat::Lost(since) if since.elapsed() < FENCED_REST => {
                *seat = Seat::Lost(since);
                return Err(Broken::Away(self.fenced_words()));
            }
            Seat::Empty | Seat::Lost(_) => {}
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
        let producer = made.map_err(|error| Broken::Away(error.report()))?;
        let begin = producer.clone();
        // A relay whose lease has run out, because it was paused, would fence off the one that has taken over.
        if !postroom::is_leased() {
            return Err(Broken::Away(self.unleased_words()));
        }
        let begun = self.shared.blocking("begin to publish in transactions", move || {
            let begun = begin.init_transactions(limit);
            begun.map_err(|source| failed("begin to publish in transactions", source))
        });
        begun.await.map_err(|error| Broken::Away(error.report()))?;
        Ok(producer)
    }

    /// Sends these and commits. Those that are refused before they are sent are left out, with what follows them.
    async fn transaction(
        &self,
        producer: &Producer,
        all: &[usize],
        tally: &mut Tally<'_>,
        (records, partitions): (&[Record<'_>], &Partitions),
    ) -> Result<(), Broken> {
        producer
            .begin_transaction()
            .map_err(|error| self.broken(producer, &error))?;
        let (mut under_way, mut refused) = (Vec::with_capacity(all.len()), Vec::new());
        let mut shut = HashSet::new();
        for (at, lane) in all.iter().filter_map(|at| Some((*at, tally.lane(*at)?))) {
            let Some(record) = records.get(at).filter(|_| !shut.contains(&lane)) else {
                continue;
            };
            match enqueue(producer, record, partitions) {
                Ok(delivery) => under_way.push((at, delivery)),
                Err(receipt) => {
                    shut.insert(lane);
                    refused.push((at, receipt));
                }
            }
        }
        self.commit(producer, under_way, tally).await?;
        for (at, receipt) in refused {
            tally.settle(at, receipt);
        }
        Ok(())
    }

    /// Ends a transaction: commits it if every message is durable, aborts it otherwise.
    async fn commit(
        &self,
        producer: &Producer,
        under_way: Vec<(usize, DeliveryFuture)>,
        tally: &mut Tally<'_>,
    ) -> Result<(), Broken> {
        let (sent, deliveries): (Vec<usize>, Vec<DeliveryFuture>) = under_way.into_iter().unzip();
        // Before the commit: it would wait for them too, but longer than they take.
        let refused = self.refusal(deliveries).await;
        let (limit, ending, is_sound) = (self.shared.answer_max, producer.clone(), refused.is_none());
        let ended = tokio::task::spawn_blocking(move || {
            let committed = if is_sound {
                ending.commit_transaction(limit)
            } else {
                Ok(())
            };
            // Without an answer to this the producer is given up, and whoever comes next aborts it.
            let is_abort = !is_sound || committed.is_err();
            committed.and(if is_abort {
                ending.abort_transaction(limit)
            } else {
                Ok(())
            })
        });
        match (ended.await, refused) {
            (Ok(Ok(())), None) => {
                sent.into_iter().for_each(|at| tally.settle(at, Receipt::Delivered));
                Ok(())
            }
            (Ok(Ok(())), Some(error)) if !matches!(receipt("", Err(error.clone())), Receipt::Unavailable(_)) => {
                Err(Broken::Refused(error))
            }
            (Ok(Ok(())), Some(error)) | (Ok(Err(error)), _) => Err(self.broken(producer, &error)),
            (Err(error), _) => Err(Broken::Away(error.to_string())),
        }
    }

    /// What the broker said to a message that it did not take; what kept another from being sent, if it said nothing.
    async fn refusal(&self, deliveries: Vec<DeliveryFuture>) -> Option<KafkaError> {
        let deadline = Instant::now() + self.shared.answer_max * 2;
        let mut refusal = None;
        for delivery in deliveries {
            let error = match timeout_at(deadline, delivery).await {
                Ok(Ok(Ok(_durable))) => continue,
                Ok(Ok(Err((error, _)))) => error,
                Ok(Err(_)) | Err(_) => KafkaError::Canceled,
            };
            if !matches!(receipt("", Err(error.clone())), Receipt::Unavailable(_)) {
                return Some(error);
            }
            refusal.get_or_insert(error);
        }
        refusal
    }

    fn broken(&self, producer: &Producer, error: &KafkaError) -> Broken {
        let fatal = producer
            .client()
            .fatal_error()
            .map(|(code, _)| KafkaError::Global(code));
        if is_fenced(error) || fatal.as_ref().is_some_and(is_fenced) {
            return Broken::Away(self.fenced_words());
        }
        Broken::Away(error.to_string())
    }

    fn unleased_words(&self) -> String {
        format!(
            "the lease of this relay has run out; another one may publish under the transactional id {}",
            self.id
        )
    }

    fn fenced_words(&self) -> String {
        format!(
            "fenced: another relay publishes under the transactional id {}; this one rests for {FENCED_REST:?}",
            self.id
        )
    }
}

#[async_trait]
impl Destination for Transactor {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let records = Record::all(batch, &self.topic, self.mode);
        let mut tally = Tally::of(batch);
        if records.is_empty() {
            return tally.finish();
        }
        if let Err(Broken::Away(words)) = self.send(&mut tally, &records).await {
            tally.settle_rest(&Receipt::Unavailable(words));
        }
        tally.finish()
    }
}

impl fmt::Debug for Transactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactor")
            .field("kafka", &self.shared)
            .field("topic", &self.topic)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
