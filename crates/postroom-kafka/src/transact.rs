//! The transactional publisher: a batch is one transaction, so that readers with `read_committed` see all of it or nothing.
//! If the broker does not take a message the transaction is aborted, and entries get transactions of their own, one after the
//! other, which finds the one that is to blame. Who comes later with the same id fences off who was there before.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, Destination, Mode, Receipt, Result, Topic};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::producer::future_producer::DeliveryFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::{Producer, Shared, receipt};
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

    async fn send(&self, tally: &mut Tally<'_>, records: &[Record]) -> Result<(), Broken> {
        let topics: BTreeSet<String> = records.iter().map(|record| record.topic.clone()).collect();
        let missing = self.shared.missing(topics).await;
        let missing = missing.map_err(|error| Broken::Away(error.report()))?;
        let mut seat = self.seat.lock().await;
        let producer = self.sit_down(&mut seat).await?;
        let sent = self.send_with(&producer, tally, (records, &missing)).await;
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
        producer: &Producer,
        tally: &mut Tally<'_>,
        (records, missing): (&[Record], &HashSet<String>),
    ) -> Result<(), Broken> {
        let all: Vec<usize> = tally.open().iter().map(|(at, _)| *at).collect();
        match self.transaction(producer, &all, tally, (records, missing)).await {
            Err(Broken::Refused(_)) => {}
            other => return other,
        }
        // Someone's fault: each for itself, in order.
        while let Some((at, _)) = tally.open().first().copied() {
            match self.transaction(producer, &[at], tally, (records, missing)).await {
                Err(Broken::Refused(error)) => {
                    let topic = records.get(at).map_or("", |record| record.topic.as_str());
                    tally.settle(at, receipt(topic, Err(error)));
                }
                other => other?,
            }
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
        (records, missing): (&[Record], &HashSet<String>),
    ) -> Result<(), Broken> {
        producer
            .begin_transaction()
            .map_err(|error| self.broken(producer, error))?;
        let (mut under_way, mut refused) = (Vec::with_capacity(all.len()), Vec::new());
        let mut shut = HashSet::new();
        for (at, lane) in all.iter().filter_map(|at| Some((*at, tally.lane(*at)?))) {
            let Some(record) = records.get(at).filter(|_| !shut.contains(&lane)) else {
                continue;
            };
            match enqueue(producer, record, missing) {
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

    async fn commit(
        &self,
        producer: &Producer,
        under_way: Vec<(usize, DeliveryFuture)>,
        tally: &mut Tally<'_>,
    ) -> Result<(), Broken> {
        let (limit, ending) = (self.shared.answer_max, producer.clone());
        let ended = tokio::task::spawn_blocking(move || {
            let committed = ending.commit_transaction(limit);
            let Err(error) = committed else {
                return Ok(());
            };
            // Without an answer to this the producer is given up, and whoever comes next aborts it.
            let is_aborted = ending.abort_transaction(limit).is_ok();
            Err((error, is_aborted))
        });
        match ended.await {
            Ok(Ok(())) => {
                for (at, _) in under_way {
                    tally.settle(at, Receipt::Delivered);
                }
                Ok(())
            }
            Ok(Err((error, true))) => Err(self.blame(producer, under_way, error).await),
            Ok(Err((error, false))) => Err(self.broken(producer, error)),
            Err(error) => Err(Broken::Away(error.to_string())),
        }
    }

    /// Why a transaction was aborted: what the broker said to a message, if it was that.
    async fn blame(&self, producer: &Producer, under_way: Vec<(usize, DeliveryFuture)>, error: KafkaError) -> Broken {
        for (_, delivery) in under_way {
            // An abort answers every message, those it purged last of all.
            if let Ok(Ok(Err((said, _)))) = tokio::time::timeout(self.shared.answer_max, delivery).await
                && !matches!(receipt("", Err(said.clone())), Receipt::Unavailable(_))
            {
                return Broken::Refused(said);
            }
        }
        self.broken(producer, error)
    }

    fn broken(&self, producer: &Producer, error: KafkaError) -> Broken {
        let fatal = producer
            .client()
            .fatal_error()
            .map(|(code, _)| KafkaError::Global(code));
        if is_fenced(&error) || fatal.as_ref().is_some_and(is_fenced) {
            return Broken::Away(self.fenced_words());
        }
        Broken::Away(error.to_string())
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
        let records: Vec<Record> = batch
            .entries
            .iter()
            .map(|entry| Record::of(entry, &self.topic, self.mode))
            .collect();
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
