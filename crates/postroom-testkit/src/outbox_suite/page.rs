//! Pages and positions: they follow each other without a gap, can be cut anywhere, and outlive the program.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a clause asserts by panicking"
)]

use postroom::{Entry, Event, PAGE_BYTES, PAYLOAD_BYTES_MAX, Position};
use serde_json::value::to_raw_value;

use super::actor::{Reader, append, begin, commit, fill, label};
use crate::Fresh;

fn ids(entries: &[Entry]) -> Vec<i64> {
    entries.iter().map(|entry| entry.id).collect()
}

fn sorted_labels(entries: &[Entry]) -> Vec<String> {
    let mut labels: Vec<String> = entries.iter().map(label).collect();
    labels.sort();
    labels
}

/// From behind any entry of any page, exactly the entries after it follow.
pub async fn a_page_can_be_settled_in_the_middle(fresh: Fresh) {
    let all = fill(&fresh, 12).await;
    for limit in [1, 5, 12, 100] {
        let mut read = 0;
        let mut position = Position::START;
        while read < all.len() {
            let page = fresh.read(position, limit).await.unwrap();
            assert!(page.next != position, "{read} of 12 entries, then nothing more");
            for entry in page.entries.iter() {
                read += 1;
                let rest = Reader::at(fresh.store(), page.after(entry.id)).rest().await;
                assert_eq!(
                    ids(&rest),
                    ids(&all[read..]),
                    "behind entry {} of a page of {limit}",
                    entry.id
                );
            }
            position = page.next;
        }
    }
}

/// A position that was written down gives the same answer again, also after transactions have ended that were open
/// when it was made.
pub async fn a_position_is_stable_when_read_again(fresh: Fresh) {
    let writers = fresh.writers(2).await;
    let late = if fresh.overlapping_writers {
        Some(begin(&writers).await)
    } else {
        None
    };
    if let Some(late) = &late {
        append(late, "late", &["late"]).await;
    }
    for name in ["a", "b", "c"] {
        commit(&writers, name, &[name]).await;
    }
    Reader::new(&fresh).take(3).await;
    let page = fresh.read(Position::START, 3).await.unwrap();
    let again = fresh.read(Position::START, 3).await.unwrap();
    assert_eq!(
        (ids(&page.entries), page.next),
        (ids(&again.entries), again.next),
        "the same page twice"
    );

    let first = page.entries.first().unwrap();
    let middle: Position = page.after(first.id).to_string().parse().unwrap();
    let mut expected: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
    expected.retain(|name| *name != label(first));
    if let Some(late) = late {
        late.commit().await.unwrap();
        expected.push("late".to_owned());
    }
    commit(&writers, "d", &["d"]).await;
    let found = Reader::at(fresh.store(), middle).take(expected.len()).await;
    assert_eq!(
        sorted_labels(&found),
        expected,
        "from the old position: what it had not taken, and what came later"
    );
    let again = Reader::at(fresh.store(), middle).rest().await;
    assert_eq!(sorted_labels(&again), expected, "and once more");
}

/// A position is good for another store object, which another process would have.
pub async fn positions_survive_a_new_store_object(fresh: Fresh) {
    let all = fill(&fresh, 10).await;
    let page = fresh.read(Position::START, 4).await.unwrap();
    let taken = page.entries.len().min(3);
    let text = page.after(page.entries[taken - 1].id).to_string();
    let fresh = fresh.restarted().await;
    let mut reader = Reader::at(fresh.store(), text.parse().unwrap());
    let rest = reader.take(all.len() - taken).await;
    assert_eq!(ids(&rest), ids(&all[taken..]));
    commit(fresh.db(), "thing", &["written after the restart"]).await;
    reader.expect(&["written after the restart"]).await;
    reader.expect_nothing_else().await;
}

/// A new subscriber that starts at the head gets what comes, and nothing of what was.
pub async fn head_is_behind_everything_readable(fresh: Fresh) {
    let head = fresh.head().await.unwrap();
    let mut from_empty = Reader::at(fresh.store(), head);
    fill(&fresh, 10).await;
    let head = fresh.head().await.unwrap();
    let mut reader = Reader::at(fresh.store(), head);
    let behind = reader.rest().await;
    assert!(behind.is_empty(), "nothing is behind the head, but {:?}", ids(&behind));
    commit(fresh.db(), "thing", &["new"]).await;
    reader.expect(&["new"]).await;
    reader.expect_nothing_else().await;
    assert_eq!(
        from_empty.take(12).await.len(),
        12,
        "the head of an empty outbox is its beginning"
    );
}

/// With every page size a reader sees each entry once, and every reader sees the same order of a key.
pub async fn many_pages_follow_each_other_without_gap(fresh: Fresh) {
    let mut count = 0;
    for size in [1, 2, 50, 1, 300, 7, 1, 90, 33] {
        let labels: Vec<String> = (count..count + size).map(|number| number.to_string()).collect();
        commit(
            fresh.db(),
            "thing",
            &labels.iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .await;
        count += size;
    }
    let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    Reader::new(&fresh).take(count).await;
    for limit in [1, 7, 100, 10_000] {
        let found = Reader::new(&fresh).rest_in_pages(limit).await;
        let labels: Vec<String> = found.iter().map(label).collect();
        assert!(labels == expected, "pages of {limit}: {labels:?}");
    }
}

/// A page is bounded by bytes too, and a large event still comes through.
pub async fn a_large_payload_bounds_the_page(fresh: Fresh) {
    let text = "x".repeat(PAYLOAD_BYTES_MAX - 100);
    let large = || Event::new("suite.large.v1", "thing", "large", to_raw_value(&text).unwrap()).unwrap();
    for _ in 0..4 {
        let tx = begin(fresh.db()).await;
        postroom::append(&tx, &[large(), large(), large(), large(), large()])
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    commit(fresh.db(), "large", &["small"]).await;
    Reader::new(&fresh).take(21).await;
    let mut position = Position::START;
    let mut count = 0;
    while count < 21 {
        let page = fresh.read(position, 1_000).await.unwrap();
        let bytes: usize = page.entries.iter().map(|entry| entry.event.payload.get().len()).sum();
        assert!(
            bytes <= PAGE_BYTES + PAYLOAD_BYTES_MAX,
            "a page of {bytes} bytes in {} entries",
            page.entries.len()
        );
        assert!(page.next != position, "{count} of 21 entries, then nothing more");
        position = page.next;
        count += page.entries.len();
    }
    assert_eq!(count, 21);
}
