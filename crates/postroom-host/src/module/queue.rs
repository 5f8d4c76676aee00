//! What the settings of a module say about the broker that feeds it.

use std::time::Duration;

/// The message queue of a module whose topic other programs know by its name: they write to it, or read it, without Postroom. On
/// Redis the topic is one stream with exactly that name. The daemon feeds the module accordingly; a process that embeds the module
/// opens its broker itself.
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
}
