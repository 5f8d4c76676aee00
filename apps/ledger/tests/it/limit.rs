//! The limits of amounts and balances: no posting, however large, stops others.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use ledger::domain::{AMOUNT_MAX, BALANCE_MAX};
use postroom_testkit::Fresh;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::books;
use crate::world::{Place, World, on_every_way};

on_every_way! {
    a_huge_deposit_is_refused_and_stops_no_other
    many_large_deposits_stop_no_other
    a_full_account_stops_itself_alone
}

async fn a_huge_deposit_is_refused_and_stops_no_other(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let (ada, bob) = (ledger.open("ada", "KRW").await, ledger.open("bob", "KRW").await);
    let refused = ledger.deposit(&ada, i64::MAX).await;
    assert_eq!((refused.status, refused.code()), (422, "amount_too_large"));
    let says = refused.body["detail"].as_str().unwrap();
    assert!(
        says.contains("amount") && says.contains(&AMOUNT_MAX.to_string()),
        "{says}"
    );
    ledger.deposit(&ada, AMOUNT_MAX).await.created();
    ledger.deposit(&bob, 2).await.created();
    books::settle(&world.fresh).await;
    world.close().await;
}

/// Posts a deposit of `amount` as earlier versions did, which had no limit; without an event.
async fn old_deposit(fresh: &Fresh, account: &str, amount: i64) -> String {
    let id = Uuid::now_v7().to_string();
    let sql = [
        format!("insert into ledger_transaction values ('{id}', 'deposit', 'KRW', null, 1)"),
        format!(
            "insert into ledger_entry (account_id, sequence_number, transaction_id, amount, balance_after) \
             select account_id, version + 1, '{id}', {amount}, balance + {amount} from ledger_account where account_id = '{account}'"
        ),
        format!(
            "insert into ledger_entry (account_id, sequence_number, transaction_id, amount, balance_after) \
             select account_id, version + 1, '{id}', -{amount}, balance - {amount} from ledger_account \
             where account_id = 'clearing-KRW'"
        ),
        format!(
            "update ledger_account set balance = balance + {amount}, version = version + 1 where account_id = '{account}'"
        ),
        format!(
            "update ledger_account set balance = balance - {amount}, version = version + 1 where account_id = 'clearing-KRW'"
        ),
    ];
    for statement in sql {
        fresh.db().execute_unprepared(&statement).await.unwrap();
    }
    id
}

/// The balance of the clearing account, exactly: a number of JSON may be read as a double.
async fn clearing(fresh: &Fresh) -> i128 {
    let sql = "select balance, balance_high from ledger_account where account_id = 'clearing-KRW'";
    let rows = books::rows(&**fresh, sql).await;
    books::whole(&rows[0], "balance")
}

/// Nine thousand of the largest deposits bring the clearing account to the end of a 64-bit number; here one old deposit does.
async fn many_large_deposits_stop_no_other(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let whale = ledger.open("whale", "KRW").await;
    let old = old_deposit(&world.fresh, &whale, i64::MAX).await;
    let (ada, bob) = (ledger.open("ada", "KRW").await, ledger.open("bob", "KRW").await);
    for _ in 0..3 {
        ledger.deposit(&ada, AMOUNT_MAX).await.created();
    }
    ledger.deposit(&bob, 2).await.created();
    let expected = -(BALANCE_MAX + 3 * i128::from(AMOUNT_MAX) + 2);
    assert_eq!(clearing(&world.fresh).await, expected);
    let number: Value = serde_json::from_str(&expected.to_string()).unwrap();
    assert_eq!(ledger.look("/ledger/accounts/clearing-KRW").await["balance"], number);
    let entries = ledger.look("/ledger/accounts/clearing-KRW/entries?after=4").await;
    assert_eq!(entries[0]["balance_after"], number);
    books::balance(&*world.fresh).await;

    // Back again, over the same border.
    let reversal = format!("/ledger/transactions/{old}/reversal");
    ledger.post(&reversal, &json!({})).await.created();
    assert_eq!(clearing(&world.fresh).await, -(3 * i128::from(AMOUNT_MAX) + 2));
    books::balance(&*world.fresh).await;
    world.close().await;
}

async fn a_full_account_stops_itself_alone(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let (full, ada) = (ledger.open("full", "KRW").await, ledger.open("ada", "KRW").await);
    old_deposit(&world.fresh, &full, i64::MAX).await;
    let refused = ledger.deposit(&full, 1).await;
    assert_eq!((refused.status, refused.code()), (422, "overflow"));
    let says = refused.body["detail"].as_str().unwrap();
    assert!(
        says.contains(&full) && says.contains(&BALANCE_MAX.to_string()),
        "{says}"
    );
    ledger.deposit(&ada, 1).await.created();
    assert_eq!(ledger.transfer(&ada, &full, 1).await.code(), "overflow");
    ledger.transfer(&full, &ada, 1).await.created();
    ledger.transfer(&ada, &full, 1).await.created();
    books::balance(&*world.fresh).await;
    world.close().await;
}
