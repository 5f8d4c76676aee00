//! The number of comments of a post: exact, and without a lock that writers of comments wait for.
//!
//! A comment writes a signed change in its own transaction ([`change`]). A job adds changes to the posts, many at a time
//! ([`flush`]): it claims rows, sums them, updates the posts and writes `count_batches`, all in one transaction. There is no
//! watermark, so a transaction that commits late is counted by the next batch. The worker `aggregate` adds each change to a tally
//! that all instances share; readers add what the tally has to the number of the last flush ([`read`]). The tally may be lost at any
//! time: it is not where the number comes from.

mod aggregate;
mod batch;
mod changes;
mod drift;
mod flush;
mod posts;
mod prune;
mod read;
mod watch;

use postroom::{Event, Result, Tx, append};
use postroom_shared::tally;

pub(crate) use aggregate::Aggregate;
pub(crate) use drift::sample;
pub(crate) use flush::job as flush_job;
pub(crate) use prune::prune;
pub(crate) use read::{Comments, counts};
pub(crate) use watch::{Counts, lag};

use crate::events::CommentCountDelta;
use crate::tables::now_ms;

/// Writes that the number of comments of a post changed, in the transaction of the comment, and emits it. It locks no row of the
/// post.
pub(crate) async fn change(tx: &Tx, delta: &CommentCountDelta) -> Result<()> {
    let event = Event::of(delta)?;
    changes::insert(tx, event.id, delta, now_ms()).await?;
    append(tx, &[event]).await
}

/// A change as the tally knows it: the counter's key is the one of the specification, and the braces keep the keys of a post on one
/// node of a cluster.
fn tallied(post_id: i64, event_id: &str, delta: i32) -> tally::Change {
    tally::Change {
        counter: counter(post_id),
        id: event_id.to_owned(),
        delta: delta.into(),
    }
}

fn counter(post_id: i64) -> String {
    format!("count:comment:delta:{{{post_id}}}")
}
