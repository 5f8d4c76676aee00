//! A channel on which queues are consumed, and what was received on it and is not settled.

use std::collections::BTreeSet;

use futures::future::FutureExt;
use futures::stream::{BoxStream, SelectAll, StreamExt, once, select_all};
use lapin::Channel;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::protocol::constants::REPLY_SUCCESS;
use lapin::types::{FieldTable, ShortString};
use postroom::{Error, ErrorKind, Result};

use crate::connect::Link;
use crate::fault::{fault, step};
use crate::topology::Source;

/// Messages received and not acknowledged, over all queues.
const UNSETTLED_MAX: usize = 500;

type Arrival = Result<(usize, Delivery)>;

/// Closing the channel is the only way to leave: a consumer that is merely cancelled keeps its messages while the next one
/// already gets what follows them.
pub(crate) struct Session {
    channel: Channel,
    arrivals: SelectAll<BoxStream<'static, Arrival>>,
    ledger: Ledger,
}

impl Session {
    /// Consumes queues. Arrivals carry the place of their queue among the sources.
    pub(crate) async fn open(link: &Link, sources: &[Source]) -> Result<Self> {
        let mut session = Self {
            channel: link.channel().await?,
            arrivals: select_all([]),
            ledger: Ledger::default(),
        };
        let each = (UNSETTLED_MAX / sources.len().max(1)).max(1);
        let prefetch = u16::try_from(each).unwrap_or(u16::MAX);
        let limiting = session.channel.basic_qos(prefetch, BasicQosOptions::default());
        step(|| "limit what RabbitMQ sends ahead".to_owned(), limiting).await?;
        for (at, source) in sources.iter().enumerate() {
            session.consume(at, source).await?;
        }
        Ok(session)
    }

    /// What comes next; dropping the future loses nothing. After an error nothing comes.
    pub(crate) async fn next(&mut self) -> Arrival {
        let gone = || Err(Error::new(ErrorKind::Unavailable, "the subscription has ended"));
        self.arrivals.next().await.unwrap_or_else(gone)
    }

    /// What has come already.
    pub(crate) fn ready(&mut self) -> Option<Arrival> {
        self.arrivals.next().now_or_never().flatten()
    }

    /// Acknowledges messages by their tags.
    pub(crate) async fn ack(&mut self, done: &BTreeSet<u64>) -> Result<()> {
        for (tag, multiple) in self.ledger.settle(done) {
            let acknowledging = self.channel.basic_ack(tag, BasicAckOptions { multiple });
            step(|| "acknowledge messages".to_owned(), acknowledging).await?;
        }
        Ok(())
    }

    /// Leaves, and waits until everything that is not acknowledged is back in its queue.
    pub(crate) async fn close(self) -> Result<()> {
        let closing = self.channel.close(REPLY_SUCCESS, ShortString::default());
        step(|| "give messages back".to_owned(), closing).await
    }

    async fn consume(&mut self, at: usize, source: &Source) -> Result<()> {
        let consuming = self.channel.basic_consume(
            source.queue.clone(),
            ShortString::default(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = step(|| format!("consume the queue {}", source.queue), consuming).await?;
        let (lost, ended) = (source.queue.clone(), source.queue.clone());
        let arrivals = consumer.map(move |delivery| match delivery {
            Ok(delivery) => Ok((at, delivery)),
            Err(error) => Err(fault(format!("consume the queue {lost}"), error)),
        });
        let end = once(async move {
            Err(Error::new(
                ErrorKind::Unavailable,
                format!("RabbitMQ feeds the queue {ended} to us no longer: it was deleted, or moves"),
            ))
        });
        self.arrivals.push(arrivals.chain(end).boxed());
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Asked once, the driver queues the message that closes the channel; consumers dropped after that cancel nothing.
        let closing = self.channel.close(REPLY_SUCCESS, ShortString::default());
        if let Some(Err(error)) = closing.now_or_never() {
            tracing::trace!(%error, "the channel was closed before");
        }
    }
}

/// Which messages of a channel are acknowledged. Their tags count up from one.
#[derive(Debug, Default)]
struct Ledger {
    /// This one and all before it are.
    floor: u64,
    /// These beyond it are, too.
    beyond: BTreeSet<u64>,
}

impl Ledger {
    /// What to tell RabbitMQ: tags, and whether each stands for all before it too. Nothing twice, for that closes the channel;
    /// nothing that is not done, be it known to us or still on its way.
    fn settle(&mut self, done: &BTreeSet<u64>) -> Vec<(u64, bool)> {
        let is_new = |tag: &u64| *tag > self.floor && !self.beyond.contains(tag);
        let new: BTreeSet<u64> = done.iter().copied().filter(is_new).collect();
        self.beyond.extend(&new);
        while self.beyond.remove(&(self.floor + 1)) {
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
        let mut ledger = Ledger::default();
        let mut check = |done: &[u64], expected: &[(u64, bool)]| {
            assert_eq!(ledger.settle(&done.iter().copied().collect()), expected, "{done:?}");
        };
        check(&[1, 2, 3], &[(3, true)]);
        check(&[6, 5], &[(5, false), (6, false)]);
        check(&[5, 8], &[(8, false)]);
        check(&[4], &[(4, true)]);
        check(&[7, 9], &[(9, true)]);
        check(&[3, 9], &[]);
    }
}
