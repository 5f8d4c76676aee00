//! Accepted and rejected requests.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use ledger::domain::AMOUNT_MAX;
use postroom_testkit::wait::until;
use serde_json::{Value, json};

use crate::books;
use crate::world::{Place, World, on_every_way};

on_every_way! {
    money_moves_and_the_books_balance
    every_bad_request_has_its_code
    a_refused_request_changes_nothing
}

fn id(transaction: &Value) -> &str {
    transaction["transaction_id"].as_str().unwrap()
}

async fn money_moves_and_the_books_balance(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let (ada, bob) = (ledger.open("ada", "KRW").await, ledger.open("bob", "KRW").await);
    let deposit = ledger.deposit(&ada, 1_000).await.created();
    assert_eq!(deposit["kind"], "deposit");
    assert_eq!(deposit["entries"][0]["account_id"], "clearing-KRW");
    assert_eq!(deposit["entries"][0]["amount"], -1_000);
    assert_eq!(deposit["entries"][1]["balance_after"], 1_000);
    let transfer = ledger.transfer(&ada, &bob, 300).await.created();
    let wanted = json!({ "amount": 100, "currency": "KRW" });
    ledger
        .post(&format!("/ledger/accounts/{bob}/withdrawals"), &wanted)
        .await
        .created();
    let path = format!("/ledger/transactions/{}/reversal", id(&deposit));
    assert_eq!(
        ledger.post(&path, &json!({})).await.code(),
        "overdraft",
        "a reversal cannot overdraw the account"
    );
    let small = ledger.deposit(&ada, 50).await.created();
    let path = format!("/ledger/transactions/{}/reversal", id(&small));
    let reversal = ledger.post(&path, &json!({})).await.created();
    assert_eq!(
        (&reversal["kind"], &reversal["reverses"]),
        (&json!("reversal"), &small["transaction_id"])
    );

    let shown = ledger.look(&format!("/ledger/accounts/{ada}")).await;
    assert_eq!(
        (&shown["balance"], &shown["version"], &shown["owner"]),
        (&json!(700), &json!(4), &json!("ada"))
    );
    let small = ledger.look(&format!("/ledger/transactions/{}", id(&small))).await;
    assert_eq!(small["reversed_by"], reversal["transaction_id"]);
    assert_eq!(small["entries"].as_array().unwrap().len(), 2);
    let listed = ledger
        .look(&format!("/ledger/accounts/{ada}/entries?after=1&limit=2"))
        .await;
    let numbers: Vec<i64> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["sequence_number"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(listed[0]["transaction_id"], transfer["transaction_id"]);
    assert_eq!(ledger.look("/ledger/accounts/clearing-KRW").await["balance"], -900);

    books::settle(&world.fresh).await;
    let balance = ledger.look(&format!("/ledger/balances/{ada}")).await;
    assert_eq!(
        (&balance["balance"], &balance["sequence_number"]),
        (&json!(700), &json!(4))
    );
    let portfolio = ledger.look("/ledger/portfolios/bob").await;
    assert_eq!(
        (&portfolio["totals"], &portfolio["accounts"][0]["transactions"]),
        (&json!({ "KRW": 200 }), &json!(2))
    );
    let audit = ledger.look(&format!("/ledger/accounts/{ada}/audit")).await;
    let types: Vec<&str> = audit
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["event_type"].as_str().unwrap())
        .collect();
    assert_eq!(types[3], "ledger.transaction.reversed.v1", "{types:?}");
    world.close().await;
}

/// A rejected request: path, body, and the expected status and code.
type Bad = (String, Value, u16, &'static str);

/// Every kind of invalid request has its own code.
async fn every_bad_request_has_its_code(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let [ada, bob, eve] = [
        &ledger.open("ada", "KRW").await,
        &ledger.open("bob", "KRW").await,
        &ledger.open("eve", "KRW").await,
    ];
    let usd = &ledger.open("bob", "USD").await;
    let deposit = ledger.deposit(ada, 100).await.created();
    let reversal = format!("/ledger/transactions/{}/reversal", id(&deposit));
    let taken_back = ledger.post(&reversal, &json!({})).await.created();
    ledger.deposit(ada, AMOUNT_MAX).await.created();
    let mut bad = bad_amounts(ada);
    bad.extend(bad_accounts(ada, bob));
    bad.extend(bad_transfers([ada, bob, eve, usd]));
    bad.extend(bad_reversals(id(&deposit), id(&taken_back)));
    for (path, body, status, code) in bad {
        let answer = ledger.post(&path, &body).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{path} {body}");
    }
    let deposits = format!("/ledger/accounts/{ada}/deposits");
    assert_eq!(ledger.must("POST", &deposits, Some("k"), "{").await.code(), "malformed");
    let list = ledger
        .must("POST", "/ledger/accounts", Some("l"), r#"["ada","n","KRW"]"#)
        .await;
    assert_eq!((list.status, list.code()), (422, "invalid"), "{list:?}");
    for (path, code) in [
        (format!("/ledger/accounts/{NOBODY}"), "unknown_account"),
        (format!("/ledger/accounts/{NOBODY}/entries"), "unknown_account"),
        (format!("/ledger/transactions/{NOBODY}"), "unknown_transaction"),
        (format!("/ledger/balances/{NOBODY}"), "unknown_account"),
        ("/ledger/accounts/%00".to_owned(), "unknown_account"),
        ("/ledger/transactions/%00".to_owned(), "unknown_transaction"),
        ("/ledger/portfolios/%00".to_owned(), "bad_text"),
        ("/ledger/portfolios/Ada".to_owned(), "bad_text"),
        (format!("/ledger/accounts/{ada}/entries?after=x"), "invalid"),
        ("/ledger/events?state=LOST".to_owned(), "invalid"),
        ("/ledger/accounts/%FF".to_owned(), "malformed"),
        ("/ledger/transactions/%C3".to_owned(), "malformed"),
        (format!("/ledger/accounts/{ada}/entries?limit=200"), "invalid"),
        (format!("/ledger/accounts/{ada}/audit?limit=0"), "invalid"),
        ("/ledger/portfolios/ada?limit=101".to_owned(), "invalid"),
        ("/ledger/events?limit=200".to_owned(), "invalid"),
    ] {
        assert_eq!(ledger.get(&path).await.code(), code, "{path}");
    }
    books::balance(&*world.fresh).await;
    world.close().await;
}

const NOBODY: &str = "00000000-0000-7000-8000-000000000000";

fn won(amount: i64) -> Value {
    json!({ "amount": amount, "currency": "KRW" })
}

fn bad_amounts(full: &str) -> Vec<Bad> {
    let deposit = |body: Value, code| (format!("/ledger/accounts/{full}/deposits"), body, 422, code);
    vec![
        deposit(won(-1), "negative_amount"),
        deposit(won(0), "zero_amount"),
        deposit(won(AMOUNT_MAX + 1), "amount_too_large"),
        deposit(won(i64::MAX), "amount_too_large"),
        deposit(json!({ "amount": 1.5, "currency": "KRW" }), "invalid"),
        deposit(json!({ "amount": "1", "currency": "KRW" }), "invalid"),
        deposit(
            json!({ "amount": 9_223_372_036_854_775_808_u64, "currency": "KRW" }),
            "invalid",
        ),
        deposit(json!({ "amount": 1 }), "invalid"),
        deposit(json!({ "amount": 1, "currency": "KRW", "memo": "x" }), "invalid"),
        deposit(json!({ "amount": 1, "currency": "krw" }), "unknown_currency"),
        deposit(json!({ "amount": 1, "currency": "USD" }), "currency_mismatch"),
    ]
}

fn bad_accounts(full: &str, empty: &str) -> Vec<Bad> {
    let open = |owner: &str, name: &str, currency: &str, code| {
        let body = json!({ "owner": owner, "name": name, "currency": currency });
        ("/ledger/accounts".to_owned(), body, 422, code)
    };
    let to = |account: &str, what: &str, amount, status, code| {
        (format!("/ledger/accounts/{account}/{what}"), won(amount), status, code)
    };
    vec![
        open("Ada", "n", "KRW", "bad_text"),
        open("ada", " ", "KRW", "bad_text"),
        open(&"a".repeat(2_000), "n", "KRW", "bad_text"),
        open("ada", "n", "XYZ", "unknown_currency"),
        to("nobody", "deposits", 1, 404, "unknown_account"),
        to("clearing-KRW", "deposits", 1, 404, "unknown_account"),
        to(NOBODY, "withdrawals", 1, 404, "unknown_account"),
        to(empty, "withdrawals", 1, 422, "overdraft"),
        to(full, "withdrawals", AMOUNT_MAX + 1, 422, "amount_too_large"),
        to(full, "withdrawals", -1, 422, "negative_amount"),
    ]
}

fn bad_transfers([full, empty, other, usd]: [&String; 4]) -> Vec<Bad> {
    let transfer = |from: &str, to: &str, status, code| {
        let body = json!({ "from": from, "to": to, "amount": 1, "currency": "KRW" });
        ("/ledger/transfers".to_owned(), body, status, code)
    };
    vec![
        transfer(full, full, 422, "same_account"),
        transfer(full, NOBODY, 404, "unknown_account"),
        transfer(NOBODY, full, 404, "unknown_account"),
        transfer(full, "clearing-KRW", 404, "unknown_account"),
        transfer(full, usd, 422, "currency_mismatch"),
        transfer(empty, other, 422, "overdraft"),
    ]
}

fn bad_reversals(reversed: &str, reversal: &str) -> Vec<Bad> {
    let reverse = |id: &str, status, code| (format!("/ledger/transactions/{id}/reversal"), json!({}), status, code);
    vec![
        reverse(reversed, 409, "reversed_twice"),
        reverse(reversal, 422, "not_reversible"),
        reverse("no-id", 404, "unknown_transaction"),
        reverse(NOBODY, 404, "unknown_transaction"),
    ]
}

/// A transfer that the second account rejects does not change the first account.
async fn a_refused_request_changes_nothing(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let (ada, bob, usd) = (
        ledger.open("ada", "KRW").await,
        ledger.open("bob", "KRW").await,
        ledger.open("bob", "USD").await,
    );
    ledger.deposit(&ada, 100).await.created();
    let before = ledger.look(&format!("/ledger/accounts/{ada}")).await;
    assert_eq!(ledger.transfer(&ada, &usd, 1).await.code(), "currency_mismatch");
    assert_eq!(ledger.transfer(&usd, &ada, 1).await.code(), "currency_mismatch");
    assert_eq!(ledger.transfer(&bob, &ada, 1).await.code(), "overdraft");
    assert_eq!(ledger.look(&format!("/ledger/accounts/{ada}")).await, before);
    books::settle(&world.fresh).await;
    until("one event", || async {
        ledger.look("/ledger/events").await.as_array().unwrap().len() == 1
    })
    .await;
    world.close().await;
}
