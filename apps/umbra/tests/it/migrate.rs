//! Migrations up and down, on tables with rows.

use postroom::migration;
use postroom_testkit::{Fresh, fresh, half_way};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Asterisk, Query};

on_each_database! {
    migrated: tables_go_up_and_down_sqlite, tables_go_up_and_down_postgres, tables_go_up_and_down_mariadb;
}

#[tokio::test]
async fn a_migration_that_broke_off_is_run_again_mariadb() {
    half_way::goes_on(
        &fresh::mysql().await,
        "umbra",
        &umbra::module().migrations(sea_orm::DbBackend::MySql),
    )
    .await;
}

/// A downgrade that was stored before the column of its start existed starts at the end of the period.
async fn migrated(fresh: Fresh) {
    let (db, all) = (
        fresh.db(),
        umbra::module().migrations(fresh.db().get_database_backend()),
    );
    let up = async || migration::up(db, "umbra", &all).await.unwrap().len();
    let down = async || migration::down(db, "umbra", &all).await.unwrap().map(|one| one.number);
    assert_eq!(up().await, all.len());
    assert_eq!(down().await, Some(10));
    assert_eq!(down().await, Some(9));
    let old = "insert into umbra_subscription (subscription_id, guild_id, user_id, billing_key_id, plan_code, next_plan_code, \
               status, cancel_at_period_end, period_end_ms, failures) \
               values ('s', 'g', 'u', 'b', 'business', 'pro', 'active', false, 1776000000000, 0)";
    db.execute_unprepared(old).await.unwrap();
    assert_eq!(up().await, 2);
    let mut select = Query::select();
    select.column(Asterisk).from("umbra_subscription");
    let row = db.query_one(&select).await.unwrap().unwrap();
    assert_eq!(row.try_get::<i64>("", "next_plan_from_ms").unwrap(), 1_776_000_000_000);
    while down().await.is_some() {}
    assert_eq!(up().await, all.len());
}
