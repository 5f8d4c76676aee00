//! Fetching: one step on the server hands out entries of what a member holds of a topic.

use postroom::{Error, ErrorKind, Message, Result};

use crate::holding::{Answer, Held};
use crate::keeper::Desk;
use crate::script::{self, Call};

impl Desk {
    /// Takes at most `max` from a topic; the partition that comes first changes with `turn`.
    pub(crate) async fn fetch(&self, at: usize, turn: usize, max: usize) -> Result<Vec<Message>> {
        let (topic, partitions) = self.topics.get(at).cloned().unwrap_or_default();
        let mut asked = self.holding.asking(at);
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let first = turn % asked.len();
        asked.rotate_left(first);
        let call = self.plan(&topic, &asked, max);
        let answers: Vec<Answer> = self.core.link.call("fetch from Redis", call).await?;
        let mut messages = Vec::new();
        let mut trouble = None;
        for answer in answers {
            let token = asked.iter().find(|(partition, _)| *partition == answer.0);
            let token = token.map_or("", |(_, held)| held.token.as_str());
            match answer.1.as_str() {
                "ok" => {
                    self.report_given_up(&topic, &answer);
                    messages.extend(self.holding.answered((at, &topic), token, answer)?);
                }
                "lost" => self.holding.lost((at, answer.0), token),
                words => trouble = Some(words.to_owned()),
            }
        }
        match trouble {
            Some(words) if messages.is_empty() => self.recover(&topic, partitions, words).await.map(|()| messages),
            _ => Ok(messages),
        }
    }

    fn plan(&self, topic: &str, asked: &[(u16, Held)], max: usize) -> Call {
        let mut keys = vec![self.leases(topic)];
        keys.extend(
            asked
                .iter()
                .map(|(partition, _)| self.core.names.stream(topic, *partition)),
        );
        let mut call = Call::on(&script::FETCH, &keys)
            .arg(&[self.member.as_str(), self.group.as_str()])
            .arg(max)
            .arg(self.core.options.deliveries_max.unwrap_or(0));
        for (partition, held) in asked {
            call = call.arg(*partition).arg(&held.token).arg(held.cursor.text());
        }
        call
    }

    fn report_given_up(&self, topic: &str, answer: &Answer) {
        if let (Some((id, _)), false) = (answer.2.first(), answer.5.is_empty()) {
            tracing::error!(
                group = %self.group, topic, partition = answer.0, id,
                "an entry was delivered again and again and never acknowledged: it is given up"
            );
        }
    }

    /// A server that lost the group gets it again, from the beginning: what was acknowledged may come once more.
    async fn recover(&self, topic: &str, partitions: u16, words: String) -> Result<()> {
        if !words.starts_with("NOGROUP") {
            return Err(Error::new(
                ErrorKind::Failed,
                format!("fetch from Redis: {topic}: {words}"),
            ));
        }
        let (made, missing) = self.core.make_group(topic, partitions, &self.group, "0").await?;
        tracing::warn!(group = %self.group, topic, made, missing_streams = missing, "Redis had lost a group, or its streams");
        Ok(())
    }
}
