//! The store's tables: they come, go and come again, whoever asks first.

#![expect(clippy::unwrap_used, reason = "a clause asserts by panicking")]

use postroom::migration;

use super::actor::{Reader, commit, fill};
use crate::Fresh;

/// Down to nothing with entries in the log, up again by two processes at once, and everything works as on the first day.
pub async fn migrations_can_be_taken_back_and_applied_again(fresh: Fresh) {
    fill(&fresh, 3).await;
    let all = fresh.migrations();
    let again = migration::up(fresh.db(), "postroom", all).await.unwrap();
    assert!(again.is_empty(), "applied once is enough, but {again:?}");
    for expected in all.iter().rev() {
        let down = migration::down(fresh.db(), "postroom", all).await.unwrap();
        assert_eq!(
            down.map(|migration| migration.number),
            Some(expected.number),
            "the newest goes first"
        );
    }
    assert!(
        migration::down(fresh.db(), "postroom", all).await.unwrap().is_none(),
        "nothing is left"
    );
    assert_eq!(
        migration::pending(fresh.db(), "postroom", all).await.unwrap().len(),
        all.len()
    );

    let second = fresh.second().await;
    let (mine, others) = tokio::join!(
        migration::up(fresh.db(), "postroom", all),
        migration::up(second.db(), "postroom", all)
    );
    assert_eq!(
        mine.unwrap().len() + others.unwrap().len(),
        all.len(),
        "each was applied by one of the two"
    );
    drop(second);
    let fresh = fresh.restarted().await;
    commit(fresh.db(), "thing", &["after"]).await;
    let mut reader = Reader::new(&fresh);
    reader.expect(&["after"]).await;
    reader.expect_nothing_else().await;
}
