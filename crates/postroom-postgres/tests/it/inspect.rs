use postroom::{ErrorKind, Inspect, Outbox, Position, operate};
use postroom_postgres::append;
use sqlx::Executor;

use crate::fresh::{Fresh, event};

#[tokio::test]
async fn the_backlog_counts_what_stands_before_the_head() {
    let db = Fresh::new().await;
    assert_eq!(db.store.backlog(Position::START).await.unwrap(), 0);
    db.commit(&["1", "2", "3", "4", "5"]).await;
    db.pulse().await;
    assert_eq!(db.store.backlog(Position::START).await.unwrap(), 5);
    let page = db.store.read(Position::START, 3).await.unwrap();
    assert_eq!(db.store.backlog(page.next).await.unwrap(), 2);
    assert_eq!(db.store.backlog(db.store.head().await.unwrap()).await.unwrap(), 0);
    db.sql("delete from postroom.outbox where id < 4").await;
    assert_eq!(
        db.store.backlog(Position::START).await.unwrap(),
        2,
        "what retention has left"
    );
    let nowhere = Position { from: 77, to: 0, id: 0 };
    assert_eq!(db.store.backlog(nowhere).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn open_transactions_are_named_oldest_first() {
    let db = Fresh::new().await;
    assert!(db.store.open_transactions().await.unwrap().is_empty());
    let mut prepared = db.begin().await;
    append(&mut prepared, &[event("k", "prepared")]).await.unwrap();
    let gid = format!("gid_{}", db.name);
    prepared
        .execute(sqlx::AssertSqlSafe(format!("prepare transaction '{gid}'")))
        .await
        .unwrap();
    let mut writer = db.begin().await;
    append(&mut writer, &[event("k", "open")]).await.unwrap();
    let mut reader = db.begin().await;
    reader.execute("select 42 as the_answer").await.unwrap();

    let open = db.store.open_transactions().await.unwrap();
    assert_eq!(open.len(), 3, "{open:?}");
    assert_eq!(
        open.iter().map(|tx| tx.has_written).collect::<Vec<_>>(),
        [true, true, false]
    );
    assert_eq!(open[0].session, format!("prepared {gid}"));
    assert!(open[1].query.contains("insert into postroom.outbox"), "{open:?}");
    assert!(open[2].query.contains("the_answer"), "{open:?}");
    assert!(open[0].age_s >= open[1].age_s && open[1].age_s >= open[2].age_s && open[2].age_s >= 0.0);
    db.sql(&format!("rollback prepared '{gid}'")).await;
}

#[tokio::test]
async fn a_setting_that_can_cost_commits_gets_advice() {
    let db = Fresh::new().await;
    db.sql(&format!("alter database {} set synchronous_commit = off", db.name))
        .await;
    let store = db.second().await;
    let settings = operate::settings(&store).await;
    let advised: Vec<(&str, &str)> = settings
        .iter()
        .filter(|setting| setting.advice.is_some())
        .map(|setting| (setting.name, setting.value.as_deref().unwrap()))
        .collect();
    assert_eq!(advised, [("synchronous_commit", "off")]);
}

/// The clock of this database is a function of the test, one hour ahead.
#[tokio::test]
async fn a_clock_that_is_ahead_has_a_positive_skew() {
    let db = Fresh::new().await;
    db.sql(
        "create schema shifted; create function shifted.clock_timestamp() returns timestamptz language sql as
         $$ select pg_catalog.clock_timestamp() + interval '1 hour' $$",
    )
    .await;
    db.sql(&format!(
        "alter database {} set search_path = shifted, pg_catalog",
        db.name
    ))
    .await;
    let store = db.second().await;
    let skew = operate::clock_skew(&store).await.unwrap();
    assert!((3_590..=3_610).contains(&skew.whole_seconds()), "{skew}");
}
