//! What the ledger does, and what it refuses.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use postroom_testkit::Fresh;
use serde_json::{Value, json};

use crate::books;
use crate::world::{World, on_every_store, until};

on_every_store! {
    money_moves_and_the_books_balance
    every_bad_request_has_its_code
    a_refused_request_changes_nothing
}

fn id(transaction: &Value) -> &str {
    transaction["transaction_id"].as_str().unwrap()
}

async fn money_moves_and_the_books_balance(fresh: Fresh) {
    let world = World::on(fresh);
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
        "what is spent is not taken back"
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

/// Everything that can be wrong with a request, and the code that says so.
async fn every_bad_request_has_its_code(fresh: Fresh) {
    let world = World::on(fresh);
    let ledger = &world.client;
    let (ada, bob, usd) = (
        ledger.open("ada", "KRW").await,
        ledger.open("bob", "KRW").await,
        ledger.open("bob", "USD").await,
    );
    let eve = ledger.open("eve", "KRW").await;
    let deposit = ledger.deposit(&ada, 100).await.created();
    let nobody = "00000000-0000-7000-8000-000000000000";
    let won = |amount: i64| json!({ "amount": amount, "currency": "KRW" });
    let transfer =
        |from: &str, to: &str, amount: i64| json!({ "from": from, "to": to, "amount": amount, "currency": "KRW" });
    let account =
        |owner: &str, name: &str, currency: &str| json!({ "owner": owner, "name": name, "currency": currency });
    let deposits = format!("/ledger/accounts/{ada}/deposits");
    let withdrawals = format!("/ledger/accounts/{ada}/withdrawals");
    let reversal = format!("/ledger/transactions/{}/reversal", id(&deposit));
    let taken_back = ledger.post(&reversal, &json!({})).await.created();
    let again = format!("/ledger/transactions/{}/reversal", id(&taken_back));
    ledger.deposit(&ada, i64::MAX).await.created();
    let rich = format!("/ledger/accounts/{bob}/deposits");
    for (path, body, status, code) in [
        (deposits.as_str(), won(-1), 422, "negative_amount"),
        (&deposits, won(0), 422, "zero_amount"),
        (&deposits, won(1), 422, "overflow"),
        (&rich, won(2), 422, "overflow"), // of the clearing account
        (&deposits, json!({ "amount": 1.5, "currency": "KRW" }), 422, "invalid"),
        (&deposits, json!({ "amount": "1", "currency": "KRW" }), 422, "invalid"),
        (
            &deposits,
            json!({ "amount": 9_223_372_036_854_775_808_u64, "currency": "KRW" }),
            422,
            "invalid",
        ),
        (&deposits, json!({ "amount": 1 }), 422, "invalid"),
        (
            &deposits,
            json!({ "amount": 1, "currency": "KRW", "memo": "x" }),
            422,
            "invalid",
        ),
        (
            &deposits,
            json!({ "amount": 1, "currency": "krw" }),
            422,
            "unknown_currency",
        ),
        (
            &deposits,
            json!({ "amount": 1, "currency": "USD" }),
            422,
            "currency_mismatch",
        ),
        ("/ledger/accounts/nobody/deposits", won(1), 404, "unknown_account"),
        ("/ledger/accounts/clearing-KRW/deposits", won(1), 404, "unknown_account"),
        (
            &format!("/ledger/accounts/{nobody}/withdrawals"),
            won(1),
            404,
            "unknown_account",
        ),
        (&format!("/ledger/accounts/{bob}/withdrawals"), won(1), 422, "overdraft"),
        (&withdrawals, won(-1), 422, "negative_amount"),
        ("/ledger/transfers", transfer(&ada, &ada, 1), 422, "same_account"),
        ("/ledger/transfers", transfer(&ada, nobody, 1), 404, "unknown_account"),
        ("/ledger/transfers", transfer(nobody, &ada, 1), 404, "unknown_account"),
        ("/ledger/transfers", transfer(&ada, &usd, 1), 422, "currency_mismatch"),
        ("/ledger/transfers", transfer(&bob, &eve, 1), 422, "overdraft"),
        (
            "/ledger/transfers",
            transfer(&ada, "clearing-KRW", 1),
            404,
            "unknown_account",
        ),
        (&reversal, json!({}), 409, "reversed_twice"),
        (&again, json!({}), 422, "not_reversible"),
        (
            "/ledger/transactions/no-id/reversal",
            json!({}),
            404,
            "unknown_transaction",
        ),
        (
            &format!("/ledger/transactions/{nobody}/reversal"),
            json!({}),
            404,
            "unknown_transaction",
        ),
        ("/ledger/accounts", account("Ada", "n", "KRW"), 422, "bad_text"),
        ("/ledger/accounts", account("ada", " ", "KRW"), 422, "bad_text"),
        ("/ledger/accounts", account("ada", "n", "XYZ"), 422, "unknown_currency"),
    ] {
        let answer = ledger.post(path, &body).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{path} {body}");
    }
    assert_eq!(ledger.must("POST", &deposits, Some("k"), "{").await.code(), "malformed");
    for (path, code) in [
        (format!("/ledger/accounts/{nobody}"), "unknown_account"),
        (format!("/ledger/accounts/{nobody}/entries"), "unknown_account"),
        (format!("/ledger/transactions/{nobody}"), "unknown_transaction"),
        (format!("/ledger/balances/{nobody}"), "unknown_account"),
        (format!("/ledger/accounts/{ada}/entries?after=x"), "invalid"),
        ("/ledger/events?state=LOST".to_owned(), "invalid"),
    ] {
        assert_eq!(ledger.get(&path).await.code(), code, "{path}");
    }
    books::balance(&*world.fresh).await;
    world.close().await;
}

/// A transfer whose second account refuses has not touched the first.
async fn a_refused_request_changes_nothing(fresh: Fresh) {
    let world = World::on(fresh);
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
