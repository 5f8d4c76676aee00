//! What a member holds: messages that came and were not asked for yet, messages handed out and not yet acknowledged, and
//! partitions that are its own. Shared by the member and the thread that polls for it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postroom::{Error, ErrorKind, Mark, Message, Result};
use tokio::sync::Notify;

use crate::client::lock;

/// So many messages are kept ready, or so many bytes.
const READY_MAX: usize = 1000;
const READY_BYTES_MAX: usize = 16 << 20;

/// A partition of a topic.
pub(crate) type Place = (String, i32);

#[derive(Debug, Default)]
pub(crate) struct Hand {
    state: Mutex<State>,
    /// Something to take has come.
    news: Notify,
    /// Something was taken, acknowledged or given back; or the member leaves.
    change: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Message>,
    ready_bytes: usize,
    /// What is handed out, for each partition that is ours, in order.
    out: HashMap<Place, VecDeque<Handed>>,
    /// Where to go back to, before anything else of this partition counts.
    back: HashMap<Place, i64>,
    /// Commits under way.
    commits: usize,
    failure: Option<Error>,
    is_leaving: bool,
}

#[derive(Debug)]
struct Handed {
    offset: i64,
    is_done: bool,
}

/// What to commit: the next offset of each partition that moved; and what was not ours to acknowledge any more.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) commit: Vec<(Place, i64)>,
    pub(crate) lost: Vec<Place>,
}

impl Hand {
    /// Waits for messages, at most `max`. What is not returned stays.
    pub(crate) async fn take(&self, max: usize) -> Result<Vec<Message>> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let messages = lock(&self.state).take(max)?;
            if !messages.is_empty() || max == 0 {
                self.change.notify_all();
                return Ok(messages);
            }
            news.await;
        }
    }

    /// Puts a message within reach, if its partition is ours and stands where it should.
    pub(crate) fn offer(&self, message: Message) {
        let Some((place, _)) = place(&message.mark) else {
            return;
        };
        let mut state = lock(&self.state);
        if state.out.contains_key(&place) && !state.back.contains_key(&place) {
            state.ready_bytes += message.body.len();
            state.ready.push_back(message);
            drop(state);
            self.news.notify_waiters();
        }
    }

    /// The next call fails with this.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.state).failure.get_or_insert(error);
        self.news.notify_waiters();
    }

    /// Marks messages as done; answers what may be committed now. [`Hand::committed`] must follow.
    pub(crate) fn done(&self, marks: &[Mark]) -> Done {
        let mut state = lock(&self.state);
        state.commits += 1;
        state.done(marks)
    }

    /// Of these, what is still ours.
    pub(crate) fn still_ours(&self, commit: &[(Place, i64)]) -> Vec<(Place, i64)> {
        let state = lock(&self.state);
        let ours = commit.iter().filter(|(place, _)| state.out.contains_key(place));
        ours.cloned().collect()
    }

    /// A commit has ended, well or not.
    pub(crate) fn committed(&self) {
        lock(&self.state).commits -= 1;
        self.change.notify_all();
    }

    /// Takes messages back: they, and what follows in their partitions, come again.
    pub(crate) fn put_back(&self, marks: &[Mark]) {
        let mut state = lock(&self.state);
        for (place, offset) in marks.iter().filter_map(place) {
            state.put_back(&place, offset);
        }
        drop(state);
        self.change.notify_all();
    }

    /// Where partitions are to go back to.
    pub(crate) fn back(&self) -> Vec<(Place, i64)> {
        let state = lock(&self.state);
        state
            .back
            .iter()
            .map(|(place, offset)| (place.clone(), *offset))
            .collect()
    }

    /// A partition went back.
    pub(crate) fn went_back(&self, place: &Place, offset: i64) {
        let mut state = lock(&self.state);
        if state.back.get(place) == Some(&offset) {
            state.back.remove(place);
        }
    }

    /// Partitions that are ours from now on.
    pub(crate) fn gain(&self, places: Vec<Place>) {
        let mut state = lock(&self.state);
        for place in places {
            state.out.entry(place).or_default();
        }
    }

    /// Partitions that are ours no more. What is handed out of them may be finished for so long; then it is nobody's.
    pub(crate) fn lose(&self, places: &HashSet<Place>, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = lock(&self.state);
        state.forget_ready(places);
        state.back.retain(|place, _| !places.contains(place));
        while state.is_busy(places) && !state.is_leaving {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.change.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.out.retain(|place, _| !places.contains(place));
    }

    /// Whether there is room for more; waits a little for it.
    pub(crate) fn has_room(&self, patience: Duration) -> bool {
        let full = |state: &mut State| state.is_full() && !state.is_leaving && state.back.is_empty();
        let waited = self.change.wait_timeout_while(lock(&self.state), patience, full);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_full()
    }

    /// The member leaves: nothing waits for anything any more.
    pub(crate) fn leave(&self) {
        lock(&self.state).is_leaving = true;
        self.change.notify_all();
    }

    pub(crate) fn is_leaving(&self) -> bool {
        lock(&self.state).is_leaving
    }
}

impl State {
    fn take(&mut self, max: usize) -> Result<Vec<Message>> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let count = max.min(self.ready.len());
        let messages: Vec<Message> = self.ready.drain(..count).collect();
        for message in &messages {
            self.ready_bytes -= message.body.len();
            if let Some((place, offset)) = place(&message.mark) {
                let is_done = false;
                self.out.entry(place).or_default().push_back(Handed { offset, is_done });
            }
        }
        Ok(messages)
    }

    fn done(&mut self, marks: &[Mark]) -> Done {
        let mut done = Done::default();
        let mut moved = HashMap::new();
        for (place, offset) in marks.iter().filter_map(place) {
            let handed = self.out.get_mut(&place);
            let found = handed.and_then(|out| out.iter_mut().find(|handed| handed.offset == offset));
            match found {
                Some(handed) => handed.is_done = true,
                None => done.lost.push(place),
            }
        }
        for (place, out) in &mut self.out {
            while let Some(first) = out.pop_front_if(|first| first.is_done) {
                moved.insert(place.clone(), first.offset + 1);
            }
        }
        done.commit = moved.into_iter().collect();
        done
    }

    fn put_back(&mut self, place: &Place, offset: i64) {
        let Some(out) = self
            .out
            .get_mut(place)
            .filter(|out| out.iter().any(|handed| handed.offset == offset))
        else {
            return; // not ours any more: it comes again where it now belongs
        };
        out.retain(|handed| handed.offset < offset);
        let back = self.back.entry(place.clone()).or_insert(offset);
        *back = offset.min(*back);
        self.forget_ready(&HashSet::from([place.clone()]));
    }

    fn forget_ready(&mut self, places: &HashSet<Place>) {
        self.ready
            .retain(|message| place(&message.mark).is_none_or(|(place, _)| !places.contains(&place)));
        self.ready_bytes = self.ready.iter().map(|message| message.body.len()).sum();
    }

    fn is_busy(&self, places: &HashSet<Place>) -> bool {
        let is_out = |place| self.out.get(place).is_some_and(|out| !out.is_empty());
        self.commits > 0 || places.iter().any(is_out)
    }

    fn is_full(&self) -> bool {
        self.ready.len() >= READY_MAX || self.ready_bytes >= READY_BYTES_MAX
    }
}

/// What a mark of ours names.
fn place(mark: &Mark) -> Option<(Place, i64)> {
    match mark {
        Mark::Offset {
            topic,
            partition,
            offset,
        } => Some(((topic.clone(), *partition), *offset)),
        Mark::Tag(_) | Mark::Id { .. } => None,
    }
}

/// Whose it was, for people.
pub(crate) fn conflict(lost: &[Place]) -> Error {
    let mut names: Vec<String> = lost
        .iter()
        .map(|(topic, partition)| format!("{topic}/{partition}"))
        .collect();
    names.sort();
    names.dedup();
    let names = names.join(", ");
    Error::new(
        ErrorKind::Conflict,
        format!("not acknowledged: {names} went to another member of the group, where the messages come again"),
    )
}
