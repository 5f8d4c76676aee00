//! The partitions that a member has leased, with their entries in flight. The member and its lease keeper share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use postroom::{Mark, Message, Origin, Result};

use crate::fields::Content;
use crate::id::Id;

/// Leased partitions by topic and number.
#[derive(Debug, Default)]
pub(crate) struct Assignment(Mutex<BTreeMap<TopicPartition, LeasedPartition>>);

/// A partition: the index of its topic in the subscription, and its number.
pub(crate) type TopicPartition = (usize, u16);

/// A leased partition.
#[derive(Clone, Debug)]
pub(crate) struct LeasedPartition {
    /// The token of the lease.
    pub(crate) token: String,
    /// Position of the next fetch.
    pub(crate) cursor: Cursor,
    /// The highest fetched id.
    last: Id,
    /// The last id of the stream at the last complete fetch.
    pub(crate) seen: Id,
    /// Entries in flight: fetched, neither acknowledged nor returned.
    pub(crate) in_flight: BTreeSet<Id>,
    /// The member has more than its share: it fetches no more from this partition and releases it when no entry is in flight.
    pub(crate) is_releasing: bool,
}

/// Position of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// Pending entries after this id.
    After(Id),
    /// New entries.
    New,
}

/// The response of a fetch for one partition: number, state, entries, cursor, last id, and the number of failed deliveries if
/// its only entry is given up.
pub(crate) type FetchResponse = (u16, String, Vec<(String, Vec<Vec<u8>>)>, String, String, String);

impl LeasedPartition {
    fn new(token: String) -> Self {
        Self {
            token,
            cursor: Cursor::After(Id::default()),
            last: Id::default(),
            seen: Id::default(),
            in_flight: BTreeSet::new(),
            is_releasing: false,
        }
    }
}

impl Cursor {
    /// The cursor as an argument of the fetch script.
    pub(crate) fn text(self) -> String {
        match self {
            Self::After(id) => id.to_string(),
            Self::New => String::new(),
        }
    }

    fn read(text: &str) -> Result<Self> {
        Ok(if text.is_empty() {
            Self::New
        } else {
            Self::After(text.parse()?)
        })
    }
}

impl Assignment {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, LeasedPartition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All leased partitions.
    pub(crate) fn all(&self) -> Vec<(TopicPartition, LeasedPartition)> {
        self.lock().iter().map(|(place, held)| (*place, held.clone())).collect()
    }

    /// The partitions of a topic to fetch from. Until `record_fetch` is called, fetched entries count as not fetched: if the
    /// response is lost, the next fetch reads them again.
    pub(crate) fn begin_fetch(&self, topic: usize) -> Vec<(u16, LeasedPartition)> {
        let mut all = self.lock();
        let of_topic = all
            .iter_mut()
            .filter(|((at, _), held)| *at == topic && !held.is_releasing);
        let asked = of_topic.map(|((_, partition), held)| {
            let asked = (*partition, held.clone());
            if held.cursor == Cursor::New {
                held.cursor = Cursor::After(held.last);
            }
            asked
        });
        asked.collect()
    }

    /// Records the fetch response of a partition that was leased with `token`, and returns its messages.
    pub(crate) fn record_fetch(
        &self,
        topic: (usize, &str),
        token: &str,
        answer: FetchResponse,
    ) -> Result<Vec<Message>> {
        let (partition, _, entries, cursor, seen, deaths) = answer;
        let given_up = (!deaths.is_empty()).then(|| format!("delivered {deaths} times and never acknowledged"));
        let mut all = self.lock();
        let Some(held) = all.get_mut(&(topic.0, partition)).filter(|held| held.token == token) else {
            return Ok(Vec::new()); // the lease was lost meanwhile: the next member gets these entries
        };
        held.cursor = Cursor::read(&cursor)?;
        if !seen.is_empty() {
            held.seen = seen.parse()?;
        }
        let mut messages = Vec::with_capacity(entries.len());
        for (id, fields) in entries {
            let id: Id = id.parse()?;
            held.last = held.last.max(id);
            if held.in_flight.insert(id) {
                let message = message(topic.1, partition, id, fields);
                messages.push(Message {
                    given_up: given_up.clone(),
                    ..message
                });
            }
        }
        Ok(messages)
    }

    /// Updates the partitions of a topic after a renewal. New ones start with their pending entries; missing ones are lost.
    /// Returns whether there are new ones.
    pub(crate) fn update_leases(&self, topic: usize, leases: BTreeMap<u16, String>) -> bool {
        let mut all = self.lock();
        let is_kept = |place: &TopicPartition, held: &LeasedPartition| {
            place.0 != topic || leases.get(&place.1) == Some(&held.token)
        };
        all.retain(|place, held| is_kept(place, held));
        let before = all.len();
        for (partition, token) in leases {
            all.entry((topic, partition))
                .or_insert_with(|| LeasedPartition::new(token));
        }
        all.len() > before
    }

    /// Removes a partition whose lease was lost.
    pub(crate) fn remove(&self, place: TopicPartition, token: &str) {
        self.lock().retain(|other, held| *other != place || held.token != token);
    }

    /// Marks the surplus partitions of a topic as releasing, first those without entries in flight. Removes and returns those that
    /// can be released now. A concurrent fetch from them returns nothing: the server refuses it, or releasing returns its entries
    /// and `record_fetch` no longer finds the partition.
    pub(crate) fn release_surplus(&self, topic: usize, share: usize) -> Vec<(TopicPartition, LeasedPartition)> {
        let mut all = self.lock();
        let of_topic = all.iter_mut().filter(|((at, _), _)| *at == topic);
        let mut held: Vec<&mut LeasedPartition> = of_topic.map(|(_, held)| held).collect();
        let surplus = held.len().saturating_sub(share);
        held.sort_by_key(|held| (!held.is_releasing, !held.in_flight.is_empty()));
        for (at, held) in held.into_iter().enumerate() {
            held.is_releasing = at < surplus; // keeps a releasing partition if the share has grown meanwhile
        }
        let is_idle = |((at, _), held): &(&TopicPartition, &LeasedPartition)| {
            *at == topic && held.is_releasing && held.in_flight.is_empty()
        };
        let idle: Vec<TopicPartition> = all.iter().filter(is_idle).map(|(place, _)| *place).collect();
        idle.into_iter().filter_map(|place| all.remove_entry(&place)).collect()
    }

    /// Entries of one partition were acknowledged.
    pub(crate) fn acknowledged(&self, place: TopicPartition, token: &str, ids: &[Id]) {
        if let Some(held) = self.lock().get_mut(&place).filter(|held| held.token == token) {
            for id in ids {
                held.in_flight.remove(id);
            }
        }
    }

    /// Returns entries of one partition: the next fetch reads them again, in order.
    pub(crate) fn rewind(&self, place: TopicPartition, ids: &[Id]) {
        let (mut all, Some(first)) = (self.lock(), ids.iter().min()) else {
            return;
        };
        let Some(held) = all.get_mut(&place) else {
            return;
        };
        for id in ids {
            held.in_flight.remove(id);
        }
        held.cursor = match held.cursor {
            Cursor::After(id) => Cursor::After(id.min(first.before())),
            Cursor::New => Cursor::After(first.before()),
        };
    }
}

fn message(topic: &str, partition: u16, id: Id, fields: Vec<Vec<u8>>) -> Message {
    let content = Content::read(fields);
    Message {
        mark: Mark::Id {
            topic: topic.to_owned(),
            id: format!("{partition}/{id}"),
        },
        origin: Origin {
            topic: topic.to_owned(),
            place: format!("partition {partition}, id {id}"),
        },
        content_type: content.content_type,
        attributes: content.attributes,
        fields: content.fields,
        body: content.body,
        given_up: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(partition: u16, ids: &[&str]) -> FetchResponse {
        let entries = ids.iter().map(|id| ((*id).to_owned(), Vec::new())).collect();
        (
            partition,
            "ok".to_owned(),
            entries,
            String::new(),
            String::new(),
            String::new(),
        )
    }

    /// Partitions 0 and 1 of a topic, each with one entry in flight.
    fn busy() -> Assignment {
        let assignment = Assignment::default();
        assignment.update_leases(0, BTreeMap::from([(0, "a".to_owned()), (1, "b".to_owned())]));
        for (partition, token) in [(0, "a"), (1, "b")] {
            let came = assignment.record_fetch((0, "t"), token, answer(partition, &["5-0"]));
            assert_eq!(came.unwrap().len(), 1);
        }
        assignment
    }

    #[test]
    fn a_surplus_partition_is_released_when_its_entries_are_acknowledged() {
        let assignment = busy();
        assert!(
            assignment.release_surplus(0, 1).is_empty(),
            "both have entries in flight"
        );
        let asked: Vec<u16> = assignment
            .begin_fetch(0)
            .into_iter()
            .map(|(partition, _)| partition)
            .collect();
        assert_eq!(asked, [1], "nothing is fetched from the releasing one");
        assert!(assignment.release_surplus(0, 1).is_empty(), "one is releasing already");
        assignment.acknowledged((0, 0), "a", &["5-0".parse().unwrap()]);
        let gone: Vec<TopicPartition> = assignment
            .release_surplus(0, 1)
            .into_iter()
            .map(|(place, _)| place)
            .collect();
        assert_eq!(gone, [(0, 0)]);
    }

    #[test]
    fn an_idle_partition_is_released_first_and_a_concurrent_fetch_returns_nothing() {
        let assignment = busy();
        assignment.acknowledged((0, 1), "b", &["5-0".parse().unwrap()]);
        assert_eq!(assignment.begin_fetch(0).len(), 2);
        let gone: Vec<TopicPartition> = assignment
            .release_surplus(0, 1)
            .into_iter()
            .map(|(place, _)| place)
            .collect();
        assert_eq!(gone, [(0, 1)]);
        let late = assignment.record_fetch((0, "t"), "b", answer(1, &["6-0"]));
        assert!(late.unwrap().is_empty());
    }

    #[test]
    fn a_releasing_partition_stays_when_the_share_grows_again() {
        let assignment = busy();
        assert!(assignment.release_surplus(0, 1).is_empty());
        assert!(assignment.release_surplus(0, 2).is_empty());
        assert_eq!(assignment.begin_fetch(0).len(), 2);
    }
}
