//! Reads numbers of comments: the number of the last flush, plus the changes that the tally has.
//!
//! The guarantee: a number contains each change at most once, and it contains every change of the last flush. A change that the
//! worker `aggregate` has added to the tally is in the number; a change that was committed a moment ago may not be. So a reader who
//! asks again sees the number move with the comments, without a jump at a flush. There are two exceptions. The number can step back
//! by the changes of the last seconds when the tally is lost or comes back, or after a read that met a flush at every try, because
//! the database alone answers then. And a tally that was restored from an old state can repeat changes until it forgets them.

use std::collections::HashMap;
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use postroom_shared::Slot;
use sea_orm::DatabaseConnection;
use tokio::time::{sleep, timeout};

use super::posts::Count;
use super::{counter, posts};

/// How long the tally may take to answer. After that, the database does.
const TALLY_MAX: Duration = Duration::from_millis(250);
/// How often a read that meets a flush is tried, and the pause between two tries. A flush settles within milliseconds of its
/// commit.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(10);

/// A number of comments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comments {
    /// The number to show.
    pub(crate) count: i64,
    /// The part of it that is not in the row of the post yet.
    pub(crate) overlay: i64,
}

/// The numbers of comments of these posts. A post that does not exist has none.
pub(crate) async fn counts(db: &DatabaseConnection, shared: &Slot, wanted: &[i64]) -> Result<HashMap<i64, Comments>> {
    let mut counts = HashMap::new();
    let mut left = wanted.to_vec();
    for attempt in 0..TRIES {
        if left.is_empty() {
            return Ok(counts);
        }
        if attempt > 0 {
            sleep(PAUSE).await;
        }
        match through_tally(db, shared, &left).await? {
            Some(found) => counts.extend(found),
            None => break,
        }
        left.retain(|post| !counts.contains_key(post));
    }
    if !left.is_empty() {
        counts.extend(posts::newest(db, &left).await?);
    }
    Ok(counts)
}

/// The numbers of those posts that no flush has changed while the tally was read. `None`: the tally is away.
async fn through_tally(
    db: &DatabaseConnection,
    shared: &Slot,
    wanted: &[i64],
) -> Result<Option<HashMap<i64, Comments>>> {
    let before = posts::counts(db, wanted).await?;
    let Ok(sums) = tally(shared, wanted).await else {
        return Ok(None);
    };
    let after = posts::counts(db, wanted).await?;
    let number = |(post, sum): (&i64, i64)| Some((*post, shown(*before.get(post)?, *after.get(post)?, sum)?));
    Ok(Some(wanted.iter().zip(sums).filter_map(number).collect()))
}

async fn tally(shared: &Slot, wanted: &[i64]) -> Result<Vec<i64>> {
    let counters: Vec<String> = wanted.iter().map(|post| counter(*post)).collect();
    let read = timeout(TALLY_MAX, shared.get()?.tally.read(&counters)).await;
    read.map_err(|_elapsed| Error::new(ErrorKind::Unavailable, "the tally did not answer"))?
}

/// The number to show, if the count and the sum belong together: the last batch was settled before the tally was read, and no batch
/// was added while it was read. Otherwise a change could be in both, or in neither.
fn shown(before: Count, after: Count, sum: i64) -> Option<Comments> {
    let belongs = before.is_settled && before.batch_id == after.batch_id;
    belongs.then(|| Comments::of(before.comments, sum))
}

impl Comments {
    /// A tally that was restored from an old state may have a sum that is too low. The number never goes below 0.
    pub(super) fn of(flushed: i64, overlay: i64) -> Self {
        let overlay = overlay.max(-flushed);
        Self {
            count: flushed + overlay,
            overlay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_shown_if_no_flush_came_between() {
        let count = |comments, batch, is_settled| Count {
            comments,
            batch_id: batch,
            is_settled,
        };
        let check = |before, after, sum, expected: Option<i64>| {
            let count = shown(before, after, sum).map(|comments| comments.count);
            assert_eq!(count, expected, "{before:?} {after:?}");
        };
        check(count(0, None, true), count(0, None, true), 2, Some(2));
        check(count(5, Some(1), true), count(5, Some(1), true), 2, Some(7));
        // Added, and maybe still in the tally.
        check(count(5, Some(1), false), count(5, Some(1), true), 2, None);
        // Added while the tally was read.
        check(count(5, Some(1), true), count(7, Some(2), true), 0, None);
        check(count(0, None, true), count(2, Some(1), false), 2, None);
        // A tally that was restored from an old state.
        check(count(1, Some(1), true), count(1, Some(1), true), -3, Some(0));
    }
}
