//! The tables, up and down, with rows in them.

use postroom::{inspect, migration};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh, half_way};
use sea_orm::sea_query::{Asterisk, Order, Query};
use sea_orm::{ConnectionTrait, DbBackend};
use serde_json::{Value, json};
use umbra::billing::card::{CardApi, Charge};

use crate::site::Site;

on_each_database! {
    migrated: tables_go_up_and_down_sqlite, tables_go_up_and_down_postgres, tables_go_up_and_down_mariadb;
    upgraded: u_03_a_charge_of_an_older_version_is_asked_for_again_sqlite,
        u_03_a_charge_of_an_older_version_is_asked_for_again_postgres,
        u_03_a_charge_of_an_older_version_is_asked_for_again_mariadb;
}

#[tokio::test]
async fn a_migration_that_broke_off_is_run_again_mariadb() {
    half_way::goes_on(&fresh::mysql().await, "umbra", &umbra::module().tables).await;
}

/// A smaller plan that was announced before it was known from when on counts from the end of the period.
async fn migrated(fresh: Fresh) {
    let (db, all) = (fresh.db(), umbra::module().tables);
    let up = async || migration::up(db, "umbra", &all).await.unwrap().len();
    let down = async || migration::down(db, "umbra", &all).await.unwrap().map(|one| one.number);
    assert_eq!(up().await, all.len());
    assert_eq!(down().await, Some(10));
    assert_eq!(down().await, Some(9));
    let old = "insert into umbra_subscription (subscription_id, guild_id, user_id, billing_key_id, plan_code, next_plan_code, \
               status, cancel_at_period_end, period_end_ms, failures) \
               values ('s', 'g', 'u', 'b', 'business', 'pro', 'active', false, 1776000000000, 0)";
    db.execute_unprepared(old).await.unwrap();
    let old =
        "insert into umbra_attempt (attempt_id, subscription_id, status) values ('a', 's', 'paid'), ('b', 's', 'open')";
    db.execute_unprepared(old).await.unwrap();
    assert_eq!(up().await, 2);
    let mut select = Query::select();
    select.column(Asterisk).from("umbra_subscription");
    let row = db.query_one(&select).await.unwrap().unwrap();
    assert_eq!(row.try_get::<i64>("", "next_plan_from_ms").unwrap(), 1_776_000_000_000);
    let mut select = Query::select();
    select
        .column("is_unsure")
        .from("umbra_attempt")
        .order_by("attempt_id", Order::Asc);
    let rows = db.query_all(&select).await.unwrap();
    let unsure = rows
        .iter()
        .map(|row| row.try_get::<Option<bool>>("", "is_unsure").unwrap());
    assert!(unsure.eq([None, Some(true)]), "what was open may have been asked for");
    while down().await.is_some() {}
    assert_eq!(up().await, all.len());
}

/// An older version asked for a charge and wrote nothing down; then the bot was thrown out, and this version came. The charge is
/// found out, and goes back. One whose time had not come was not asked for, and is not.
async fn upgraded(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    for guild_id in ["g1", "g2"] {
        site.guild(guild_id, &ada).await;
    }
    site.subscription("g1", &ada).await;
    site.quiet().await;
    pause(&site, true).await;
    site.let_time_pass().await;
    until("the renewal is due", || async { requested(&site).await == 2 }).await;
    let later = site.subscription("g2", &ada).await;
    ask(&site).await;
    site.post("/guilds/g1/kick", Value::Null).await;
    let at_once = json!({ "cancel_at_period_end": false });
    site.post(&format!("/subscriptions/{later}/cancel"), at_once).await;
    site.until("/guilds/g1/subscription", |one| one["status"] == "suspended")
        .await;
    upgrade(&site).await;
    site.let_time_pass().await;
    pause(&site, false).await;
    site.until_attempts("refunded", 1).await;
    site.until_attempts("dropped", 1).await;
    site.quiet().await;
    assert_eq!(site.cards.charges().len(), 3, "two first periods, and what went back");
    site.check_money().await;
    site.stage.close().await;
}

/// Does what the migration does to the rows it finds, as if it came only now.
async fn upgrade(site: &Site) {
    let migration = match site.fresh.db().get_database_backend() {
        DbBackend::Postgres => "postroom.migration",
        _ => "postroom_migration",
    };
    for statement in [
        "update umbra_attempt set is_unsure = true where status = 'open'",
        &format!("delete from {migration} where owner = 'umbra' and number = 10"),
        &format!("insert into {migration} (owner, number, name) values ('umbra', 10, 'unsure')"),
    ] {
        site.fresh.db().execute_unprepared(statement).await.unwrap();
    }
}

/// Asks for the charge that is due, and tells nobody.
async fn ask(site: &Site) {
    let attempts = site.attempts().await;
    // The oldest: the other one's time has not come.
    let open = attempts.iter().find(|one| one.status == "open").unwrap();
    let charge = Charge {
        attempt_id: open.attempt_id.clone(),
        card_token: "visa".to_owned(),
        amount: 9_900,
    };
    site.cards.charge(&charge).await;
}

async fn pause(site: &Site, is_paused: bool) {
    inspect::set_paused(&*site.fresh, "umbra-charges", is_paused, "test")
        .await
        .unwrap();
}

/// How many charges have come due so far.
async fn requested(site: &Site) -> usize {
    let events = site.events().await;
    events.iter().filter(|event| *event == "ChargeRequested").count()
}
