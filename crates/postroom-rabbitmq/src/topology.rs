//! Exchanges and queues: their names, declarations and bindings, and the mapping of keys to queues.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use lapin::options::{QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{Channel, Queue};
use postroom::{Error, ErrorKind, Event, Filter, Join, Key, Result, Risk};

use crate::bury::declare_dead;
use crate::connect::Connector;
use crate::error::with_timeout;
use crate::message::short_string;
use crate::sender::declare_exchange;

/// Number of routing keys. It must never change, because it decides the queue of a key.
pub(crate) const SLOTS: u16 = 64;
/// Number of redeliveries after which RabbitMQ removes a message: the largest possible value. Without it RabbitMQ 4 silently
/// removes a message after twenty redeliveries. (-1 means unlimited on RabbitMQ 4, but RabbitMQ 3 does not know it.)
const DELIVERY_LIMIT: i32 = i32::MAX;
/// The queue argument of the delivery limit.
const DELIVERY_LIMIT_ARGUMENT: &str = "x-delivery-limit";
/// Most segments of an event type that a wildcard in a stale binding may stand for.
const SEGMENTS_MAX: usize = 6;
/// Matches every routing key, also those of programs that do not use slots.
const ALL_ROUTING_KEYS: &str = "#";

/// The routing key of an aggregate.
fn slot_key(key: &Key) -> String {
    format!("slot.{}", key.shard(u32::from(SLOTS)))
}

/// Name templates of a group's queues, with the placeholders `{topic}`, `{group}` and `{number}`.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    queue: String,
    dead: String,
    /// Messages are routed by the type of their event. Otherwise by the slot of its key.
    by_type: bool,
}

impl Default for Names {
    /// A topic contains no colon, so two groups never share a queue.
    fn default() -> Self {
        Self {
            queue: "{topic}:{group}:{number}".to_owned(),
            dead: "{topic}:{group}:dead".to_owned(),
            by_type: false,
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
            by_type: false,
        })
    }

    /// The same, with messages that are routed by the type of their event.
    pub(crate) fn by_type(self) -> Self {
        Self { by_type: true, ..self }
    }

    pub(crate) fn is_by_type(&self) -> bool {
        self.by_type
    }

    /// Stands behind the name of a broker with these names: groups get other queues when it changes.
    pub(crate) fn label(&self) -> String {
        match self.by_type {
            true => format!(" by type {}", self.queue),
            false => String::new(),
        }
    }

    /// The routing key of an event.
    pub(crate) fn routing_key(&self, event: &Event) -> String {
        match self.by_type {
            true => event.event_type.clone(),
            false => slot_key(&event.key()),
        }
    }

    /// The dead-letter queue of a group on a topic.
    pub(crate) fn dead(&self, topic: &str, group: &str) -> String {
        self.dead.replace("{topic}", topic).replace("{group}", group)
    }

    fn queue(&self, topic: &str, group: &str, number: u16) -> String {
        let name = self.queue.replace("{number}", &number.to_string());
        name.replace("{topic}", topic).replace("{group}", group)
    }

    /// Refuses a group whose queues would have the same name.
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

/// The result of joining a group.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    pub(crate) sources: Vec<Source>,
    pub(crate) stale: Vec<Stale>,
}

/// A binding that a queue may have and that its group does not want.
#[derive(Clone, Debug)]
pub(crate) struct Stale {
    queue: ShortString,
    exchange: ShortString,
    key: ShortString,
}

impl Stale {
    /// Removes it if it is there.
    pub(crate) async fn remove(&self, channel: &Channel) -> Result<()> {
        let Self { queue, exchange, key } = self;
        let removing = channel.queue_unbind(queue.clone(), exchange.clone(), key.clone(), FieldTable::default());
        let doing = || format!("remove the binding {key} of the queue {queue} to the exchange {exchange}");
        with_timeout(doing, removing).await
    }
}

/// A queue that a member consumes.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) topic: String,
    pub(crate) queue: ShortString,
}

impl Group<'_> {
    /// Declares the exchange, the queues and their bindings.
    pub(crate) async fn join(&self, connector: &Connector, join: &Join<'_>) -> Result<Joined> {
        self.check_partitions(connector).await?;
        let mut channel = connector.channel().await?;
        let exchange = short_string(self.topic)?;
        declare_exchange(&channel, &exchange).await?;
        declare_dead(&self.dead()?, connector).await?;
        let mut joined = Joined::default();
        // Queue 0 comes last: if it exists, all others exist.
        for number in (0..self.partitions).rev() {
            let queue = self.queue(number)?;
            if !self.declare(&channel, &queue).await? {
                channel = connector.channel().await?; // a refusal closes the channel
                self.declare_without_limit(&channel, &queue).await?;
            }
            let bind = |key| bind(&channel, &queue, &exchange, key);
            try_join_all(self.binding_keys(number, join.wants).into_iter().map(bind)).await?;
            for key in self.stale_keys(join) {
                joined.stale.push(Stale {
                    queue: queue.clone(),
                    exchange: exchange.clone(),
                    key: short_string(key)?,
                });
            }
            joined.sources.push(Source {
                topic: self.topic.to_owned(),
                queue,
            });
        }
        Ok(joined)
    }

    /// Routing patterns that may be bound from an earlier time, by which the queue would get events that the group does not want:
    /// those of every type that is published and not wanted.
    fn stale_keys(&self, join: &Join<'_>) -> BTreeSet<String> {
        if !self.names.by_type {
            return BTreeSet::new();
        }
        let types = join.published.patterns().filter(|name| !name.contains('*'));
        let unwanted = types.filter(|name| !join.wants.matches(name));
        unwanted.flat_map(binding_keys_of).collect()
    }

    /// Declares a queue with a single active consumer and the largest delivery limit. Returns `false` if the queue exists without
    /// this limit.
    async fn declare(&self, channel: &Channel, queue: &ShortString) -> Result<bool> {
        match declare_queue(channel, queue, &[single_active_consumer(), delivery_limit()]).await {
            Ok(()) => Ok(true),
            Err(error) if is_limit_refused(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Accepts a queue of an older version. RabbitMQ cannot change the arguments of a queue, but a policy can set the limit.
    async fn declare_without_limit(&self, channel: &Channel, queue: &ShortString) -> Result<()> {
        declare_queue(channel, queue, &[single_active_consumer()]).await?;
        let Risk { says, next } = self.delivery_limit_risk(queue);
        tracing::warn!(%queue, "{says}. {next}");
        Ok(())
    }

    /// The risk of a queue without its own delivery limit.
    fn delivery_limit_risk(&self, queue: &ShortString) -> Risk {
        let policy = format!("{{\"delivery-limit\":{DELIVERY_LIMIT}}}");
        Risk {
            says: format!(
                "the queue {queue} was created by an older version and has no delivery limit of its own: RabbitMQ 4 removes its \
                 messages after 20 redeliveries, unless a policy sets another limit"
            ),
            next: format!(
                "set a policy once: rabbitmqctl set_policy postroom-{} '^{queue}$' '{policy}' --apply-to queues",
                self.name
            ),
        }
    }

    /// Queues that can lose messages. Does not create queues.
    pub(crate) async fn risks(&self, connector: &Connector) -> Result<Vec<Risk>> {
        let mut risks = Vec::new();
        for number in 0..self.partitions {
            let queue = self.queue(number)?;
            // Declaring an existing queue changes nothing. RabbitMQ refuses it if the arguments differ.
            if find_queue(connector, &queue).await?.is_some()
                && !self.declare(&connector.channel().await?, &queue).await?
            {
                risks.push(self.delivery_limit_risk(&queue));
            }
        }
        Ok(risks)
    }

    /// Number of waiting messages.
    pub(crate) async fn waiting(&self, connector: &Connector) -> Result<u64> {
        let mut count = 0;
        for number in 0..self.partitions {
            let queue = find_queue(connector, &self.queue(number)?).await?;
            count += queue.map_or(0, |queue| u64::from(queue.message_count()));
        }
        Ok(count)
    }

    /// Deletes the group's queues and its dead-letter queue.
    pub(crate) async fn delete(&self, connector: &Connector) -> Result<()> {
        let channel = connector.channel().await?;
        let mut queues = vec![self.dead()?];
        for number in (0..self.partitions).rev() {
            queues.push(self.queue(number)?);
        }
        for queue in queues {
            let deleting = channel.queue_delete(queue.clone(), QueueDeleteOptions::default());
            with_timeout(|| format!("delete the queue {queue}"), deleting).await?;
        }
        Ok(())
    }

    /// Checks that the number of partitions has not changed. Otherwise keys would move to other queues and lose their order, and
    /// queues without consumers would fill up.
    async fn check_partitions(&self, connector: &Connector) -> Result<()> {
        let is_there = async |number: u16| Ok::<_, Error>(find_queue(connector, &self.queue(number)?).await?.is_some());
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
                "the group {name} does not have {partitions} partitions on the topic {topic}; join it with its own number, \
                 or let it drain and forget it first"
            ),
        ))
    }

    fn queue(&self, number: u16) -> Result<ShortString> {
        short_string(self.names.queue(self.topic, self.name, number))
    }

    /// The queue of its dead letters, with the topic.
    pub(crate) fn dead_source(&self) -> Result<Source> {
        Ok(Source {
            topic: self.topic.to_owned(),
            queue: self.dead()?,
        })
    }

    fn dead(&self) -> Result<ShortString> {
        short_string(self.names.dead(self.topic, self.name))
    }

    fn binding_keys(&self, number: u16, wants: &Filter) -> Vec<String> {
        if self.names.by_type {
            return wants.patterns().map(binding_key).collect();
        }
        if self.partitions == 1 {
            return vec![ALL_ROUTING_KEYS.to_owned()];
        }
        let slots = (0..SLOTS).filter(|slot| slot % self.partitions == number);
        slots.map(|slot| format!("slot.{slot}")).collect()
    }
}

/// The routing pattern of a pattern over event types.
fn binding_key(pattern: &str) -> String {
    let rest = |segment| if segment == "**" { ALL_ROUTING_KEYS } else { segment };
    pattern.split('.').map(rest).collect::<Vec<_>>().join(".")
}

/// The routing patterns of all patterns over event types that match this type.
fn binding_keys_of(event_type: &str) -> Vec<String> {
    let (mut keys, mut beginnings) = (vec![ALL_ROUTING_KEYS.to_owned()], vec![String::new()]);
    let segments: Vec<&str> = event_type.split('.').take(SEGMENTS_MAX).collect();
    for (at, segment) in segments.iter().enumerate() {
        let dot = if at == 0 { "" } else { "." };
        let longer = |beginning: &String| [*segment, "*"].map(|next| format!("{beginning}{dot}{next}"));
        beginnings = beginnings.iter().flat_map(longer).collect();
        match at + 1 == segments.len() {
            true => keys.append(&mut beginnings),
            false => keys.extend(
                beginnings
                    .iter()
                    .map(|beginning| format!("{beginning}.{ALL_ROUTING_KEYS}")),
            ),
        }
    }
    keys
}

/// The argument for the delivery limit.
pub(crate) fn delivery_limit() -> (&'static str, AMQPValue) {
    (DELIVERY_LIMIT_ARGUMENT, AMQPValue::LongInt(DELIVERY_LIMIT))
}

/// Whether a queue exists without this limit.
pub(crate) fn is_limit_refused(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.report().contains(DELIVERY_LIMIT_ARGUMENT)
}

/// The argument for a single active consumer.
fn single_active_consumer() -> (&'static str, AMQPValue) {
    ("x-single-active-consumer", AMQPValue::Boolean(true))
}

/// Declares a durable quorum queue with these additional arguments.
pub(crate) async fn declare_queue(channel: &Channel, queue: &ShortString, others: &[(&str, AMQPValue)]) -> Result<()> {
    let mut arguments = FieldTable::default();
    let quorum = AMQPValue::LongString(LongString::from("quorum"));
    arguments.insert(short_string("x-queue-type")?, quorum);
    for (name, value) in others {
        arguments.insert(short_string(*name)?, value.clone());
    }
    let declaring = channel.queue_declare(queue.clone(), QueueDeclareOptions::durable(), arguments);
    let doing = || format!("declare the queue {queue} (an existing queue may differ: let it drain and delete it)");
    with_timeout(doing, declaring).await?;
    Ok(())
}

async fn bind(channel: &Channel, queue: &ShortString, exchange: &ShortString, key: String) -> Result<()> {
    let key = short_string(key)?;
    let binding = channel.queue_bind(
        queue.clone(),
        exchange.clone(),
        key,
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    with_timeout(|| format!("bind the queue {queue} to the exchange {exchange}"), binding).await
}

/// Finds a queue. Opens its own channel, because RabbitMQ closes it if the queue does not exist.
async fn find_queue(connector: &Connector, queue: &ShortString) -> Result<Option<Queue>> {
    let channel = connector.channel().await?;
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let finding = channel.queue_declare(queue.clone(), passive, FieldTable::default());
    match with_timeout(|| format!("find the queue {queue}"), finding).await {
        Ok(queue) => Ok(Some(queue)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
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
            let keys: Vec<String> = (0..partitions)
                .flat_map(|number| group.binding_keys(number, &Filter::all()))
                .collect();
            assert_eq!(keys.len(), usize::from(SLOTS));
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), usize::from(SLOTS));
        }
    }

    #[test]
    fn templates_with_equal_names_are_refused() {
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
    fn queues_routed_by_type_are_bound_by_the_patterns_of_their_group() {
        let names = Names::new("{group}_queue", "{group}_dlq").unwrap().by_type();
        let group = Group {
            name: "chat",
            topic: "t",
            partitions: 1,
            names: &names,
        };
        let wants = Filter::any_of(["a.*.v1", "b.c.**", "d.e"]);
        assert_eq!(group.binding_keys(0, &wants), ["a.*.v1", "b.c.#", "d.e"]);
        let published = Filter::any_of(["a.x.v1", "d.e", "d.f", "g.**"]);
        let topics = ["t".to_owned()];
        let join = Join {
            wants: &wants,
            published: &published,
            ..Join::new("chat", &topics, postroom::Start::Head)
        };
        let stale: Vec<String> = group.stale_keys(&join).into_iter().collect();
        assert_eq!(stale, ["#", "*.#", "*.*", "*.f", "d.#", "d.*", "d.f"]);
        assert!(
            group
                .stale_keys(&Join::new("chat", &topics, postroom::Start::Head))
                .is_empty()
        );
    }

    #[test]
    fn a_key_keeps_its_slot() {
        let key = |id: &str| Key {
            aggregate_type: "order".to_owned(),
            aggregate_id: id.to_owned(),
        };
        assert_eq!(slot_key(&key("1")), slot_key(&key("1")));
        let slots: BTreeSet<String> = (0..1000).map(|n| slot_key(&key(&n.to_string()))).collect();
        assert_eq!(slots.len(), usize::from(SLOTS), "keys spread over all slots");
    }
}
