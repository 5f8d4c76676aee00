//! A tally of one instance, in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use tokio::time::Instant;

use super::{Change, KEPT, Tally};

/// Changes that are remembered, some tens of megabytes. The oldest is forgotten first.
const CHANGES_MAX: usize = 200_000;

/// Sums the changes of one instance. Its memory has a bound: with more than 200,000 changes within [`KEPT`], it forgets the oldest.
#[derive(Debug)]
pub struct LocalTally {
    state: Mutex<State>,
    kept: Duration,
}

/// A counter, and the id of a change.
type Key = (String, String);

#[derive(Debug, Default)]
struct State {
    sums: HashMap<String, i64>,
    changes: HashMap<Key, Known>,
    /// When changes are forgotten. A change that was added again is here several times; the last one counts.
    ends: VecDeque<(Instant, Key)>,
}

/// A change that is remembered.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// How much of the sum is from it: nothing if it is settled.
    counted: i64,
    is_settled: bool,
    ends_at: Instant,
}

impl Default for LocalTally {
    fn default() -> Self {
        Self::keeping(KEPT)
    }
}

impl LocalTally {
    /// A tally without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, which remembers changes for another time.
    pub fn keeping(kept: Duration) -> Self {
        Self {
            state: Mutex::default(),
            kept,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_ended(Instant::now());
        state
    }
}

#[async_trait]
impl Tally for LocalTally {
    async fn add(&self, changes: &[Change]) -> Result<()> {
        let mut state = self.state();
        let ends_at = Instant::now() + self.kept;
        changes.iter().for_each(|change| state.add(change, ends_at));
        Ok(())
    }

    async fn settle(&self, changes: &[Change]) -> Result<()> {
        let mut state = self.state();
        let ends_at = Instant::now() + self.kept;
        changes.iter().for_each(|change| state.settle(change, ends_at));
        Ok(())
    }

    async fn read(&self, counters: &[String]) -> Result<Vec<i64>> {
        let state = self.state();
        Ok(counters.iter().map(|counter| state.sum(counter)).collect())
    }
}

impl State {
    fn sum(&self, counter: &str) -> i64 {
        self.sums.get(counter).copied().unwrap_or(0)
    }

    fn add(&mut self, change: &Change, ends_at: Instant) {
        let known = self.changes.get(&key(change)).copied();
        if known.is_some_and(|known| known.is_settled) {
            return;
        }
        if known.is_none() {
            self.count(&change.counter, change.delta);
        }
        let counted = known.map_or(change.delta, |known| known.counted);
        self.remember(change, counted, false, ends_at);
    }

    fn settle(&mut self, change: &Change, ends_at: Instant) {
        let known = self.changes.get(&key(change)).copied();
        if known.is_some_and(|known| known.is_settled) {
            return;
        }
        self.count(&change.counter, -known.map_or(0, |known| known.counted));
        self.remember(change, 0, true, ends_at);
    }

    fn remember(&mut self, change: &Change, counted: i64, is_settled: bool, ends_at: Instant) {
        let known = Known {
            counted,
            is_settled,
            ends_at,
        };
        self.changes.insert(key(change), known);
        self.ends.push_back((ends_at, key(change)));
        while self.ends.len() > CHANGES_MAX {
            self.forget_next(|_| true);
        }
    }

    /// Adds to a sum. A sum of nothing needs no memory.
    fn count(&mut self, counter: &str, delta: i64) {
        let sum = self.sum(counter).saturating_add(delta);
        match sum {
            0 => drop(self.sums.remove(counter)),
            sum => drop(self.sums.insert(counter.to_owned(), sum)),
        }
    }

    fn forget_ended(&mut self, now: Instant) {
        while self.ends.front().is_some_and(|(ends_at, _)| *ends_at <= now) {
            self.forget_next(|known| known.ends_at <= now);
        }
    }

    /// Forgets the change that is first in the order, if it is not in it again and this is so.
    fn forget_next(&mut self, is_due: impl Fn(&Known) -> bool) {
        let Some((ends_at, key)) = self.ends.pop_front() else {
            return;
        };
        let found = self.changes.get(&key).copied();
        let due = found.filter(|known| known.ends_at == ends_at && is_due(known));
        if let Some(known) = due {
            self.changes.remove(&key);
            self.count(&key.0, -known.counted);
        }
    }
}

fn key(change: &Change) -> Key {
    (change.counter.clone(), change.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(id: usize) -> Change {
        Change {
            counter: "posts".to_owned(),
            id: id.to_string(),
            delta: 1,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_has_a_bound_and_goes_with_the_changes() {
        let tally = LocalTally::new();
        let changes: Vec<Change> = (0..CHANGES_MAX + 10).map(change).collect();
        tally.add(&changes).await.unwrap();
        let sum = tally.read(&["posts".to_owned()]).await.unwrap();
        assert_eq!(sum, [i64::try_from(CHANGES_MAX).unwrap()], "the oldest are forgotten");
        tokio::time::advance(KEPT).await;
        let state = tally.state();
        let sizes = [state.sums.len(), state.changes.len(), state.ends.len()];
        assert_eq!(sizes, [0, 0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_is_added_again_is_remembered_from_then_on() {
        let tally = LocalTally::new();
        let read = async || tally.read(&["posts".to_owned()]).await.unwrap()[0];
        tally.add(&[change(1)]).await.unwrap();
        tokio::time::advance(KEPT / 2).await;
        tally.add(&[change(1)]).await.unwrap();
        tokio::time::advance(KEPT * 3 / 4).await;
        assert_eq!(read().await, 1);
        tokio::time::advance(KEPT / 4).await;
        assert_eq!(read().await, 0);
    }
}
