//! Postroom's broker on RabbitMQ.
//!
//! A topic is a durable topic exchange. A group on a topic is a set of durable quorum queues, `{topic}:{group}:{number}` unless
//! they have [other names](RabbitMq::names), so many as [`RabbitMq::partitions`] says; every key has one of 64 slots, the routing key `slot.{n}`, and every slot one queue.
//! A queue feeds one member of the group at a time, so that keys stay in order; the others stand by.
//!
//! A group gets what is published after it joined: RabbitMQ keeps nothing for queues that do not exist yet, whatever
//! [`Start`] says. What nobody is there to get is refused, not lost. A group that is not used any more is
//! [forgotten](RabbitMq::forget), or its queues fill up.
//!
//! A single node (seen with 3.10) that is killed within a second after a queue was made does not find the queue again, nor what
//! it had confirmed into it: forget the group then, and join anew.
//!
//! RabbitMQ 4 removes a message that came back twenty times, unless its queue has another limit. New queues have the largest
//! there is. Queues of older versions keep their arguments: set a policy once (`rabbitmqctl set_policy postroom '^{topic}:'
//! '{"delivery-limit":2147483647}' --apply-to queues`); the log names the queues.

mod bury;
mod confirm;
mod connect;
mod fault;
mod outlet;
mod parcel;
mod publish;
mod session;
mod subscribe;
mod tls;
mod topology;
mod wave;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lapin::uri::{AMQPScheme, AMQPUri};
use postroom::{Broker, Destination, Error, Letter, Mode, Result, Risk, Start, Subscription, Tls, Topic};

use crate::connect::Link;
use crate::outlet::Outlet;
use crate::publish::Publisher;
use crate::subscribe::Member;
use crate::tls::Encryption;
use crate::topology::{Group, Names, SLOTS};

/// A RabbitMQ. Connects when it is first used, and again by itself.
#[derive(Clone, Debug)]
pub struct RabbitMq {
    partitions: u16,
    names: Arc<Names>,
    outlet: Arc<Outlet>,
    /// Of its own, because RabbitMQ stops connections that publish when it runs out of memory, and these must go on.
    inlet: Arc<Link>,
}

impl RabbitMq {
    /// The broker at `amqp://user:password@host:port/vhost`, or at `amqps://…`, which the system's authorities vouch for.
    /// Nothing is connected yet.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_tls(url, &Tls::default())
    }

    /// Like [`RabbitMq::new`]; at `amqps://…` it is `tls` that says whom to trust.
    pub fn with_tls(url: &str, tls: &Tls) -> Result<Self> {
        let uri: AMQPUri = url.parse().map_err(|reason: String| {
            Error::invalid(format!(
                "this is no address of a RabbitMQ ({reason}); write amqp://user:password@host:port/vhost, the vhost / as %2f"
            ))
        })?;
        let encryption = match uri.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => Some(Encryption::new(&uri.authority.host, tls)?),
        };
        let link = |name| Link::new(uri.clone(), encryption.clone(), name);
        Ok(Self {
            partitions: 1,
            names: Arc::default(),
            outlet: Arc::new(Outlet::new(link("postroom publishes"))),
            inlet: Arc::new(link("postroom consumes")),
        })
    }

    /// How many queues a group has on each topic, 1 to 64: as many members can work at once. One unless set. A group that
    /// exists keeps its number; joining it with another is an error.
    pub fn partitions(mut self, partitions: u16) -> Result<Self> {
        if !(1..=SLOTS).contains(&partitions) {
            return Err(Error::invalid(format!(
                "{partitions} partitions: give 1 to {SLOTS}, the number of slots"
            )));
        }
        self.partitions = partitions;
        Ok(self)
    }

    /// How the queues of a group are called, and the queue of its dead letters: `{topic}:{group}:{number}` and
    /// `{topic}:{group}:dead` unless set. Both must have `{group}`; `{topic}` only if groups join several, `{number}` only with
    /// partitions. Queues that have another name already are not renamed, and fill up if nobody reads them.
    pub fn names(mut self, queue: &str, dead: &str) -> Result<Self> {
        self.names = Arc::new(Names::new(queue, dead)?);
        Ok(self)
    }

    /// How many messages wait for a group, by topic. What a member holds unacknowledged is not among them.
    pub async fn lag(&self, group: &str, topics: &[String]) -> Result<BTreeMap<String, u64>> {
        let mut waiting = BTreeMap::new();
        for topic in topics {
            let count = self.group(group, topic).waiting(&self.inlet).await?;
            waiting.insert(topic.clone(), count);
        }
        Ok(waiting)
    }

    /// Removes a group from topics, with everything that waits for it.
    pub async fn forget(&self, group: &str, topics: &[String]) -> Result<()> {
        for topic in topics {
            self.group(group, topic).delete(&self.inlet).await?;
        }
        Ok(())
    }

    fn group<'a>(&'a self, name: &'a str, topic: &'a str) -> Group<'a> {
        Group {
            name,
            topic,
            partitions: self.partitions,
            names: &self.names,
        }
    }
}

#[async_trait]
impl Broker for RabbitMq {
    fn name(&self) -> String {
        self.inlet.broker()
    }

    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        Arc::new(Publisher {
            outlet: Arc::clone(&self.outlet),
            topic,
            mode,
        })
    }

    async fn subscribe(&self, group: &str, topics: &[String], _start: Start) -> Result<Box<dyn Subscription>> {
        if topics.is_empty() {
            return Err(Error::invalid(format!(
                "the group {group} joins no topic; name at least one"
            )));
        }
        self.names.check(group, topics.len(), self.partitions)?;
        let mut sources = Vec::new();
        for topic in topics {
            sources.extend(self.group(group, topic).join(&self.inlet).await?);
        }
        Ok(Box::new(Member::new(Arc::clone(&self.inlet), sources)))
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        bury::bury(&self.outlet, &self.names, letter).await
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        Ok(self.lag(group, topics).await?.values().sum())
    }

    async fn risks(&self, group: &str, topics: &[String]) -> Result<Vec<Risk>> {
        self.inlet.channel().await?;
        let mut risks = Vec::new();
        for topic in topics {
            risks.extend(self.group(group, topic).risks(&self.inlet).await?);
        }
        Ok(risks)
    }
}
