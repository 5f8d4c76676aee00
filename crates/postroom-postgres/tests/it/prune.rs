use std::time::Duration;

use postroom::{ErrorKind, Outbox, Position, Prune};
use postroom_postgres::append;

use crate::fresh::{Fresh, drain, event, texts};

const ALL: Prune = Prune {
    keep: Duration::ZERO,
    batch: 1_000,
    archive: false,
};

async fn left(db: &Fresh) -> i64 {
    db.number("select count(*) from postroom.outbox").await
}

#[tokio::test]
async fn only_what_every_cursor_has_passed_goes() {
    let db = Fresh::new().await;
    let mut fast = Position::START;
    db.commit(&["1", "2"]).await;
    db.drain(&mut fast).await;
    let slow = fast;
    db.commit(&["3"]).await;
    db.drain(&mut fast).await;
    assert_eq!(db.store.prune(&ALL).await.unwrap(), 0, "nobody has passed anything");
    db.cursor("fast", fast).await;
    db.cursor("slow", slow).await;
    db.cursor("new", Position::START).await;
    assert_eq!(db.store.prune(&ALL).await.unwrap(), 0, "a cursor stands at the start");
    db.cursor("new", fast).await;
    assert_eq!(db.store.prune(&ALL).await.unwrap(), 2);
    assert_eq!(texts(&drain(&db.store, &mut slow.clone(), 10).await), ["3"]);
    db.cursor("slow", fast).await;
    assert_eq!(db.store.prune(&ALL).await.unwrap(), 1);
    assert_eq!(left(&db).await, 0);
}

#[tokio::test]
async fn a_cursor_inside_a_window_holds_its_window() {
    let db = Fresh::new().await;
    db.commit(&["1", "2", "3"]).await;
    db.pulse().await;
    let page = db.store.read(Position::START, 3).await.unwrap();
    db.cursor("route", page.after(page.entries[1].id)).await;
    assert_eq!(db.store.prune(&ALL).await.unwrap(), 0);
}

#[tokio::test]
async fn a_row_that_commits_late_is_not_taken_for_delivered() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    let mut slow = db.begin().await;
    append(&mut slow, &[event("a", "slow")]).await.unwrap();
    db.commit(&["quick"]).await;
    db.drain(&mut position).await;
    db.cursor("route", position).await;
    assert_eq!(
        db.store.prune(&ALL).await.unwrap(),
        1,
        "what is delivered goes, although a lower id is open"
    );
    slow.commit().await.unwrap();
    assert_eq!(
        db.store.prune(&ALL).await.unwrap(),
        0,
        "it is committed, but nobody has it yet"
    );
    assert_eq!(db.texts(&mut position).await, ["slow"]);
    db.cursor("route", position).await;
    assert_eq!(
        db.store.prune(&ALL).await.unwrap(),
        1,
        "a call that has gone further comes back for it"
    );
}

#[tokio::test]
async fn young_entries_stay_and_old_ones_go_in_batches() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    db.sql(
        "insert into postroom.outbox (event_type, aggregate_type, aggregate_id, payload, created_at)
         select 'a', 'b', 'c', to_jsonb(n::text), clock_timestamp() - interval '2 hours' from generate_series(1, 25) n",
    )
    .await;
    db.commit(&["young"]).await;
    db.drain(&mut position).await;
    db.cursor("route", position).await;
    let hour = Prune {
        keep: Duration::from_secs(3_600),
        batch: 10,
        archive: false,
    };
    let mut removed = Vec::new();
    for _ in 0..4 {
        removed.push(db.store.prune(&hour).await.unwrap());
    }
    assert_eq!(removed, [10, 10, 5, 0]);
    assert_eq!(left(&db).await, 1);
}

#[tokio::test]
async fn what_goes_is_archived_when_asked() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    db.commit(&["1", "2"]).await;
    let entries = db.drain(&mut position).await;
    db.cursor("route", position).await;
    assert_eq!(db.store.prune(&Prune { archive: true, ..ALL }).await.unwrap(), 2);
    let archived: Vec<(i64, uuid::Uuid, String)> =
        sqlx::query_as("select id, event_id, payload #>> '{}' from postroom.audit_events order by id")
            .fetch_all(&db.writers)
            .await
            .unwrap();
    let expected: Vec<_> = entries
        .iter()
        .map(|e| (e.id, e.event.id, e.event.decode::<String>().unwrap()))
        .collect();
    assert_eq!(archived, expected);
}

#[tokio::test]
async fn a_running_replay_holds_what_it_has_not_read() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    db.commit(&["1", "2", "3", "4"]).await;
    let entries = db.drain(&mut position).await;
    db.cursor("route", position).await;
    db.sql(&format!(
        "insert into postroom.outbox_replay (route, filter, per_second, next_id, until_id)
         values ('route', '{{}}', 1, {}, {})",
        entries[1].id, entries[3].id
    ))
    .await;
    assert_eq!(db.store.prune(&ALL).await.unwrap(), 2);
    db.sql("update postroom.outbox_replay set state = 'done'").await;
    assert_eq!(db.store.prune(&ALL).await.unwrap(), 2);
}

#[tokio::test]
async fn old_ticks_go_and_the_start_still_reads_everything_that_is_left() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    for n in 0..10 {
        db.commit(&[&n.to_string()]).await;
        db.drain(&mut position).await;
    }
    let old = Position { from: 3, to: 0, id: 0 };
    db.cursor("route", Position { from: 6, to: 0, id: 0 }).await;
    let older = Prune {
        keep: Duration::from_secs(60),
        ..ALL
    };
    db.store.prune(&older).await.unwrap();
    assert_eq!(
        db.number("select count(*) from postroom.outbox_tick").await,
        position.from + 1,
        "an hour is kept"
    );
    db.sql("update postroom.outbox_tick set at = at - interval '2 hours'")
        .await;
    db.store.prune(&older).await.unwrap();
    assert_eq!(
        db.number("select min(n) from postroom.outbox_tick where n > 0").await,
        6,
        "a cursor stands at 6"
    );

    let from_start = texts(&drain(&db.store, &mut Position::START.clone(), 3).await);
    assert_eq!(from_start, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    let error = db.store.read(old, 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    db.commit(&["more"]).await;
    assert_eq!(db.texts(&mut position).await, ["more"], "the chain goes on");
}

#[tokio::test]
async fn a_transaction_older_than_every_tick_is_still_read() {
    let db = Fresh::new().await;
    let mut position = Position::START;
    let mut slow = db.begin().await;
    append(&mut slow, &[event("a", "slow")]).await.unwrap();
    for n in 0..5 {
        db.commit(&[&n.to_string()]).await;
        db.drain(&mut position).await;
    }
    db.cursor("route", position).await;
    db.sql("update postroom.outbox_tick set at = at - interval '2 hours'")
        .await;
    assert_eq!(db.store.prune(&ALL).await.unwrap(), 5);
    assert_eq!(
        db.number("select count(*) from postroom.outbox_tick").await,
        2,
        "tick 0 and the newest"
    );
    slow.commit().await.unwrap();
    assert_eq!(db.texts(&mut position).await, ["slow"]);
    assert_eq!(db.texts(&mut Position::START.clone()).await, ["slow"]);
}
