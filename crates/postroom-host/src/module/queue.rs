//! The settings of a module about the broker that feeds it.

use std::time::Duration;

/// The message queue of a module whose topic other programs know by its name: they write to it, or read it, without Postroom. On
/// Redis the topic is one stream with exactly that name; on RabbitMQ it is an exchange with exactly that name, and with `names` its
/// queues have theirs. The daemon feeds the module accordingly; a process that embeds the module opens its broker itself.
///
/// A key that the settings leave out is absent: the sections of the broker and of the module decide then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Whether the queue is used, by `message_queue.enabled`.
    pub is_enabled: Option<bool>,
    /// The broker, by `message_queue.provider`.
    pub provider: Option<&'static str>,
    /// Stands before the topic in the name of the stream, by `message_queue.topic_prefix`.
    pub topic_prefix: Option<String>,
    /// The longest wait of one read, by `message_queue.poll_timeout_millis`.
    pub poll_timeout: Option<Duration>,
    /// The names of its queues on RabbitMQ, by the module's specification. Without them, they are named like those of other modules.
    pub names: Option<QueueNames>,
}

/// Templates of the names of a module's queues on RabbitMQ, with `{group}` in both. With these names, messages are routed by the type
/// of their event: the routing key is the event type, and each queue gets only the types that its group listens to.
///
/// ```
/// use postroom_host::{Module, Queue, QueueNames};
///
/// let names = QueueNames::new("{group}_queue", "{group}_dlq"); // notification_queue, notification_dlq
/// let module = Module::new("community")
///     .topic("domain_events".parse()?)
///     .queue(Queue { names: Some(names), ..Queue::default() });
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueNames {
    /// Of a group's queue.
    pub queue: String,
    /// Of the queue with copies of its dead letters.
    pub dead: String,
}

impl QueueNames {
    /// Templates for both.
    pub fn new(queue: impl Into<String>, dead: impl Into<String>) -> Self {
        Self {
            queue: queue.into(),
            dead: dead.into(),
        }
    }
}
