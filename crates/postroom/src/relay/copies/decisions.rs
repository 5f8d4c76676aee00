//! The decisions of operators on dead letters, in the operators' log.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use sea_orm::DatabaseConnection;

use crate::error::Result;
use crate::state::dead::{self, Decision};

/// A transaction that writes a decision is committed within this time after others with higher numbers.
const LATE: Duration = Duration::from_secs(60);

/// How far the decisions are known.
#[derive(Debug)]
pub(super) struct Decisions {
    /// All are known up to this number, also those that were committed late.
    all_to: i64,
    /// The highest number that was known at some time.
    top: (i64, Instant),
    /// The numbers beyond `all_to` that are known.
    known: HashSet<i64>,
}

impl Decisions {
    /// Begins behind those that are there.
    pub(super) async fn begin(db: &DatabaseConnection) -> Result<Self> {
        let top = dead::last_act(db).await?;
        Ok(Self {
            all_to: top,
            top: (top, Instant::now()),
            known: HashSet::new(),
        })
    }

    /// Reads those that are new.
    pub(super) async fn read(&mut self, db: &DatabaseConnection) -> Result<Vec<Decision>> {
        let (mut new, mut after) = (Vec::new(), self.all_to);
        loop {
            let page = dead::decisions_after(db, after).await?;
            let Some(last) = page.last() else { break };
            after = last.number;
            new.extend(page.into_iter().filter(|one| self.known.insert(one.number)));
        }
        self.forget(after, Instant::now());
        Ok(new)
    }

    /// Forgets numbers below which nothing can be committed any more.
    fn forget(&mut self, top: i64, now: Instant) {
        let (before, at) = self.top;
        if now.duration_since(at) >= LATE {
            self.all_to = before;
            self.top = (Ord::max(top, before), now);
            self.known.retain(|number| *number > before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_forgotten_when_nothing_below_them_can_be_committed_any_more() {
        let begin = Instant::now();
        let mut decisions = Decisions {
            all_to: 3,
            top: (3, begin),
            known: HashSet::from([5, 7]),
        };
        decisions.forget(7, begin + LATE / 2);
        assert_eq!(decisions.all_to, 3);
        decisions.forget(7, begin + LATE);
        assert_eq!((decisions.all_to, decisions.top.0), (3, 7));
        assert_eq!(decisions.known.len(), 2, "4 and 6 may still come");
        decisions.known.insert(9);
        decisions.forget(9, begin + LATE * 2);
        assert_eq!((decisions.all_to, decisions.top.0), (7, 9));
        assert_eq!(decisions.known, HashSet::from([9]));
    }
}
