//! What a member holds: partitions, and the entries of them that it has handed out. The member and its keeper share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use postroom::{Mark, Message, Origin, Result};

use crate::fields::Content;
use crate::id::Id;

/// Partitions by topic and number.
#[derive(Debug, Default)]
pub(crate) struct Holding(Mutex<BTreeMap<Place, Held>>);

/// A partition of a topic: the topic's place in the subscription, and its number.
pub(crate) type Place = (usize, u16);

/// A partition that is held.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Under which lease.
    pub(crate) token: String,
    /// What was not handed out yet.
    pub(crate) cursor: Cursor,
    /// The highest id that was handed out.
    last: Id,
    /// Nothing after this id was there at the last look.
    pub(crate) seen: Id,
    /// Handed out, neither acknowledged nor given back.
    pub(crate) out: BTreeSet<Id>,
    /// It is beyond the share: it is not fetched from any more, and goes when nothing of it is handed out.
    pub(crate) is_leaving: bool,
}

/// Where to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// With what is pending after this id.
    After(Id),
    /// With what is new.
    New,
}

/// What a fetch answers for one partition: its number, state, entries, cursor, last id, and how many members
/// its one entry has killed if that is given up.
pub(crate) type Answer = (u16, String, Vec<(String, Vec<Vec<u8>>)>, String, String, String);

impl Held {
    fn taken(token: String) -> Self {
        Self {
            token,
            cursor: Cursor::After(Id::default()),
            last: Id::default(),
            seen: Id::default(),
            out: BTreeSet::new(),
            is_leaving: false,
        }
    }
}

impl Cursor {
    /// As scripts write it.
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

impl Holding {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that is held now.
    pub(crate) fn all(&self) -> Vec<(Place, Held)> {
        self.lock().iter().map(|(place, held)| (*place, held.clone())).collect()
    }

    /// What is to be fetched from a topic. Until the answer is written down, what it brings counts as not handed out: an
    /// answer that is never seen is asked for again.
    pub(crate) fn asking(&self, topic: usize) -> Vec<(u16, Held)> {
        let mut all = self.lock();
        let of_topic = all
            .iter_mut()
            .filter(|((at, _), held)| *at == topic && !held.is_leaving);
        let asked = of_topic.map(|((_, partition), held)| {
            let asked = (*partition, held.clone());
            if held.cursor == Cursor::New {
                held.cursor = Cursor::After(held.last);
            }
            asked
        });
        asked.collect()
    }

    /// Writes down what a fetch answered for a partition that was asked under `token`; answers what is to be handed out.
    pub(crate) fn answered(&self, topic: (usize, &str), token: &str, answer: Answer) -> Result<Vec<Message>> {
        let (partition, _, entries, cursor, seen, deaths) = answer;
        let given_up = (!deaths.is_empty()).then(|| format!("delivered {deaths} times and never acknowledged"));
        let mut all = self.lock();
        let Some(held) = all.get_mut(&(topic.0, partition)).filter(|held| held.token == token) else {
            return Ok(Vec::new()); // lost meanwhile: its next member gets them
        };
        held.cursor = Cursor::read(&cursor)?;
        if !seen.is_empty() {
            held.seen = seen.parse()?;
        }
        let mut messages = Vec::with_capacity(entries.len());
        for (id, fields) in entries {
            let id: Id = id.parse()?;
            held.last = held.last.max(id);
            if held.out.insert(id) {
                let message = message(topic.1, partition, id, fields);
                messages.push(Message {
                    given_up: given_up.clone(),
                    ..message
                });
            }
        }
        Ok(messages)
    }

    /// Adopts what a renewal answered for a topic: what is new begins with what is pending, what is not named is lost. Answers
    /// whether anything is new.
    pub(crate) fn renewed(&self, topic: usize, leases: BTreeMap<u16, String>) -> bool {
        let mut all = self.lock();
        let is_kept = |place: &Place, held: &Held| place.0 != topic || leases.get(&place.1) == Some(&held.token);
        all.retain(|place, held| is_kept(place, held));
        let before = all.len();
        for (partition, token) in leases {
            all.entry((topic, partition)).or_insert_with(|| Held::taken(token));
        }
        all.len() > before
    }

    /// A partition that was held under this token is another member's now.
    pub(crate) fn lost(&self, place: Place, token: &str) {
        self.lock().retain(|other, held| *other != place || held.token != token);
    }

    /// Marks what a topic has beyond its share as leaving, first that of which nothing is handed out; answers what can go at once,
    /// which is not held any more. A fetch from it that is under way brings nothing: either it comes too late on the server, or
    /// what it took is given back there, and its answer finds the partition gone.
    pub(crate) fn surplus(&self, topic: usize, share: usize) -> Vec<(Place, Held)> {
        let mut all = self.lock();
        let of_topic = all.iter_mut().filter(|((at, _), _)| *at == topic);
        let mut held: Vec<&mut Held> = of_topic.map(|(_, held)| held).collect();
        let beyond = held.len().saturating_sub(share);
        held.sort_by_key(|held| (!held.is_leaving, !held.out.is_empty()));
        for (at, held) in held.into_iter().enumerate() {
            held.is_leaving = at < beyond; // one that was to leave stays if the share has grown meanwhile
        }
        let is_free = |((at, _), held): &(&Place, &Held)| *at == topic && held.is_leaving && held.out.is_empty();
        let free: Vec<Place> = all.iter().filter(is_free).map(|(place, _)| *place).collect();
        free.into_iter().filter_map(|place| all.remove_entry(&place)).collect()
    }

    /// Entries of one partition are settled.
    pub(crate) fn settled(&self, place: Place, token: &str, ids: &[Id]) {
        if let Some(held) = self.lock().get_mut(&place).filter(|held| held.token == token) {
            for id in ids {
                held.out.remove(id);
            }
        }
    }

    /// Entries of one partition are given back: they are handed out again, in order.
    pub(crate) fn given_back(&self, place: Place, ids: &[Id]) {
        let (mut all, Some(first)) = (self.lock(), ids.iter().min()) else {
            return;
        };
        let Some(held) = all.get_mut(&place) else {
            return;
        };
        for id in ids {
            held.out.remove(id);
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
        body: content.body,
        given_up: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(partition: u16, ids: &[&str]) -> Answer {
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

    /// Partitions 0 and 1 of a topic, with an entry of each handed out.
    fn busy() -> Holding {
        let holding = Holding::default();
        holding.renewed(0, BTreeMap::from([(0, "a".to_owned()), (1, "b".to_owned())]));
        for (partition, token) in [(0, "a"), (1, "b")] {
            let came = holding.answered((0, "t"), token, answer(partition, &["5-0"]));
            assert_eq!(came.unwrap().len(), 1);
        }
        holding
    }

    #[test]
    fn what_is_beyond_the_share_goes_when_its_entries_are_settled() {
        let holding = busy();
        assert!(holding.surplus(0, 1).is_empty(), "both are at work");
        let asked: Vec<u16> = holding.asking(0).into_iter().map(|(partition, _)| partition).collect();
        assert_eq!(asked, [1], "there is nothing more to come of the one that leaves");
        assert!(holding.surplus(0, 1).is_empty(), "one leaves already");
        holding.settled((0, 0), "a", &["5-0".parse().unwrap()]);
        let gone: Vec<Place> = holding.surplus(0, 1).into_iter().map(|(place, _)| place).collect();
        assert_eq!(gone, [(0, 0)]);
    }

    #[test]
    fn what_nothing_is_handed_out_of_goes_first_and_a_fetch_under_way_brings_nothing() {
        let holding = busy();
        holding.settled((0, 1), "b", &["5-0".parse().unwrap()]);
        assert_eq!(holding.asking(0).len(), 2);
        let gone: Vec<Place> = holding.surplus(0, 1).into_iter().map(|(place, _)| place).collect();
        assert_eq!(gone, [(0, 1)]);
        let late = holding.answered((0, "t"), "b", answer(1, &["6-0"]));
        assert!(late.unwrap().is_empty());
    }

    #[test]
    fn what_was_to_leave_stays_when_the_share_grows_again() {
        let holding = busy();
        assert!(holding.surplus(0, 1).is_empty());
        assert!(holding.surplus(0, 2).is_empty());
        assert_eq!(holding.asking(0).len(), 2);
    }
}
