//! Concurrent buyers.

use serde_json::json;
use tokio::task::JoinSet;

use crate::shop::{Shop, call};

on_every_way! {
    sixteen_buyers_at_once_are_sold_what_there_is_and_no_more
    an_order_is_paid_once_by_many_at_once
}

/// Each buyer orders two products, in either order. Without one locking order the payments would deadlock.
async fn sixteen_buyers_at_once_are_sold_what_there_is_and_no_more(shop: Shop) {
    let (lamp, chair) = (shop.product(100, 10).await, shop.product(30, 100).await);
    let mut orders = Vec::new();
    for user in 1..=16 {
        let lines = if user % 2 == 0 {
            [(lamp, 1), (chair, 1)]
        } else {
            [(chair, 1), (lamp, 1)]
        };
        orders.push(shop.order(user, &lines).await);
    }
    let answers = pay_all(&shop, &orders).await;
    let count = |status: u16| answers.iter().filter(|(answered, _)| *answered == status).count();
    assert_eq!((count(201), count(409)), (10, 6), "{answers:?}");
    let refused = answers.iter().filter(|(status, _)| *status == 409);
    assert!(refused.clone().all(|(_, code)| code == "out_of_stock"), "{answers:?}");
    let listed = shop.get("/commerce/products").await;
    assert_eq!(
        (&listed["products"][0]["stock"], &listed["products"][1]["stock"]),
        (&json!(0), &json!(90))
    );
    let emitted = shop.emitted().await;
    let depleted = emitted
        .iter()
        .filter(|kind| *kind == "loopers.stock.depleted.v1")
        .count();
    assert_eq!((emitted.len(), depleted), (11, 1), "{emitted:?}");
    shop.until_counted(lamp, [0, 10, 0]).await;
    shop.until_counted(chair, [0, 10, 0]).await;
}

async fn an_order_is_paid_once_by_many_at_once(shop: Shop) {
    let lamp = shop.product(100, 16).await;
    let order = shop.order(7, &[(lamp, 1)]).await;
    let answers = pay_all(&shop, &[order; 16]).await;
    let paid = answers.iter().filter(|(status, _)| *status == 201).count();
    let refused = answers.iter().filter(|(_, code)| code == "already_paid").count();
    assert_eq!((paid, refused), (1, 15), "{answers:?}");
    shop.until_counted(lamp, [0, 1, 0]).await;
}

/// Pays all orders concurrently. Returns the status and the code of each.
async fn pay_all(shop: &Shop, orders: &[(i64, i64)]) -> Vec<(u16, String)> {
    let mut buyers = JoinSet::new();
    for &(order, amount) in orders {
        let client = shop.client.clone();
        buyers.spawn(async move {
            let path = format!("/commerce/orders/{order}/payment");
            let (status, answer) = call(&client, "POST", &path, json!({ "amount": amount })).await;
            (status, answer["code"].as_str().unwrap_or_default().to_owned())
        });
    }
    buyers.join_all().await
}
