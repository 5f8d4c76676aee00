//! The copies of a group's dead letters: entries of the dead-letter streams, which other groups share.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use postroom::{Error, Mark, Message, Origin, Result, Subscription};

use crate::broker::Shared;
use crate::fields::Content;

/// Copies that are read at once.
const PAGE: usize = 100;
/// The field of a copy that names its group.
const GROUP: &str = "postroom-group";
/// The beginning of a stream.
const OLDEST: &str = "-";

/// An entry of a stream: its id, and names and values alternately.
type Entry = (String, Vec<Vec<u8>>);

/// Reads the copies of a group. Reading changes nothing on the server.
#[derive(Debug)]
pub(crate) struct Copies {
    shared: Arc<Shared>,
    group: String,
    /// Topics that may have more copies, each with the place to read on.
    topics: VecDeque<(String, String)>,
}

impl Copies {
    pub(crate) fn new(shared: &Arc<Shared>, group: &str, topics: &[String]) -> Self {
        Self {
            shared: Arc::clone(shared),
            group: group.to_owned(),
            topics: topics.iter().map(|topic| (topic.clone(), OLDEST.to_owned())).collect(),
        }
    }

    /// The next page of the first topic; those of other groups are left out.
    async fn page(&mut self, max: usize) -> Result<Vec<Message>> {
        let Some((topic, from)) = self.topics.front_mut() else {
            return Ok(Vec::new());
        };
        let mut range = redis::cmd("XRANGE");
        range.arg(self.shared.names.dead(topic)).arg(&*from).arg("+");
        range.arg("COUNT").arg(max.clamp(1, PAGE));
        let entries: Vec<Entry> = self
            .shared
            .connection
            .command("read copies of dead letters", range)
            .await?;
        let topic = topic.clone();
        match entries.last() {
            Some((last, _)) => *from = format!("({last}"),
            None => drop(self.topics.pop_front()),
        }
        let copies = entries.into_iter().map(|entry| message(&topic, entry));
        Ok(copies
            .filter(|copy| copy.fields.text(GROUP) == Some(self.group.as_str()))
            .collect())
    }
}

fn message(topic: &str, (id, fields): Entry) -> Message {
    let content = Content::read(fields);
    Message {
        mark: Mark::Id {
            topic: topic.to_owned(),
            id: id.clone(),
        },
        origin: Origin {
            topic: topic.to_owned(),
            place: id,
        },
        content_type: content.content_type,
        attributes: content.attributes,
        fields: content.fields,
        body: content.body,
        given_up: None,
    }
}

#[async_trait]
impl Subscription for Copies {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        while !self.topics.is_empty() {
            let copies = self.page(max).await?;
            if !copies.is_empty() {
                return Ok(copies);
            }
        }
        Ok(Vec::new())
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        for mark in done {
            let Mark::Id { topic, id } = mark else {
                return Err(Error::invalid("this mark is not from Redis"));
            };
            let mut delete = redis::cmd("XDEL");
            delete.arg(self.shared.names.dead(topic)).arg(id);
            let doing = "remove the copy of a dead letter";
            self.shared.connection.command::<redis::Value>(doing, delete).await?;
        }
        Ok(())
    }

    async fn nack(&mut self, _back: &[Mark]) -> Result<()> {
        Ok(())
    }
}
