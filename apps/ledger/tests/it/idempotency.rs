//! One effect for each idempotency key.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use futures::future::join_all;
use serde_json::json;

use crate::books;
use crate::world::{Place, World, on_every_way};

on_every_way! {
    a_write_without_a_key_is_refused
    the_same_request_again_has_the_same_answer
    a_key_belongs_to_one_request
    of_many_at_once_one_has_the_effect
}

async fn a_write_without_a_key_is_refused(place: Place) {
    let world = World::on(place).await;
    let ada = world.client.open("ada", "KRW").await;
    let amount = json!({ "amount": 1, "currency": "KRW" }).to_string();
    for path in [
        "/ledger/accounts".to_owned(),
        format!("/ledger/accounts/{ada}/deposits"),
        format!("/ledger/accounts/{ada}/withdrawals"),
        "/ledger/transfers".to_owned(),
        "/ledger/transactions/x/reversal".to_owned(),
    ] {
        let answer = world.client.must("POST", &path, None, &amount).await;
        assert_eq!(
            (answer.status, answer.code()),
            (400, "missing_idempotency_key"),
            "{path}"
        );
        let long = "k".repeat(201);
        let answer = world.client.must("POST", &path, Some(&long), &amount).await;
        assert_eq!(answer.code(), "bad_idempotency_key", "{path}");
    }
    world.close().await;
}

async fn the_same_request_again_has_the_same_answer(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let (ada, bob) = (ledger.open("ada", "KRW").await, ledger.open("bob", "KRW").await);
    let path = format!("/ledger/accounts/{ada}/deposits");
    let first = ledger
        .post_as("k-1", &path, &json!({ "amount": 5, "currency": "KRW" }))
        .await;
    assert_eq!(first.status, 201);
    let spaced = r#"{ "currency": "KRW",   "amount": 5 }"#;
    assert_eq!(
        ledger.must("POST", &path, Some("k-1"), spaced).await,
        first,
        "the same request with other whitespace and key order"
    );
    let overdraft = json!({ "from": bob, "to": ada, "amount": 1, "currency": "KRW" });
    let refused = ledger.post_as("k-2", "/ledger/transfers", &overdraft).await;
    assert_eq!(refused.code(), "overdraft");
    ledger.deposit(&bob, 1).await.created();
    assert_eq!(
        ledger.post_as("k-2", "/ledger/transfers", &overdraft).await,
        refused,
        "a refusal is an answer too"
    );
    let case = ledger
        .post_as("K-1", &path, &json!({ "amount": 5, "currency": "KRW" }))
        .await;
    assert_ne!(case.created(), first.body, "another key");
    let account = json!({ "owner": "eve", "name": "n", "currency": "KRW" });
    let opened = ledger.post_as("k-3", "/ledger/accounts", &account).await;
    assert_eq!(ledger.post_as("k-3", "/ledger/accounts", &account).await, opened);

    let world = World::on(world.killed()).await;
    let after = world
        .client
        .post_as("k-1", &path, &json!({ "amount": 5, "currency": "KRW" }))
        .await;
    assert_eq!(after, first, "after a restart");
    assert_eq!(
        world.client.look(&format!("/ledger/accounts/{ada}")).await["balance"],
        10
    );
    books::settle(&world.fresh).await;
    world.close().await;
}

async fn a_key_belongs_to_one_request(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let (ada, bob) = (ledger.open("ada", "KRW").await, ledger.open("bob", "KRW").await);
    let deposits = |account: &str| format!("/ledger/accounts/{account}/deposits");
    let five = json!({ "amount": 5, "currency": "KRW" });
    ledger.post_as("k", &deposits(&ada), &five).await.created();
    for (path, body) in [
        (deposits(&ada), json!({ "amount": 6, "currency": "KRW" })),
        (deposits(&bob), five.clone()),
        (format!("/ledger/accounts/{ada}/withdrawals"), five.clone()),
        (
            "/ledger/accounts".to_owned(),
            json!({ "owner": "ada", "name": "n", "currency": "KRW" }),
        ),
    ] {
        let answer = ledger.post_as("k", &path, &body).await;
        assert_eq!(
            (answer.status, answer.code()),
            (422, "idempotency_key_reused"),
            "{path} {body}"
        );
    }
    assert_eq!(ledger.look(&format!("/ledger/accounts/{ada}")).await["version"], 1);
    world.close().await;
}

async fn of_many_at_once_one_has_the_effect(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let ada = ledger.open("ada", "KRW").await;
    let path = format!("/ledger/accounts/{ada}/deposits");
    let five = json!({ "amount": 5, "currency": "KRW" });
    for round in 1..=5 {
        let key = format!("at-once-{round}");
        let answers = join_all((0..12).map(|_| ledger.post_as(&key, &path, &five))).await;
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
        assert_eq!(answers[0].status, 201);
        let shown = ledger.look(&format!("/ledger/accounts/{ada}")).await;
        assert_eq!(
            (shown["version"].as_i64().unwrap(), shown["balance"].as_i64().unwrap()),
            (round, 5 * round)
        );
    }
    books::settle(&world.fresh).await;
    world.close().await;
}
