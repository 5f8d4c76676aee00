//! Exchanges and queues: how they are named, made and looked at, and which queue a key belongs to.

use futures::future::try_join_all;
use lapin::options::{QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{Channel, Queue};
use postroom::{Error, ErrorKind, Key, Result, Risk};

use crate::connect::Link;
use crate::fault::step;
use crate::outlet::declare_exchange;
use crate::parcel::short;

/// Routing keys there are. Never changes: it decides which queue a key is in.
pub(crate) const SLOTS: u16 = 64;
/// How often a queue hands out a message before RabbitMQ removes it: as often as can be said. Without it RabbitMQ 4 removes a
/// message that came back twenty times, and says nothing. (-1 means without limit there, and none at all on RabbitMQ 3.)
const DELIVERY_LIMIT: i32 = i32::MAX;
/// The argument that says so.
const DELIVERY_LIMIT_ARGUMENT: &str = "x-delivery-limit";
/// Every routing key there is, and those of programs that know nothing of slots.
const EVERYTHING: &str = "#";

/// The routing key of an aggregate.
pub(crate) fn routing_key(key: &Key) -> String {
    format!("slot.{}", key.shard(u32::from(SLOTS)))
}

/// How a group's queues are called: text with the places `{topic}`, `{group}` and `{number}`.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    queue: String,
    dead: String,
}

impl Default for Names {
    /// A colon is in no topic, so that no two groups have a queue in common.
    fn default() -> Self {
        Self {
            queue: "{topic}:{group}:{number}".to_owned(),
            dead: "{topic}:{group}:dead".to_owned(),
        }
    }
}

impl Names {
    pub(crate) fn new(queue: &str, dead: &str) -> Result<Self> {
        let lacking = [queue, dead].into_iter().find(|name| !name.contains("{group}"));
        if let Some(name) = lacking {
            return Err(Error::invalid(format!(
                "the name {name:?} is the same for every group; put {{group}} into it"
            )));
        }
        if queue == dead {
            return Err(Error::invalid(format!(
                "{queue:?} would be both the queue and its dead letters; give them different names"
            )));
        }
        Ok(Self {
            queue: queue.to_owned(),
            dead: dead.to_owned(),
        })
    }

    /// Where a group keeps its dead letters of a topic.
    pub(crate) fn dead(&self, topic: &str, group: &str) -> String {
        self.dead.replace("{topic}", topic).replace("{group}", group)
    }

    fn queue(&self, topic: &str, group: &str, number: u16) -> String {
        let name = self.queue.replace("{number}", &number.to_string());
        name.replace("{topic}", topic).replace("{group}", group)
    }

    /// Refuses a group that would have the same queue twice.
    pub(crate) fn check(&self, group: &str, topics: usize, partitions: u16) -> Result<()> {
        let Self { queue, .. } = self;
        let says = match (queue.contains("{topic}"), queue.contains("{number}")) {
            (false, _) if topics > 1 => format!("joins {topics} topics: put {{topic}} into the name {queue:?}"),
            (_, false) if partitions > 1 => {
                format!("has {partitions} partitions: put {{number}} into the name {queue:?}")
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("the group {group} {says}")))
    }
}

/// A group on a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) partitions: u16,
    pub(crate) names: &'a Names,
}

/// A queue that feeds a member.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) topic: String,
    pub(crate) queue: ShortString,
}

impl Group<'_> {
    /// Makes what does not exist yet: the exchange, the queues, and which slots each has.
    pub(crate) async fn join(&self, link: &Link) -> Result<Vec<Source>> {
        self.check_partitions(link).await?;
        let mut channel = link.channel().await?;
        let exchange = short(self.topic)?;
        declare_exchange(&channel, &exchange).await?;
        declare_queue(&channel, &self.dead()?, &[]).await?;
        let mut sources = Vec::new();
        // The first one last: where it is, the others are too.
        for number in (0..self.partitions).rev() {
            let queue = self.queue(number)?;
            if !self.declare(&channel, &queue).await? {
                channel = link.channel().await?; // a refusal closes the channel
                self.declare_as_before(&channel, &queue).await?;
            }
            let bind = |slot| bind(&channel, &queue, &exchange, slot);
            try_join_all(self.binding_keys(number).into_iter().map(bind)).await?;
            sources.push(Source {
                topic: self.topic.to_owned(),
                queue,
            });
        }
        Ok(sources)
    }

    /// Makes a queue that feeds one consumer at a time and gives no message up; `false` if there is one without such a limit.
    async fn declare(&self, channel: &Channel, queue: &ShortString) -> Result<bool> {
        let limit = (DELIVERY_LIMIT_ARGUMENT, AMQPValue::LongInt(DELIVERY_LIMIT));
        match declare_queue(channel, queue, &[single(), limit]).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict && error.report().contains(DELIVERY_LIMIT_ARGUMENT) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a queue as older versions made it. RabbitMQ changes no arguments of a queue; a policy can set the limit.
    async fn declare_as_before(&self, channel: &Channel, queue: &ShortString) -> Result<()> {
        declare_queue(channel, queue, &[single()]).await?;
        let Risk { says, next } = self.without_limit(queue);
        tracing::warn!(%queue, "{says}. {next}");
        Ok(())
    }

    /// What can happen to a queue without a delivery limit of its own.
    fn without_limit(&self, queue: &ShortString) -> Risk {
        let policy = format!("{{\"delivery-limit\":{DELIVERY_LIMIT}}}");
        Risk {
            says: format!(
                "the queue {queue} was made by an older version and has no delivery limit of its own: RabbitMQ 4 removes its \
                 messages when they have come back 20 times, unless a policy says otherwise"
            ),
            next: format!(
                "set a policy once: rabbitmqctl set_policy postroom-{} '^{queue}$' '{policy}' --apply-to queues",
                self.name
            ),
        }
    }

    /// Which of its queues can lose messages. A queue that does not exist is not made.
    pub(crate) async fn risks(&self, link: &Link) -> Result<Vec<Risk>> {
        let mut risks = Vec::new();
        for number in 0..self.partitions {
            let queue = self.queue(number)?;
            // To declare it as it should be changes nothing where it is so, and is refused where it is not.
            if look(link, &queue).await?.is_some() && !self.declare(&link.channel().await?, &queue).await? {
                risks.push(self.without_limit(&queue));
            }
        }
        Ok(risks)
    }

    /// How many messages wait.
    pub(crate) async fn waiting(&self, link: &Link) -> Result<u64> {
        let mut count = 0;
        for number in 0..self.partitions {
            let queue = look(link, &self.queue(number)?).await?;
            count += queue.map_or(0, |queue| u64::from(queue.message_count()));
        }
        Ok(count)
    }

    /// Deletes its queues, dead letters too.
    pub(crate) async fn delete(&self, link: &Link) -> Result<()> {
        let channel = link.channel().await?;
        let mut queues = vec![self.dead()?];
        for number in (0..self.partitions).rev() {
            queues.push(self.queue(number)?);
        }
        for queue in queues {
            let deleting = channel.queue_delete(queue.clone(), QueueDeleteOptions::default());
            step(|| format!("delete the queue {queue}"), deleting).await?;
        }
        Ok(())
    }

    /// A key that changed its queue would overtake itself, and a queue that nobody reads would fill up.
    async fn check_partitions(&self, link: &Link) -> Result<()> {
        let is_there = async |number: u16| Ok::<_, Error>(look(link, &self.queue(number)?).await?.is_some());
        let is_complete = !is_there(0).await? || is_there(self.partitions - 1).await?;
        let is_numbered = self.queue(0)? != self.queue(1)?;
        if is_complete && !(is_numbered && is_there(self.partitions).await?) {
            return Ok(());
        }
        let Self {
            name,
            topic,
            partitions,
            ..
        } = self;
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "the group {name} has not {partitions} partitions on the topic {topic}; join it with its number, \
                 or let it drain and forget it first"
            ),
        ))
    }

    fn queue(&self, number: u16) -> Result<ShortString> {
        short(self.names.queue(self.topic, self.name, number))
    }

    fn dead(&self) -> Result<ShortString> {
        short(self.names.dead(self.topic, self.name))
    }

    fn binding_keys(&self, number: u16) -> Vec<String> {
        if self.partitions == 1 {
            return vec![EVERYTHING.to_owned()];
        }
        let slots = (0..SLOTS).filter(|slot| slot % self.partitions == number);
        slots.map(|slot| format!("slot.{slot}")).collect()
    }
}

/// One consumer at a time is active.
fn single() -> (&'static str, AMQPValue) {
    ("x-single-active-consumer", AMQPValue::Boolean(true))
}

/// Makes a durable queue with replicas, and with these arguments.
pub(crate) async fn declare_queue(channel: &Channel, queue: &ShortString, others: &[(&str, AMQPValue)]) -> Result<()> {
    let mut arguments = FieldTable::default();
    let quorum = AMQPValue::LongString(LongString::from("quorum"));
    arguments.insert(short("x-queue-type")?, quorum);
    for (name, value) in others {
        arguments.insert(short(*name)?, value.clone());
    }
    let declaring = channel.queue_declare(queue.clone(), QueueDeclareOptions::durable(), arguments);
    let doing = || format!("declare the queue {queue} (one that exists may differ: let it drain and delete it)");
    step(doing, declaring).await?;
    Ok(())
}

async fn bind(channel: &Channel, queue: &ShortString, exchange: &ShortString, key: String) -> Result<()> {
    let key = short(key)?;
    let binding = channel.queue_bind(
        queue.clone(),
        exchange.clone(),
        key,
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    step(|| format!("bind the queue {queue} to the exchange {exchange}"), binding).await
}

/// A queue, if it exists. The question costs a channel when it does not.
async fn look(link: &Link, queue: &ShortString) -> Result<Option<Queue>> {
    let channel = link.channel().await?;
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let looking = channel.queue_declare(queue.clone(), passive, FieldTable::default());
    match step(|| format!("look at the queue {queue}"), looking).await {
        Ok(queue) => Ok(Some(queue)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_slot_has_one_queue() {
        for partitions in [2, 3, 7, 64] {
            let group = Group {
                name: "g",
                topic: "t",
                partitions,
                names: &Names::default(),
            };
            let keys: Vec<String> = (0..partitions).flat_map(|number| group.binding_keys(number)).collect();
            assert_eq!(keys.len(), usize::from(SLOTS));
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), usize::from(SLOTS));
        }
    }

    #[test]
    fn names_that_would_meet_are_refused() {
        let names = |queue, dead| Names::new(queue, dead).map_err(|error| error.to_string());
        assert!(
            names("queue", "{group}_dlq")
                .unwrap_err()
                .contains("put {group} into it")
        );
        assert!(names("{group}", "{group}").unwrap_err().contains("different names"));
        let ours = names("{group}_queue", "{group}_dlq").unwrap();
        assert_eq!(ours.queue("t", "chat", 0), "chat_queue");
        assert_eq!(ours.dead("t", "chat"), "chat_dlq");
        assert!(ours.check("chat", 1, 1).is_ok());
        assert!(
            ours.check("chat", 2, 1)
                .unwrap_err()
                .to_string()
                .contains("put {topic}")
        );
        assert!(
            ours.check("chat", 1, 2)
                .unwrap_err()
                .to_string()
                .contains("put {number}")
        );
        assert!(Names::default().check("chat", 2, 2).is_ok());
    }

    #[test]
    fn a_key_keeps_its_slot() {
        let key = |id: &str| Key {
            aggregate_type: "order".to_owned(),
            aggregate_id: id.to_owned(),
        };
        assert_eq!(routing_key(&key("1")), routing_key(&key("1")));
        let slots: BTreeSet<String> = (0..1000).map(|n| routing_key(&key(&n.to_string()))).collect();
        assert_eq!(slots.len(), usize::from(SLOTS), "keys spread over all slots");
    }
}
