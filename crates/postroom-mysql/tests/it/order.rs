//! Nothing is skipped, keys keep their order, nobody waits, positions last.

use postroom::{Event, Outbox, PAGE_BYTES, Position, parse_payload};
use postroom_mysql::Mysql;

use crate::fresh::{Fresh, append, event, eventually, keys, keys_after, settle};

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_is_not_skipped() {
    let fresh = Fresh::migrated().await;
    let mut slow = fresh.begin().await;
    append(&mut slow, "slow").await; // draws the lower id
    fresh.commit("quick").await;
    let (first, position) = keys_after(&fresh.store, Position::START).await;
    assert_eq!(first, ["quick"]);
    slow.commit().await.unwrap();
    assert_eq!(keys_after(&fresh.store, position).await.0, ["slow"]);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_keeps_its_order_when_its_first_transaction_began_last() {
    let fresh = Fresh::migrated().await;
    fresh
        .run("create table agg (id int primary key, ver int not null); insert into agg values (1, 0), (2, 0)")
        .await;
    // The later writer draws its transaction id first, by writing elsewhere.
    let mut later = fresh.begin().await;
    sqlx::query("update agg set ver = 1 where id = 2")
        .execute(&mut *later)
        .await
        .unwrap();
    let mut earlier = fresh.begin().await;
    sqlx::query("update agg set ver = 1 where id = 1")
        .execute(&mut *earlier)
        .await
        .unwrap();
    postroom_mysql::append(
        &mut earlier,
        &[
            event("k"),
            Event {
                source: "earlier".into(),
                ..event("k")
            },
        ],
    )
    .await
    .unwrap();
    earlier.commit().await.unwrap();
    sqlx::query("update agg set ver = 2 where id = 1")
        .execute(&mut *later)
        .await
        .unwrap();
    postroom_mysql::append(
        &mut later,
        &[Event {
            source: "later".into(),
            ..event("k")
        }],
    )
    .await
    .unwrap();
    later.commit().await.unwrap();
    settle(&fresh.store).await;
    let page = fresh.store.read(Position::START, 10).await.unwrap();
    let sources: Vec<&str> = page.entries.iter().map(|entry| entry.event.source.as_str()).collect();
    assert_eq!(sources, ["", "earlier", "later"]);
    fresh.gone().await;
}

/// A step that searched the small table for what it deletes would wait here for the open writer's row.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_delays_nobody() {
    let fresh = Fresh::migrated().await;
    let mut first = fresh.begin().await;
    append(&mut first, "first").await;
    for n in 0..30 {
        fresh.commit(&n.to_string()).await;
        if n == 10 {
            append(&mut first, "middle").await;
        }
        // A step that waited for a lock would fail after a second.
        assert_eq!(settle(&fresh.store).await, n + 1, "each is readable at once");
    }
    first.commit().await.unwrap();
    let read = keys(&fresh.store).await;
    assert_eq!(read.len(), 32);
    assert_eq!(&read[30..], ["first", "middle"]);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_goes_on_from_the_middle_of_a_page() {
    let fresh = Fresh::migrated().await;
    let events: Vec<Event> = (0..10).map(|n| event(&n.to_string())).collect();
    let mut tx = fresh.begin().await;
    postroom_mysql::append(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    settle(&fresh.store).await;
    let page = fresh.store.read(Position::START, 7).await.unwrap();
    assert_eq!(page.entries.len(), 7);
    for taken in 0..7_usize {
        let position = page.after(page.entries[taken].id).to_string().parse().unwrap();
        let rest = keys_after(&fresh.store, position).await.0;
        assert_eq!(rest, (taken + 1..10).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    let end = fresh.store.head().await.unwrap();
    let page = fresh.store.read(end, 7).await.unwrap();
    assert!(page.entries.is_empty() && page.next == end, "the head is the head");
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_store_goes_on_where_the_old_one_was() {
    let fresh = Fresh::migrated().await;
    fresh.commit("1").await;
    let (before, position) = keys_after(&fresh.store, Position::START).await;
    assert_eq!(before, ["1"]);
    fresh.commit("2").await;
    let fresh = fresh.restarted().await;
    eventually("the old one's session is gone", async || {
        keys_after(&fresh.store, position).await.0 == ["2"]
    })
    .await;
    assert_eq!(keys(&fresh.store).await, ["1", "2"]);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_bounded_in_bytes() {
    let fresh = Fresh::migrated().await;
    let large = parse_payload(&format!("\"{}\"", "x".repeat(900_000))).unwrap();
    for n in 0..30 {
        let event = Event::new("a.b", "a", n.to_string(), large.clone()).unwrap();
        let mut conn = fresh.pool.acquire().await.unwrap();
        postroom_mysql::append(&mut conn, &[event]).await.unwrap();
    }
    settle(&fresh.store).await;
    let mut position = Position::START;
    let mut read = 0;
    loop {
        let page = fresh.store.read(position, 1_000).await.unwrap();
        if page.next == position {
            break;
        }
        let bytes: usize = page.entries.iter().map(|entry| entry.event.payload.get().len()).sum();
        assert!(bytes < PAGE_BYTES + 1_000_000, "{bytes} bytes in a page");
        read += page.entries.len();
        position = page.next;
    }
    assert_eq!(read, 30);
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_behind_the_end_of_a_restored_log_goes_back_to_its_end() {
    let fresh = Fresh::migrated().await;
    fresh.commit("1").await;
    settle(&fresh.store).await;
    let stale = Position {
        id: 500,
        ..Position::START
    };
    let page = fresh.store.read(stale, 10).await.unwrap();
    assert!(page.entries.is_empty());
    assert_eq!(
        page.next,
        Position {
            id: 1,
            ..Position::START
        }
    );
    fresh.commit("2").await;
    assert_eq!(keys_after(&fresh.store, page.next).await.0, ["2"]);
    fresh.gone().await;
}

/// A standby that knew less takes over: its new events have numbers that were read before, under other events.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_ends_earlier_now_is_read_from_there() {
    let fresh = Fresh::migrated().await;
    let reader = fresh.second().await; // never the sequencer
    for n in 0..5 {
        fresh.commit(&n.to_string()).await;
    }
    let knows = async |sequencer: &Mysql, end: i64| {
        settle(sequencer).await;
        settle(&reader).await == end
    };
    eventually("it knows of all", async || knows(&fresh.store, 5).await).await;
    fresh.run("delete from postroom_outbox where id > 3").await;
    fresh
        .run("update postroom_sequencer set next_seq = 3, durable_seq = 3, epoch = epoch + 1, owner = '', expires_at = '1970-01-01'")
        .await;
    let standby = fresh.second().await;
    fresh.commit("new").await;
    eventually("it knows the new end", async || knows(&standby, 4).await).await;
    let third = Position {
        id: 3,
        ..Position::START
    };
    assert_eq!(keys_after(&reader, third).await.0, ["new"]);
    fresh.gone().await;
}
