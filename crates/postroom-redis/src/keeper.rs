//! The keeper of a member: takes and renews its leases while it lives, and gives them back when it is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::broker::Core;
use crate::holding::{Held, Holding, Place};
use crate::script::{self, Call};

/// Between two looks of a member that has less or more than its share, and after trouble.
const LOOK: Duration = Duration::from_millis(500);
/// Between two trims of a topic.
const TRIM_EVERY: Duration = Duration::from_secs(5);

/// A member of a group as both sides see it.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) core: Arc<Core>,
    pub(crate) member: String,
    pub(crate) group: String,
    /// With their partitions.
    pub(crate) topics: Vec<(String, u16)>,
    pub(crate) holding: Holding,
    /// Something was taken, or there is trouble.
    pub(crate) changed: Notify,
    /// Why leases cannot be renewed.
    pub(crate) trouble: Mutex<Option<String>>,
}

impl Desk {
    /// Keeps the leases until `stop`, then gives them back.
    pub(crate) async fn keep(self: Arc<Self>, stop: CancellationToken) {
        let mut trimmed = Instant::now();
        while !stop.is_cancelled() {
            let pause = match self.renew().await {
                Ok(true) => self.core.options.lease / 3,
                Ok(false) => LOOK.min(self.core.options.lease / 3),
                Err(error) => {
                    self.complain(Some(error.report()));
                    LOOK
                }
            };
            if trimmed.elapsed() >= TRIM_EVERY {
                self.trim().await;
                trimmed = Instant::now();
            }
            stop.run_until_cancelled(sleep(pause)).await;
        }
        self.leave().await;
    }

    /// Renews and takes; gives back what is beyond the share. Answers whether the member has just its share of every
    /// topic.
    pub(crate) async fn renew(&self) -> Result<bool> {
        let mut is_content = true;
        for (at, (topic, partitions)) in self.topics.iter().enumerate() {
            let lease_ms = self.core.options.lease.as_millis().to_string();
            let call = Call::on(&script::KEEP, &[self.leases(topic)]);
            let call = call.arg(&self.member).arg(lease_ms).arg(*partitions);
            let answer: Vec<String> = self.core.link.call("renew a lease in Redis", call).await?;
            let (share, leases) = read(&answer)?;
            is_content &= leases.len() == share && share > 0;
            if self.holding.renewed(at, leases) {
                self.changed.notify_waiters();
            }
            for (place, held) in self.holding.surplus(at, share) {
                self.let_go(place, &held).await?;
            }
        }
        self.complain(None);
        Ok(is_content)
    }

    /// Lets a partition go, and with it what was not acknowledged.
    async fn let_go(&self, place: Place, held: &Held) -> Result<()> {
        let (topic, stream) = self.names_of(place);
        let call = Call::on(&script::LEAVE, &[self.leases(topic), stream])
            .arg(&[&self.member, &self.group])
            .arg(place.1)
            .arg(&held.token);
        self.core.link.call("let a partition go in Redis", call).await
    }

    /// The name of the topic and of the stream of a partition.
    pub(crate) fn names_of(&self, (at, partition): Place) -> (&str, String) {
        let topic = self.topics.get(at).map_or("", |(topic, _)| topic.as_str());
        (topic, self.core.names.stream(topic, partition))
    }

    pub(crate) fn leases(&self, topic: &str) -> String {
        self.core.names.leases(topic, &self.group)
    }

    /// An error if leases cannot be renewed.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.trouble.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(words) => Err(Error::new(ErrorKind::Unavailable, words.clone())),
            None => Ok(()),
        }
    }

    fn complain(&self, words: Option<String>) {
        let is_trouble = words.is_some();
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = words;
        if is_trouble {
            self.changed.notify_waiters();
        }
    }

    /// Trims the topics of which this member holds the first partition: one of the group does.
    async fn trim(&self) {
        let held = self.holding.all();
        for (at, (topic, partitions)) in self.topics.iter().enumerate() {
            if !held.iter().any(|(place, _)| *place == (at, 0)) {
                continue;
            }
            if let Err(error) = self.core.trim(&self.core.link, topic, *partitions).await {
                tracing::debug!(topic, error = error.report(), "a topic was not trimmed");
            }
        }
    }

    /// Gives everything back; tries as long as the leases would last anyway.
    async fn leave(&self) {
        let deadline = Instant::now() + self.core.options.lease;
        while let Err(error) = self.let_all_go().await {
            if Instant::now() >= deadline {
                tracing::debug!(group = %self.group, error = error.report(), "leases were left to run out");
                return;
            }
            sleep(LOOK).await;
        }
    }

    async fn let_all_go(&self) -> Result<()> {
        for (place, held) in self.holding.all() {
            self.let_go(place, &held).await?;
            self.holding.lock().remove(&place);
        }
        for (topic, _) in &self.topics {
            let mut remove = redis::cmd("HDEL");
            remove.arg(self.leases(topic)).arg(format!("m:{}", self.member));
            self.core.link.command::<u32>("leave a group in Redis", remove).await?;
        }
        Ok(())
    }
}

/// The share, and tokens by partition.
fn read(answer: &[String]) -> Result<(usize, BTreeMap<u16, String>)> {
    let odd = || {
        Error::new(
            ErrorKind::Failed,
            format!("renew a lease in Redis: answered {answer:?}"),
        )
    };
    let (share, rest) = answer.split_first().ok_or_else(odd)?;
    let mut leases = BTreeMap::new();
    for pair in rest.chunks(2) {
        if let [partition, token] = pair {
            leases.insert(partition.parse().map_err(|_not_a_number| odd())?, token.clone());
        }
    }
    Ok((share.parse().map_err(|_not_a_number| odd())?, leases))
}
