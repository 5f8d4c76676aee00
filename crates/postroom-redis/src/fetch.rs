//! Fetches entries from the partitions that a member has leased of a topic, with one script call.

use postroom::{Error, ErrorKind, Message, Result};

use crate::assignment::{FetchResponse, LeasedPartition};
use crate::lease_keeper::MemberState;
use crate::script::{self, Call};

impl MemberState {
    /// Fetches at most `max` entries of a topic. `rotation` selects the partition that is read first.
    pub(crate) async fn fetch(&self, at: usize, rotation: usize, max: usize) -> Result<Vec<Message>> {
        let (topic, partitions) = self.topics.get(at).cloned().unwrap_or_default();
        let mut asked = self.assignment.begin_fetch(at);
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let first = rotation % asked.len();
        asked.rotate_left(first);
        let call = self.fetch_call(&topic, &asked, max);
        let answers: Vec<FetchResponse> = self.shared.connection.call("fetch from Redis", call).await?;
        let mut messages = Vec::new();
        let mut failure = None;
        for answer in answers {
            let token = asked.iter().find(|(partition, _)| *partition == answer.0);
            let token = token.map_or("", |(_, held)| held.token.as_str());
            match answer.1.as_str() {
                "ok" => {
                    self.report_given_up(&topic, &answer);
                    messages.extend(self.assignment.record_fetch((at, &topic), token, answer)?);
                }
                "lost" => self.assignment.remove((at, answer.0), token),
                error => failure = Some(error.to_owned()),
            }
        }
        match failure {
            Some(error) if messages.is_empty() => self.recover(&topic, partitions, error).await.map(|()| messages),
            _ => Ok(messages),
        }
    }

    fn fetch_call(&self, topic: &str, asked: &[(u16, LeasedPartition)], max: usize) -> Call {
        let mut keys = vec![self.leases(topic)];
        keys.extend(
            asked
                .iter()
                .map(|(partition, _)| self.shared.names.stream(topic, *partition)),
        );
        let mut call = Call::on(&script::FETCH, &keys)
            .arg(&[self.member.as_str(), self.group.as_str()])
            .arg(max)
            .arg(self.shared.options.deliveries_max.unwrap_or(0));
        for (partition, held) in asked {
            call = call.arg(*partition).arg(&held.token).arg(held.cursor.text());
        }
        call
    }

    fn report_given_up(&self, topic: &str, answer: &FetchResponse) {
        if let (Some((id, _)), false) = (answer.2.first(), answer.5.is_empty()) {
            tracing::error!(
                group = %self.group, topic, partition = answer.0, id,
                "an entry exceeded its delivery limit without an acknowledgement: it is given up"
            );
        }
    }

    /// Creates the group again if the server has lost it. It starts at the oldest entry, so acknowledged entries may be delivered
    /// again.
    async fn recover(&self, topic: &str, partitions: u16, error: String) -> Result<()> {
        if !error.starts_with("NOGROUP") {
            return Err(Error::new(
                ErrorKind::Failed,
                format!("fetch from Redis: {topic}: {error}"),
            ));
        }
        let (created, missing) = self.shared.create_group(topic, partitions, &self.group, "0").await?;
        tracing::warn!(group = %self.group, topic, created, missing_streams = missing, "Redis had lost a group or its streams; created the group again");
        Ok(())
    }
}
