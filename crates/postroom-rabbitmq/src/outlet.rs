//! Sends messages and waits until RabbitMQ has them: on disk in a majority of each queue's replicas, or refused.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};
use postroom::{Error, ErrorKind, Result};

use crate::confirm::{Answer, Confirms};
use crate::connect::Link;
use crate::fault::{ANSWER_MAX, step};
use crate::parcel::Parcel;

/// Channels kept for the next call.
const IDLE_MAX: usize = 16;

/// Where messages leave.
#[derive(Debug)]
pub(crate) struct Outlet {
    link: Link,
    /// A channel serves one call at a time: only then is it certain which message was returned.
    idle: Mutex<Vec<Channel>>,
    /// Exchanges that were there when we last looked.
    exchanges: Mutex<HashSet<ShortString>>,
}

impl Outlet {
    pub(crate) fn new(link: Link) -> Self {
        Self {
            link,
            idle: Mutex::default(),
            exchanges: Mutex::default(),
        }
    }

    /// Sends messages all at once and answers each. Their exchanges are made if they do not exist.
    pub(crate) async fn send(&self, parcels: &[Parcel]) -> Vec<Answer> {
        if parcels.is_empty() {
            return Vec::new();
        }
        let mut answers = match self.attempt(parcels).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(Arc::new(error)); parcels.len()],
        };
        for (parcel, answer) in parcels.iter().zip(&mut answers) {
            // What RabbitMQ will not have closes the channel under all that is on its way; alone, each shows whose fault it was.
            if answer
                .as_ref()
                .is_err_and(|error| error.kind() != ErrorKind::Unavailable)
            {
                *answer = self.send_alone(parcel).await;
            }
        }
        answers
    }

    /// A channel, unless RabbitMQ takes nothing now.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        if self.link.is_blocked() {
            return Err(blocked());
        }
        self.link.channel().await
    }

    async fn send_alone(&self, parcel: &Parcel) -> Answer {
        match self.attempt_alone(parcel).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                lock(&self.exchanges).remove(&parcel.exchange);
                self.attempt_alone(parcel).await
            }
            answer => answer,
        }
    }

    async fn attempt_alone(&self, parcel: &Parcel) -> Answer {
        let answers = self.attempt(std::slice::from_ref(parcel)).await?;
        answers.into_iter().next().unwrap_or_else(|| Err(Arc::new(late())))
    }

    async fn attempt(&self, parcels: &[Parcel]) -> Result<Vec<Answer>> {
        let channel = self.take().await?;
        self.declare(&channel, parcels).await?;
        let confirms = Confirms::of(&channel, parcels).await;
        if confirms.is_complete() {
            self.put_back(channel);
        } else if confirms.is_empty() || self.link.is_blocked() {
            return Err(late());
        }
        Ok(confirms.outcomes(parcels))
    }

    async fn take(&self) -> Result<Channel> {
        if self.link.is_blocked() {
            return Err(blocked());
        }
        if let Some(channel) = self.idle() {
            return Ok(channel);
        }
        let channel = self.channel().await?;
        let confirming = channel.confirm_select(ConfirmSelectOptions::default());
        step(|| "ask RabbitMQ for confirms".to_owned(), confirming).await?;
        Ok(channel)
    }

    fn idle(&self) -> Option<Channel> {
        let mut idle = lock(&self.idle);
        idle.retain(|channel| channel.status().connected());
        idle.pop()
    }

    fn put_back(&self, channel: Channel) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(channel);
        }
    }

    async fn declare(&self, channel: &Channel, parcels: &[Parcel]) -> Result<()> {
        let missing: HashSet<ShortString> = {
            let known = lock(&self.exchanges);
            let exchanges = parcels.iter().map(|parcel| &parcel.exchange);
            let is_missing = |name: &&ShortString| !name.as_str().is_empty() && !known.contains(*name);
            exchanges.filter(is_missing).cloned().collect()
        };
        for exchange in missing {
            declare_exchange(channel, &exchange).await?;
            lock(&self.exchanges).insert(exchange);
        }
        Ok(())
    }
}

/// Makes the exchange of a topic if it does not exist.
pub(crate) async fn declare_exchange(channel: &Channel, topic: &ShortString) -> Result<()> {
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let declaring = channel.exchange_declare(topic.clone(), ExchangeKind::Topic, durable, FieldTable::default());
    let doing = || {
        format!(
            "declare the durable topic exchange {topic} (one that exists may differ: remove it, or choose another topic)"
        )
    };
    step(doing, declaring).await
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn late() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("publish to RabbitMQ: nothing was confirmed in {ANSWER_MAX:?}"),
    )
}

fn blocked() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "publish to RabbitMQ: it takes nothing now, because it is short of memory or disk",
    )
}
