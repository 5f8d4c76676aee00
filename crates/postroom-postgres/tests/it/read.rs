use postroom::{ErrorKind, Event, Outbox, PAGE_BYTES, Position};
use postroom_postgres::append;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::fresh::{Fresh, drain, event, texts, url};

#[tokio::test]
async fn a_late_commit_is_not_skipped() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    let mut slow = db.begin().await;
    append(&mut slow, &[event("a", "slow")]).await.unwrap();
    db.commit(&["quick"]).await;
    assert_eq!(db.texts(&mut position).await, ["quick"]);
    for n in 0..5 {
        db.commit(&[&n.to_string()]).await;
        assert_eq!(
            db.texts(&mut position).await,
            [n.to_string()],
            "an open transaction delays nobody"
        );
    }
    slow.commit().await.unwrap();
    assert_eq!(
        db.texts(&mut position).await,
        ["slow"],
        "a lower id that committed later is still read"
    );
    assert_eq!(db.texts(&mut position).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_prepared_transaction_comes_with_its_commit() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    let mut tx = db.begin().await;
    append(&mut tx, &[event("a", "prepared")]).await.unwrap();
    tx.execute(AssertSqlSafe(format!("prepare transaction '{}'", db.name)))
        .await
        .unwrap();
    db.commit(&["quick"]).await;
    assert_eq!(db.texts(&mut position).await, ["quick"]);
    db.sql(&format!("commit prepared '{}'", db.name)).await;
    assert_eq!(db.texts(&mut position).await, ["prepared"]);
}

#[tokio::test]
async fn a_key_keeps_its_order_when_the_older_transaction_touches_it_last() {
    let db = Fresh::new().await;
    db.sql("create table thing (id text primary key, version int); insert into thing values ('k', 0)")
        .await;
    db.sql("create table noise (n int)").await;
    let lock = "update thing set version = version + 1 where id = 'k'";
    let mut early = db.begin().await;
    early.execute("insert into noise values (1)").await.unwrap(); // draws the lower xid
    let mut late = db.begin().await;
    late.execute(lock).await.unwrap();
    append(&mut late, &[event("k", "first")]).await.unwrap();
    late.commit().await.unwrap();
    early.execute(lock).await.unwrap();
    append(&mut early, &[event("k", "second")]).await.unwrap();
    early.commit().await.unwrap();
    assert_eq!(db.texts(&mut Position::START.clone()).await, ["first", "second"]);
}

#[tokio::test]
async fn pages_of_a_window_go_on_from_any_entry() {
    let db = Fresh::new().await;
    let mut late = db.begin().await;
    append(&mut late, &[event("a", "late 1"), event("a", "late 2")])
        .await
        .unwrap();
    db.commit(&["0", "1", "2", "3"]).await;
    db.pulse().await;
    let first = db.store.head().await.unwrap();
    append(&mut late, &[event("a", "late 3")]).await.unwrap();
    db.commit(&["4", "5", "6"]).await;
    late.commit().await.unwrap();
    db.pulse().await;

    let expected = ["late 1", "late 2", "late 3", "4", "5", "6"];
    let page = db.store.read(first, 4).await.unwrap();
    assert_eq!(texts(&page.entries), expected[..4]);
    assert_eq!(texts(&drain(&db.store, &mut page.next.clone(), 4).await), expected[4..]);
    for (place, entry) in page.entries.iter().enumerate() {
        let written_down = page.after(entry.id).to_string();
        // Ticks that came meanwhile do not move the window's end; another page size does not either.
        db.commit(&["more"]).await;
        db.pulse().await;
        let mut position: Position = written_down.parse().unwrap();
        let rest = texts(&drain(&db.second().await, &mut position, 2 + place).await);
        assert_eq!(
            rest[..expected.len() - place - 1],
            expected[place + 1..],
            "after {written_down}"
        );
        assert!(
            rest[expected.len() - place - 1..].iter().all(|text| text == "more"),
            "{rest:?}"
        );
    }
    assert_eq!(
        texts(&drain(&db.store, &mut page.window.clone(), 100).await)[..6],
        expected,
        "nothing settled yet"
    );
}

#[tokio::test]
async fn a_page_that_ends_with_its_window_ends_the_window() {
    let db = Fresh::new().await;
    db.commit(&["1", "2", "3"]).await;
    db.pulse().await;
    let page = db.store.read(Position::START, 3).await.unwrap();
    assert_eq!(page.entries.len(), 3);
    assert_eq!(
        page.next,
        db.store.head().await.unwrap(),
        "no second read to find nothing"
    );
    let head = db.store.read(page.next, 3).await.unwrap();
    assert_eq!((head.entries.len(), head.next), (0, page.next));
}

#[tokio::test]
async fn far_behind_many_ticks_make_one_page() {
    let db = Fresh::new().await;
    for n in 0..30 {
        db.commit(&[&n.to_string(), "x"]).await;
        db.pulse().await;
    }
    let page = db.store.read(Position::START, 20).await.unwrap();
    assert_eq!(page.entries.len(), 20);
    assert_eq!(page.next.to, 0, "whole ticks");
    assert!(page.next.from >= 10);
    assert_eq!(drain(&db.store, &mut page.next.clone(), 1).await.len(), 40);
    assert_eq!(drain(&db.store, &mut Position::START.clone(), 1_000).await.len(), 60);
}

#[tokio::test]
async fn a_new_store_goes_on_where_the_old_one_stopped() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    db.commit(&["1", "2"]).await;
    assert_eq!(db.texts(&mut position).await, ["1", "2"]);
    let written_down = position.to_string();
    db.commit(&["3"]).await;
    let second = db.second().await;
    second.pulse().await.unwrap();
    assert_eq!(
        texts(&drain(&second, &mut written_down.parse().unwrap(), 10).await),
        ["3"]
    );
}

#[tokio::test]
async fn a_position_that_never_was_is_refused() {
    let db = Fresh::new().await;
    for (from, to, id) in [(9, 0, 0), (0, 9, 1), (-1, 0, 0)] {
        let nowhere = Position { from, to, id };
        let error = db.store.read(nowhere, 10).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
        assert!(error.to_string().contains(&nowhere.to_string()), "{error}");
    }
}

#[tokio::test]
async fn large_payloads_make_short_pages() {
    let db = Fresh::new().await;
    let large = |n: usize| Event {
        payload: serde_json::value::to_raw_value(&format!("{n}{}", "x".repeat(990_000))).unwrap(),
        ..event("k", "")
    };
    let mut tx = db.begin().await;
    append(&mut tx, &(0..60).map(large).collect::<Vec<_>>()).await.unwrap();
    append(
        &mut tx,
        &(0..500).map(|n| event("k", &n.to_string())).collect::<Vec<_>>(),
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    db.pulse().await;
    let mut position = Position::START;
    let (mut count, mut pages) = (0, 0);
    loop {
        let page = db.store.read(position, 1_000).await.unwrap();
        if page.next == position {
            break;
        }
        let bytes: usize = page.entries.iter().map(|entry| entry.event.payload.get().len()).sum();
        assert!(bytes < PAGE_BYTES + 1_000_000, "{bytes}");
        count += page.entries.len();
        pages += 1;
        position = page.next;
    }
    assert_eq!(count, 560);
    assert!(pages < 40, "pages grow again when rows are small: {pages}");
}

#[tokio::test]
async fn a_page_is_read_by_primary_key_on_a_table_never_analysed() {
    let db = Fresh::new().await;
    let settings =
        "options[enable_seqscan]=off&options[enable_bitmapscan]=off&options[plan_cache_mode]=force_generic_plan";
    let pool = sqlx::PgPool::connect(&format!("{}?{settings}", url(&db.name)))
        .await
        .unwrap();
    let mut connection = pool.acquire().await.unwrap();
    let read = include_str!("../../sql/read.sql");
    let prepare = format!("prepare page (bigint, bigint, bigint, bigint, bigint, bigint) as {read}");
    connection.execute(AssertSqlSafe(prepare)).await.unwrap();
    let plan = connection
        .fetch_all("explain (costs off) execute page (0, 9, 0, 1, 0, 1000)")
        .await
        .unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(plan.contains("Index Scan using outbox_pkey on outbox"), "{plan}");
    assert!(!plan.contains("Sort"), "{plan}");
    // From version 17 on a plan names those it uses as well.
    let is_own_line = |line: &&str| line.trim_start().starts_with("InitPlan");
    assert_eq!(
        plan.lines().filter(is_own_line).count(),
        2,
        "each snapshot is read once: {plan}"
    );
    assert!(!plan.contains("SubPlan"), "and not for each row: {plan}");
}
