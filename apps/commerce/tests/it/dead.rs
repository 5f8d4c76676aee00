//! Events that the shop cannot handle: dead letters after three retries. They block no other event, and a retry after the
//! repair counts them once.

use std::time::Duration;

use postroom::dead::{self, DeadLetter, LetterState, Selection};
use postroom::{Event, append, parse_payload, table};
use postroom_testkit::wait::until_some;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use crate::shop::Shop;

on_every_way! {
    c_05_a_payment_for_an_order_the_shop_lacks_is_given_up_and_counted_once_when_it_is_mended
    c_05_an_event_that_cannot_be_read_is_given_up_at_once
}

/// Writes an event of the shop directly into its outbox, as another process would. `POST /api/v1/events` rejects it.
pub(crate) async fn foreign(shop: &Shop, kind: &str, subject: &str, payload: Value) {
    let payload = parse_payload(&payload.to_string()).unwrap();
    let mut event = Event::new(format!("loopers.{kind}.v1"), "order", subject, payload).unwrap();
    event.source = "/bank".to_owned();
    let tx = table::begin(shop.fresh.db()).await.unwrap();
    append(&tx, &[event]).await.unwrap();
    tx.commit().await.unwrap();
}

/// Waits for the dead letter of a group.
pub(crate) async fn letter(shop: &Shop, group: &str) -> DeadLetter {
    let which = Selection {
        routes: vec![group.to_owned()],
        ..Selection::default()
    };
    until_some(&format!("{group} has a dead letter"), || async {
        let mut letters = dead::list(shop.fresh.db(), &which, None, 10).await.unwrap();
        let letter = letters.pop();
        assert!(letters.is_empty(), "{letters:?}");
        letter
    })
    .await
}

async fn c_05_a_payment_for_an_order_the_shop_lacks_is_given_up_and_counted_once_when_it_is_mended(shop: Shop) {
    let lamp = shop.product(100, 50).await;
    foreign(
        &shop,
        "order.paid",
        "4711",
        json!({ "orderId": 4711, "paymentId": 1, "amount": 200 }),
    )
    .await;
    assert_eq!(shop.buy(7, &[(lamp, 5)]).await.0, 201);
    shop.until_counted(lamp, [0, 5, 0]).await; // the failed event blocks no other event

    let letter = letter(&shop, "commerce-sales").await;
    assert_eq!(
        (letter.attempts, letter.state),
        (4, LetterState::Dead),
        "one attempt and three retries"
    );
    assert!(
        letter
            .error
            .contains("order 4711 was paid but does not exist in the shop"),
        "{}",
        letter.error
    );
    let waited = letter.dead_at - letter.failed_at.unwrap();
    assert!(waited >= Duration::from_secs(3), "three times a second: {waited}");
    if let Some(topics) = &shop.topics {
        let copies = topics.read("order-events.DLT", 1).await;
        let body: Value = serde_json::from_slice(&copies[0].body).unwrap();
        assert_eq!((copies.len(), &body["orderId"]), (1, &json!(4711)));
    }

    let mended = format!(
        "insert into commerce_order (order_id, user_id, payment_id) values (4711, 8, 1); \
         insert into commerce_order_line (order_id, product_id, price, quantity) values (4711, {lamp}, 100, 2)"
    );
    for statement in mended.split("; ") {
        shop.fresh.db().execute_unprepared(statement).await.unwrap();
    }
    let which = Selection {
        dead_ids: vec![letter.dead_id],
        ..Selection::default()
    };
    assert_eq!(dead::retry(shop.fresh.db(), &which, "test").await.unwrap(), 1);
    shop.until_counted(lamp, [0, 7, 0]).await;
    assert!(
        dead::retry(shop.fresh.db(), &which, "test").await.is_err(),
        "the dead letter is settled"
    );
    shop.deliver_again().await;
    assert_eq!(shop.metrics(lamp).await, [0, 7, 0]);
}

async fn c_05_an_event_that_cannot_be_read_is_given_up_at_once(shop: Shop) {
    let lamp = shop.product(100, 50).await;
    foreign(&shop, "like.created", &lamp.to_string(), json!({ "userId": 7 })).await;
    shop.like(lamp, 8, true).await;
    shop.until_counted(lamp, [1, 0, 0]).await;
    let letter = letter(&shop, "commerce-likes").await;
    assert_eq!(letter.attempts, 1, "a retry would fail again");
    assert!(letter.error.contains("missing field `productId`"), "{}", letter.error);
    if let Some(topics) = &shop.topics {
        assert_eq!(topics.read("like-events.DLT", 1).await.len(), 1);
    }
}
