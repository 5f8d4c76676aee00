//! Acquires and renews the leases of a member, and releases them after the member was dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::assignment::{Assignment, LeasedPartition, TopicPartition};
use crate::broker::Shared;
use crate::script::{self, Call};

/// Renewal interval of a member that does not have exactly its share, and retry interval after an error.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Trim interval of a topic.
const TRIM_INTERVAL: Duration = Duration::from_secs(5);

/// The state that a member and its lease keeper share.
#[derive(Debug)]
pub(crate) struct MemberState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) member: String,
    pub(crate) group: String,
    /// Topics with their numbers of partitions.
    pub(crate) topics: Vec<(String, u16)>,
    pub(crate) assignment: Assignment,
    /// Signals new leases or a renewal error.
    pub(crate) changed: Notify,
    /// The last renewal error; none after a successful renewal.
    pub(crate) renewal_error: Mutex<Option<String>>,
}

impl MemberState {
    /// Renews the leases until `stop`, then releases them.
    pub(crate) async fn keep_leases(self: Arc<Self>, stop: CancellationToken) {
        let mut trimmed = Instant::now();
        while !stop.is_cancelled() {
            let pause = match self.renew().await {
                Ok(true) => self.shared.options.lease / 3,
                Ok(false) => RETRY_INTERVAL.min(self.shared.options.lease / 3),
                Err(error) => {
                    self.set_renewal_error(Some(error.report()));
                    RETRY_INTERVAL
                }
            };
            if trimmed.elapsed() >= TRIM_INTERVAL {
                self.trim().await;
                trimmed = Instant::now();
            }
            stop.run_until_cancelled(sleep(pause)).await;
        }
        self.leave().await;
    }

    /// Renews leases, acquires free partitions and releases surplus ones. Returns whether the member has exactly its share of
    /// every topic.
    pub(crate) async fn renew(&self) -> Result<bool> {
        let mut is_balanced = true;
        for (at, (topic, partitions)) in self.topics.iter().enumerate() {
            let lease_ms = self.shared.options.lease.as_millis().to_string();
            let call = Call::on(&script::RENEW, &[self.leases(topic)]);
            let call = call.arg(&self.member).arg(lease_ms).arg(*partitions);
            let answer: Vec<String> = self.shared.connection.call("renew a lease in Redis", call).await?;
            let (share, leases) = parse_renewal(&answer)?;
            is_balanced &= leases.len() == share && share > 0;
            if self.assignment.update_leases(at, leases) {
                self.changed.notify_waiters();
            }
            for (place, held) in self.assignment.release_surplus(at, share) {
                self.release(place, &held).await?;
            }
        }
        self.set_renewal_error(None);
        Ok(is_balanced)
    }

    /// Releases a partition and returns its unacknowledged entries.
    async fn release(&self, place: TopicPartition, held: &LeasedPartition) -> Result<()> {
        let (topic, stream) = self.names_of(place);
        let call = Call::on(&script::RELEASE, &[self.leases(topic), stream])
            .arg(&[&self.member, &self.group])
            .arg(place.1)
            .arg(&held.token);
        self.shared.connection.call("release a partition in Redis", call).await
    }

    /// The names of a partition's topic and stream.
    pub(crate) fn names_of(&self, (at, partition): TopicPartition) -> (&str, String) {
        let topic = self.topics.get(at).map_or("", |(topic, _)| topic.as_str());
        (topic, self.shared.names.stream(topic, partition))
    }

    pub(crate) fn leases(&self, topic: &str) -> String {
        self.shared.names.leases(topic, &self.group)
    }

    /// Fails if the last renewal failed.
    pub(crate) fn check_renewal(&self) -> Result<()> {
        match &*self.renewal_error.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(Error::new(ErrorKind::Unavailable, error.clone())),
            None => Ok(()),
        }
    }

    fn set_renewal_error(&self, error: Option<String>) {
        let is_error = error.is_some();
        *self.renewal_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        if is_error {
            self.changed.notify_waiters();
        }
    }

    /// Trims the topics whose partition 0 this member has leased: one member of the group per topic.
    async fn trim(&self) {
        let held = self.assignment.all();
        for (at, (topic, partitions)) in self.topics.iter().enumerate() {
            if !held.iter().any(|(place, _)| *place == (at, 0)) {
                continue;
            }
            if let Err(error) = self.shared.trim(&self.shared.connection, topic, *partitions).await {
                tracing::debug!(topic, error = error.report(), "trimming a topic failed");
            }
        }
    }

    /// Releases all leases. Retries until they would have expired.
    async fn leave(&self) {
        let deadline = Instant::now() + self.shared.options.lease;
        while let Err(error) = self.release_all().await {
            if Instant::now() >= deadline {
                tracing::debug!(group = %self.group, error = error.report(), "releasing leases failed; they expire");
                return;
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn release_all(&self) -> Result<()> {
        for (place, held) in self.assignment.all() {
            self.release(place, &held).await?;
            self.assignment.lock().remove(&place);
        }
        for (topic, _) in &self.topics {
            let mut remove = redis::cmd("HDEL");
            remove.arg(self.leases(topic)).arg(format!("m:{}", self.member));
            self.shared
                .connection
                .command::<u32>("leave a group in Redis", remove)
                .await?;
        }
        Ok(())
    }
}

/// Parses the response of a renewal: the share, and the tokens by partition.
fn parse_renewal(answer: &[String]) -> Result<(usize, BTreeMap<u16, String>)> {
    let malformed = || {
        Error::new(
            ErrorKind::Failed,
            format!("renew a lease in Redis: unexpected response {answer:?}"),
        )
    };
    let (share, rest) = answer.split_first().ok_or_else(malformed)?;
    let mut leases = BTreeMap::new();
    for pair in rest.chunks(2) {
        if let [partition, token] = pair {
            leases.insert(partition.parse().map_err(|_not_a_number| malformed())?, token.clone());
        }
    }
    Ok((share.parse().map_err(|_not_a_number| malformed())?, leases))
}
