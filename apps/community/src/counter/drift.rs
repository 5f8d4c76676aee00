//! A check of the counts: of a few posts, the count is compared with the sum of its changes. It counts no comments.

use postroom::Result;
use sea_orm::ConnectionTrait;

use super::posts;

/// Posts of each kind in one sample: those that were changed lately, and the next ones by id.
const EACH: u64 = 20;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drift {
    /// The checked posts.
    pub(crate) posts: u64,
    /// Posts whose count differs from the sum of their changes, and by how much.
    pub(crate) wrong: Vec<(i64, i64)>,
    /// The last post of the sample; the next sample goes on behind it.
    pub(crate) last: i64,
}

impl Drift {
    /// The sum of the differences, without their signs.
    pub(crate) fn total(&self) -> i64 {
        self.wrong.iter().map(|(_, difference)| difference.abs()).sum()
    }
}

/// Checks a few posts: some that were changed lately, and some behind this one.
pub(crate) async fn sample(db: &impl ConnectionTrait, after: i64) -> Result<Drift> {
    let next = posts::after(db, after, EACH).await?;
    let last = match next.last() {
        Some(last) if next.len() as u64 == EACH => *last,
        _ => 0, // the next sample begins anew
    };
    let mut posts = posts::changed_lately(db, EACH).await?;
    posts.extend(next);
    let differences = match posts.is_empty() {
        true => Vec::new(),
        false => posts::differences(db, &posts).await?,
    };
    Ok(Drift {
        posts: differences.len() as u64,
        wrong: differences
            .into_iter()
            .filter(|(_, difference)| *difference != 0)
            .collect(),
        last,
    })
}
