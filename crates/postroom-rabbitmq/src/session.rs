//! A channel that consumes queues, and the acknowledgement state of its messages.

use std::collections::BTreeSet;

use futures::future::FutureExt;
use futures::stream::{BoxStream, SelectAll, StreamExt, once, select_all};
use lapin::Channel;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::protocol::constants::REPLY_SUCCESS;
use lapin::types::{FieldTable, ShortString};
use postroom::{Error, ErrorKind, Result};

use crate::connect::Connector;
use crate::error::{failed, with_timeout};
use crate::topology::{Source, Stale};

/// Maximum number of unacknowledged messages over all queues.
const UNACKNOWLEDGED_MAX: usize = 500;

type SourceDelivery = Result<(usize, Delivery)>;

/// Consumes queues on one channel. A session ends by closing the channel. Cancelling the consumer is not enough: it would keep
/// its messages while the next consumer already receives later ones.
pub(crate) struct Session {
    channel: Channel,
    deliveries: SelectAll<BoxStream<'static, SourceDelivery>>,
    acks: AckTracker,
}

impl Session {
    /// Consumes queues, and removes bindings that are not wanted any more. Each delivery carries the index of its queue in `sources`.
    pub(crate) async fn open(connector: &Connector, sources: &[Source], stale: &[Stale]) -> Result<Self> {
        let mut session = Self {
            channel: connector.channel().await?,
            deliveries: select_all([]),
            acks: AckTracker::default(),
        };
        let each = (UNACKNOWLEDGED_MAX / sources.len().max(1)).max(1);
        let prefetch = u16::try_from(each).unwrap_or(u16::MAX);
        let limiting = session.channel.basic_qos(prefetch, BasicQosOptions::default());
        with_timeout(|| "set the prefetch limit".to_owned(), limiting).await?;
        for binding in stale {
            binding.remove(&session.channel).await?;
        }
        for (at, source) in sources.iter().enumerate() {
            session.consume(at, source).await?;
        }
        Ok(session)
    }

    /// The next delivery. Cancel safe. Nothing follows after an error.
    pub(crate) async fn next(&mut self) -> SourceDelivery {
        let ended = || Err(Error::new(ErrorKind::Unavailable, "the subscription has ended"));
        self.deliveries.next().await.unwrap_or_else(ended)
    }

    /// A delivery that has already been received, if any.
    pub(crate) fn ready(&mut self) -> Option<SourceDelivery> {
        self.deliveries.next().now_or_never().flatten()
    }

    /// Acknowledges messages by their tags.
    pub(crate) async fn ack(&mut self, done: &BTreeSet<u64>) -> Result<()> {
        for (tag, multiple) in self.acks.acknowledge(done) {
            let acknowledging = self.channel.basic_ack(tag, BasicAckOptions { multiple });
            with_timeout(|| "acknowledge messages".to_owned(), acknowledging).await?;
        }
        Ok(())
    }

    /// Closes the channel and waits until RabbitMQ has requeued all unacknowledged messages.
    pub(crate) async fn close(self) -> Result<()> {
        let closing = self.channel.close(REPLY_SUCCESS, ShortString::default());
        with_timeout(|| "return messages".to_owned(), closing).await
    }

    async fn consume(&mut self, at: usize, source: &Source) -> Result<()> {
        let consuming = self.channel.basic_consume(
            source.queue.clone(),
            ShortString::default(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = with_timeout(|| format!("consume the queue {}", source.queue), consuming).await?;
        let (lost, ended) = (source.queue.clone(), source.queue.clone());
        let deliveries = consumer.map(move |delivery| match delivery {
            Ok(delivery) => Ok((at, delivery)),
            Err(error) => Err(failed(format!("consume the queue {lost}"), error)),
        });
        let end = once(async move {
            Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "RabbitMQ cancelled the consumer of the queue {ended}: the queue was deleted, or it moves to another node"
                ),
            ))
        });
        self.deliveries.push(deliveries.chain(end).boxed());
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Consumers that are dropped later send no cancel before it.
        close(&self.channel);
    }
}

/// Closes a channel that is dropped: RabbitMQ requeues its unacknowledged messages. The first poll queues the close frame in the
/// driver.
pub(crate) fn close(channel: &Channel) {
    let closing = channel.close(REPLY_SUCCESS, ShortString::default());
    if let Some(Err(error)) = closing.now_or_never() {
        tracing::trace!(%error, "the channel was already closed");
    }
}

/// The acknowledged messages of a channel. Delivery tags count up from 1.
#[derive(Debug, Default)]
struct AckTracker {
    /// All tags up to this one are acknowledged.
    floor: u64,
    /// Acknowledged tags above the floor.
    above: BTreeSet<u64>,
}

impl AckTracker {
    /// Returns the acknowledgements to send: tags with the flag `multiple`. Never repeats a tag, because that closes the channel.
    /// Never covers an unacknowledged message, received or still in flight.
    fn acknowledge(&mut self, done: &BTreeSet<u64>) -> Vec<(u64, bool)> {
        let is_new = |tag: &u64| *tag > self.floor && !self.above.contains(tag);
        let new: BTreeSet<u64> = done.iter().copied().filter(is_new).collect();
        self.above.extend(&new);
        while self.above.remove(&(self.floor + 1)) {
            self.floor += 1;
        }
        let all = new.range(..=self.floor).next_back().map(|tag| (*tag, true));
        let single = new.range(self.floor + 1..).map(|tag| (*tag, false));
        all.into_iter().chain(single).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_acknowledged_at_once_but_none_that_is_not_done() {
        let mut acks = AckTracker::default();
        let mut check = |done: &[u64], expected: &[(u64, bool)]| {
            assert_eq!(acks.acknowledge(&done.iter().copied().collect()), expected, "{done:?}");
        };
        check(&[1, 2, 3], &[(3, true)]);
        check(&[6, 5], &[(5, false), (6, false)]);
        check(&[5, 8], &[(8, false)]);
        check(&[4], &[(4, true)]);
        check(&[7, 9], &[(9, true)]);
        check(&[3, 9], &[]);
    }
}
