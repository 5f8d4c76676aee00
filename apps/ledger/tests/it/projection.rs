//! The subscribers of the ledger: missing and repeated numbers are recorded, and the audit log is kept for five years.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::time::Duration;

use ledger::{LedgerPosted, Movement};
use postroom::replay::{self, Range, Replay};
use postroom::{Event, When, append, operate, table};
use postroom_testkit::Fresh;
use postroom_testkit::wait::until;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::books;
use crate::world::{Place, World, on_every_way};

on_every_way! {
    a_gap_and_a_repetition_are_noticed
    a_transaction_that_is_told_twice_counts_once
    audit_rows_go_after_five_years
    a_portfolio_is_summed_up_whole_and_listed_in_parts
}

/// An event that a faulty writer could produce.
fn posted(account: &str, number: i64) -> LedgerPosted {
    LedgerPosted {
        movement: Movement {
            account_id: account.to_owned(),
            owner: "ada".to_owned(),
            transaction_id: Uuid::now_v7(),
            counterpart_id: "clearing-KRW".to_owned(),
            sequence_number: number,
            currency: "KRW".to_owned(),
            amount: 1,
            balance_after: number,
            posted_at_ms: 1_700_000_000_000,
        },
        kind: "deposit".to_owned(),
    }
}

async fn emit(fresh: &Fresh, event: Event) {
    let tx = table::begin(fresh.db()).await.unwrap();
    append(&tx, &[event]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn a_gap_and_a_repetition_are_noticed(place: Place) {
    let world = World::on(place).await;
    let account = Uuid::now_v7().to_string();
    let tell = async |number| emit(&world.fresh, Event::of(&posted(&account, number)).unwrap()).await;
    let anomalies = async || -> Vec<(i64, String, bool)> {
        let seen = world.client.look("/ledger/anomalies").await;
        let one = |row: &Value| {
            let kind = row["kind"].as_str().unwrap().to_owned();
            (
                row["sequence_number"].as_i64().unwrap(),
                kind,
                !row["mended_at_ms"].is_null(),
            )
        };
        seen.as_array().unwrap().iter().map(one).collect()
    };
    let missing = |number, is_mended| (number, "missing".to_owned(), is_mended);
    tell(1).await;
    tell(4).await;
    until("2 and 3 are recorded as missing", || async {
        anomalies().await == [missing(2, false), missing(3, false)]
    })
    .await;
    tell(3).await;
    until("3 is recorded as arrived", || async {
        anomalies().await == [missing(2, false), missing(3, true)]
    })
    .await;
    tell(4).await;
    let repeated = (4, "repeated".to_owned(), false);
    let all = [missing(2, false), missing(3, true), repeated];
    until("4 is recorded as repeated", || async { anomalies().await == all }).await;
    tell(2).await;
    until("the read model has handled all events", || async {
        let status = operate::status(&*world.fresh).await.unwrap();
        let mut balances = status.routes.iter().filter(|route| route.route == "ledger-balances");
        balances.any(|route| route.delivered == 5)
    })
    .await;
    let balance = world.client.look(&format!("/ledger/balances/{account}")).await;
    assert_eq!(
        balance["sequence_number"], 4,
        "a late event does not set the balance back"
    );
    world.close().await;
}

/// A redelivery of the same event, as a broker may do it: the id is derived from the transaction, so it counts once.
async fn a_transaction_that_is_told_twice_counts_once(place: Place) {
    let world = World::on(place).await;
    let ada = world.client.open("ada", "KRW").await;
    let deposit = world.client.deposit(&ada, 7).await.created();
    books::settle(&world.fresh).await;
    for route in [
        "ledger-balances",
        "ledger-portfolios",
        "ledger-audit",
        "ledger-sequence",
    ] {
        let replay = Replay {
            route: route.to_owned(),
            range: Range::default(),
            per_second: 100,
            again: false,
        };
        // A route that a broker feeds advances its position in the log with a delay.
        let is_started = || async { replay::start(&*world.fresh, &replay, "test").await.is_ok() };
        until("the replay has started", is_started).await;
    }
    until("every subscriber has received it twice", || async {
        let status = operate::status(&*world.fresh).await.unwrap();
        let mut ours = status.routes.iter().filter(|route| route.route.starts_with("ledger-"));
        ours.all(|route| route.delivered >= 2)
    })
    .await;
    world.client.deposit(&ada, 1).await.created();
    books::settle(&world.fresh).await;
    let portfolio = world.client.look("/ledger/portfolios/ada").await;
    assert_eq!(portfolio["accounts"][0]["transactions"], 2);
    let audit = world.client.look(&format!("/ledger/accounts/{ada}/audit")).await;
    assert_eq!(audit[0]["transaction_id"], deposit["transaction_id"]);
    assert_eq!(audit.as_array().unwrap().len(), 2);
    world.close().await;
}

/// The totals are complete for any number of accounts and any balances.
async fn a_portfolio_is_summed_up_whole_and_listed_in_parts(place: Place) {
    let world = World::on(place).await;
    let id = |n: u128| Uuid::from_u128(n).to_string();
    for n in 0..120_u128 {
        let (currency, balance) = match n {
            0..100 => ("KRW", i64::MAX),
            100..110 => ("USD", i64::MIN),
            _ => ("EUR", -7),
        };
        let id = id(n);
        let sql = format!("insert into ledger_portfolio values ('ada', '{id}', '{currency}', {balance}, 1)");
        world.fresh.db().execute_unprepared(&sql).await.unwrap();
    }
    let first = world.client.look("/ledger/portfolios/ada").await;
    let totals = format!(
        r#"{{"EUR":-70,"KRW":{},"USD":{}}}"#,
        i128::from(i64::MAX) * 100,
        i128::from(i64::MIN) * 10
    );
    let totals: Value = serde_json::from_str(&totals).unwrap();
    assert_eq!(first["totals"], totals);
    assert_eq!(first["accounts"].as_array().unwrap().len(), 100);
    let path = format!("/ledger/portfolios/ada?after={}&limit=15", id(99));
    let next = world.client.look(&path).await;
    assert_eq!(next["totals"], totals);
    let listed = next["accounts"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["account_id"]), (15, &json!(id(100))));
    world.close().await;
}

async fn audit_rows_go_after_five_years(place: Place) {
    let mut module = ledger::module();
    for job in &mut module.jobs {
        job.when = When::Every(Duration::from_millis(200));
    }
    let world = World::with(place, module).await;
    let ada = world.client.open("ada", "KRW").await;
    for _ in 0..3 {
        world.client.deposit(&ada, 1).await.created();
    }
    books::settle(&world.fresh).await;
    let day_ms = 86_400_000_i64;
    let now_ms = i64::try_from(postroom::clock::now().unix_timestamp_nanos() / 1_000_000).unwrap();
    for (number, days) in [(1, 5 * 365 + 3), (2, 5 * 365)] {
        let posted_at_ms = now_ms - days * day_ms;
        let sql = format!("update ledger_audit set posted_at_ms = {posted_at_ms} where sequence_number = {number}");
        world.fresh.db().execute_unprepared(&sql).await.unwrap();
    }
    let sql = format!(
        "update ledger_request set answered_at_ms = {} where status = 201",
        now_ms - 8 * day_ms
    );
    world.fresh.db().execute_unprepared(&sql).await.unwrap();
    let numbers = async || {
        let audit = world.client.look(&format!("/ledger/accounts/{ada}/audit")).await;
        let numbers: Vec<Value> = audit
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["sequence_number"].clone())
            .collect();
        numbers
    };
    until("the oldest row is deleted", || async {
        numbers().await == [json!(2), json!(3)]
    })
    .await;
    let kept = || async {
        books::rows(&*world.fresh, "select request_id from ledger_request")
            .await
            .is_empty()
    };
    until("old keys are deleted", kept).await;
    world.close().await;
}
