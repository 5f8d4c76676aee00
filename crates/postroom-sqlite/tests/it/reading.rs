use std::time::Duration;

use postroom::{Inspect, Outbox, PAGE_BYTES, Position, clock, schedule, table};

use crate::{Fixture, drain, event, names, numbered, with_payload};

#[tokio::test]
async fn pages_follow_each_other_and_the_head_stays() {
    let fixture = Fixture::new().await;
    let empty = fixture.store.read(Position::START, 10).await.unwrap();
    assert_eq!((empty.entries.len(), empty.next), (0, Position::START));
    fixture.commit(&numbered(25)).await;
    let first = fixture.store.read(Position::START, 10).await.unwrap();
    let second = fixture.store.read(first.next, 10).await.unwrap();
    let third = fixture.store.read(second.next, 10).await.unwrap();
    assert_eq!(
        [first.entries.len(), second.entries.len(), third.entries.len()],
        [10, 10, 5]
    );
    assert_eq!(fixture.store.read(third.next, 10).await.unwrap().next, third.next);
    assert_eq!(fixture.store.head().await.unwrap(), third.next);
}

#[tokio::test]
async fn a_part_of_a_page_can_be_settled_and_read_on_from_by_a_new_store() {
    let fixture = Fixture::new().await;
    fixture.commit(&numbered(10)).await;
    let page = fixture.store.read(Position::START, 6).await.unwrap();
    let written = page.after(page.entries[3].id).to_string();
    fixture.store.close().await;
    let restarted = fixture.another().await;
    let (rest, _) = drain(&restarted, written.parse().unwrap(), 4).await;
    assert_eq!(rest, ["5", "6", "7", "8", "9", "10"]);
}

/// On SQLite an open writer makes other *writers* wait, by nature; reading and what is committed are not held up.
#[tokio::test]
async fn an_open_transaction_delays_its_own_events_only() {
    let fixture = Fixture::new().await;
    fixture.commit(&[event("early")]).await;
    let other = fixture.another().await;
    let mut open = other.begin().await.unwrap();
    postroom_sqlite::append(&mut open, &[event("late")]).await.unwrap();
    let (read, at) = drain(&fixture.store, Position::START, 10).await;
    assert_eq!(read, ["early"]);
    open.commit().await.unwrap();
    fixture.commit(&[event("after")]).await;
    assert_eq!(drain(&fixture.store, at, 10).await.0, ["late", "after"]);
}

#[tokio::test]
async fn reading_never_queues_behind_a_handlers_transaction() {
    let fixture = Fixture::new().await;
    fixture.commit(&numbered(3)).await;
    let handling = table::begin(fixture.store.db()).await.unwrap();
    let all = async {
        assert_eq!(fixture.store.read(Position::START, 10).await.unwrap().entries.len(), 3);
        assert_eq!(fixture.store.pulse().await.unwrap().head, 3);
        assert_eq!(fixture.store.head().await.unwrap().id, 3);
        assert_eq!(fixture.store.backlog(Position::START).await.unwrap(), 3);
        assert!(fixture.store.open_transactions().await.unwrap().is_empty());
    };
    tokio::time::timeout(Duration::from_secs(5), all)
        .await
        .expect("none of them waits for the writer");
    handling.commit().await.unwrap();
}

#[tokio::test]
async fn a_page_of_large_payloads_is_cut_by_bytes() {
    let fixture = Fixture::new().await;
    let large = format!("\"{}\"", "x".repeat(900_000));
    let events: Vec<_> = (1..=20).map(|n| with_payload(&n.to_string(), &large)).collect();
    fixture.commit(&events).await;
    let page = fixture.store.read(Position::START, 1000).await.unwrap();
    let bytes = page.entries.len() * large.len();
    assert!(
        (PAGE_BYTES..PAGE_BYTES + large.len()).contains(&bytes),
        "{bytes} bytes in a page"
    );
    assert_eq!(drain(&fixture.store, Position::START, 1000).await.0.len(), 20);
}

#[tokio::test]
async fn a_pulse_tells_new_entries_the_signal_and_what_is_due() {
    let fixture = Fixture::new().await;
    let before = fixture.store.pulse().await.unwrap();
    assert_eq!(
        (before.head, before.due_in, before.signal, before.more),
        (0, None, 0, false)
    );

    fixture.commit(&numbered(2)).await;
    fixture
        .sql("update postroom_outbox_signal set version = version + 1")
        .await;
    let tx = table::begin(fixture.store.db()).await.unwrap();
    schedule(&tx, &event("later"), clock::now() + Duration::from_secs(3600))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let after = fixture.store.pulse().await.unwrap();
    assert_eq!((after.head, after.signal), (2, 1));
    let due_in = after.due_in.unwrap().as_secs_f64();
    assert!((3540.0..=3600.1).contains(&due_in), "due in {due_in} s");

    let tx = table::begin(fixture.store.db()).await.unwrap();
    schedule(&tx, &event("overdue"), clock::now() - Duration::from_secs(3600))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(fixture.store.pulse().await.unwrap().due_in, Some(Duration::ZERO));
}

#[tokio::test]
async fn the_backlog_counts_what_is_left_to_read() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.store.backlog(Position::START).await.unwrap(), 0);
    fixture.commit(&numbered(10)).await;
    let check = async |id, expected| {
        let after = Position { id, ..Position::START };
        assert_eq!(fixture.store.backlog(after).await.unwrap(), expected, "after {id}");
    };
    check(0, 10).await;
    check(7, 3).await;
    check(10, 0).await;
    fixture.sql("delete from postroom_outbox where id <= 4").await;
    check(0, 6).await;
    fixture.sql("delete from postroom_outbox").await;
    check(0, 0).await;
}

#[tokio::test]
async fn a_log_that_was_numbered_anew_is_read_from_the_start() {
    let fixture = Fixture::new().await;
    fixture.commit(&numbered(5)).await;
    let (_, at) = drain(&fixture.store, Position::START, 10).await;
    fixture
        .sql("delete from postroom_outbox; delete from sqlite_sequence")
        .await;
    fixture.commit(&[event("new")]).await;
    let moved = fixture.store.read(at, 10).await.unwrap();
    assert_eq!(
        (moved.entries.len(), moved.next),
        (0, Position::START),
        "an empty page that has moved on"
    );
    assert_eq!(names(&fixture.store.read(moved.next, 10).await.unwrap()), ["new"]);
}

#[tokio::test]
async fn a_log_numbered_anew_past_the_old_position_is_read_from_the_start() {
    let fixture = Fixture::new().await;
    fixture.commit(&numbered(5)).await;
    let (_, at) = drain(&fixture.store, Position::START, 10).await;
    let head = fixture.store.head().await.unwrap();
    fixture
        .sql("delete from postroom_outbox; delete from sqlite_sequence")
        .await;
    fixture.commit(&numbered(8)).await;
    for old in [at, head] {
        let (entries, _) = drain(&fixture.store, old, 10).await;
        assert_eq!(entries.len(), 8, "from {old}");
    }
    let (_, at) = drain(&fixture.store, Position::START, 10).await;
    fixture.sql("delete from postroom_outbox").await; // retention; the numbering goes on
    fixture.commit(&[event("next")]).await;
    assert_eq!(names(&fixture.store.read(at, 10).await.unwrap()), ["next"]);
}

#[tokio::test]
async fn a_hundred_thousand_undelivered_entries_are_read_page_by_page_in_flat_memory() {
    const ALONE: &str = "POSTROOM_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // Memory is the process's: a process that runs this test alone, so that no other test is measured with it.
        let name = "reading::a_hundred_thousand_undelivered_entries_are_read_page_by_page_in_flat_memory";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let status = alone.args(["--exact", name]).env(ALONE, "1").status().unwrap();
        assert!(status.success());
        return;
    }
    let fixture = Fixture::new().await;
    // 100 MB of payload, written by the database itself.
    fixture
        .sql(
            "insert into postroom_outbox (event_type, aggregate_type, aggregate_id, payload)
             with recursive n(n) as (select 1 union all select n + 1 from n where n < 100000)
             select 'a.b', 'a', n, '\"' || replace(hex(zeroblob(500)), '00', 'xy') || '\"' from n",
        )
        .await;
    let before = resident_kib();
    let (mut at, mut read, mut peak) = (Position::START, 0, before);
    loop {
        let page = fixture.store.read(at, 500).await.unwrap();
        if page.next == at {
            break;
        }
        assert_eq!(page.entries[0].id, at.id + 1, "no entry is skipped");
        (at, read) = (page.next, read + page.entries.len());
        peak = peak.max(resident_kib());
    }
    assert_eq!(read, 100_000);
    assert!(peak - before < 30_000, "grew from {before} to {peak} KiB");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
