//! What the shop does not do, and what it says then.

use reqwest::Method;
use serde_json::{Value, json};

use crate::shop::Shop;

on_every_store! {
    a_request_that_breaks_a_rule_is_a_problem_and_changes_nothing
    a_payment_that_is_refused_takes_nothing
}

async fn check(shop: &Shop, (method, path): (Method, &str), body: Value, (status, code): (u16, &str)) {
    let (answered, problem) = shop.call(method.clone(), path, body.clone()).await;
    assert_eq!(
        (answered, problem["code"].as_str()),
        (status, Some(code)),
        "{method} {path} {body}: {problem}"
    );
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
}

async fn a_request_that_breaks_a_rule_is_a_problem_and_changes_nothing(shop: Shop) {
    let product = shop.product(100, 1).await;
    let (order, _) = shop.order(7, &[(product, 1)]).await;
    let products = "/commerce/products";
    let new = |name: &str, price: i64, stock: i64| json!({ "name": name, "price": price, "stock": stock });
    let invalid = (422, "invalid");
    check(&shop, (Method::POST, products), new("", 1, 1), invalid).await;
    check(&shop, (Method::POST, products), new("lamp", -1, 1), invalid).await;
    check(&shop, (Method::POST, products), new("lamp", 1, -1), invalid).await;
    check(&shop, (Method::POST, products), json!({ "name": "lamp" }), invalid).await;
    check(
        &shop,
        (Method::POST, products),
        json!({ "name": "lamp", "price": 1, "stock": 1, "x": 1 }),
        invalid,
    )
    .await;
    check(&shop, (Method::POST, products), Value::Null, (415, "media_type")).await;
    check(&shop, (Method::GET, "/commerce/products?after=x"), Value::Null, invalid).await;
    check(&shop, (Method::GET, "/commerce/products?page=1"), Value::Null, invalid).await;

    let unknown = (404, "unknown_product");
    let user = || json!({ "userId": 7 });
    check(&shop, (Method::GET, "/commerce/products/99"), Value::Null, unknown).await;
    check(
        &shop,
        (Method::GET, "/commerce/products/lamp"),
        Value::Null,
        (404, "not_found"),
    )
    .await;
    check(
        &shop,
        (Method::GET, "/commerce/products/99/metrics"),
        Value::Null,
        unknown,
    )
    .await;
    check(
        &shop,
        (Method::PUT, "/commerce/products/99/likes/7"),
        Value::Null,
        unknown,
    )
    .await;
    check(
        &shop,
        (Method::DELETE, "/commerce/products/99/likes/7"),
        Value::Null,
        unknown,
    )
    .await;
    check(&shop, (Method::POST, "/commerce/products/99/views"), user(), unknown).await;
    let likes = format!("{products}/{product}/likes");
    check(&shop, (Method::PUT, &format!("{likes}/0")), Value::Null, invalid).await;
    check(
        &shop,
        (Method::PUT, &format!("{likes}/ada")),
        Value::Null,
        (404, "not_found"),
    )
    .await;
    let views = format!("{products}/{product}/views");
    check(&shop, (Method::POST, &views), json!({ "userId": 0 }), invalid).await;
    check(&shop, (Method::POST, &views), json!({}), invalid).await;

    let orders = (Method::POST, "/commerce/orders");
    let lines = |lines: Value| json!({ "userId": 7, "lines": lines });
    let line = |product_id: i64, quantity: i64| json!({ "productId": product_id, "quantity": quantity });
    check(&shop, orders.clone(), lines(json!([])), invalid).await;
    check(&shop, orders.clone(), lines(json!([line(product, 0)])), invalid).await;
    check(
        &shop,
        orders.clone(),
        lines(json!([line(product, 1), line(product, 1)])),
        invalid,
    )
    .await;
    check(
        &shop,
        orders.clone(),
        lines(json!([line(product, 1), line(99, 1)])),
        unknown,
    )
    .await;
    check(
        &shop,
        orders.clone(),
        json!({ "userId": -7, "lines": [line(product, 1)] }),
        invalid,
    )
    .await;
    check(&shop, orders, lines(json!("lamp")), invalid).await;
    check(
        &shop,
        (Method::GET, "/commerce/orders/99"),
        Value::Null,
        (404, "unknown_order"),
    )
    .await;
    check(
        &shop,
        (Method::GET, "/commerce/orders/x"),
        Value::Null,
        (404, "not_found"),
    )
    .await;
    check(
        &shop,
        (Method::POST, "/commerce/orders/99/payment"),
        json!({ "amount": 1 }),
        (404, "unknown_order"),
    )
    .await;
    let payment = format!("/commerce/orders/{order}/payment");
    check(&shop, (Method::POST, &payment), json!({ "amount": "much" }), invalid).await;

    assert_eq!(shop.emitted().await, Vec::<String>::new());
    let listed = shop.get(products).await;
    assert_eq!(listed["products"].as_array().unwrap().len(), 1, "{listed}");
    let (second, _) = shop.order(7, &[(product, 1)]).await;
    assert_eq!(second, order + 1, "what was refused has used up no number");
}

async fn a_payment_that_is_refused_takes_nothing(shop: Shop) {
    let (plenty, few) = (shop.product(100, 10).await, shop.product(30, 2).await);
    let (order, amount) = shop.order(7, &[(plenty, 3), (few, 3)]).await;
    let payment = format!("/commerce/orders/{order}/payment");
    let pay = |amount: i64| json!({ "amount": amount });
    check(
        &shop,
        (Method::POST, &payment),
        pay(amount - 1),
        (422, "amount_mismatch"),
    )
    .await;
    check(&shop, (Method::POST, &payment), pay(amount), (409, "out_of_stock")).await;
    let listed = shop.get("/commerce/products").await;
    assert_eq!(
        (&listed["products"][0]["stock"], &listed["products"][1]["stock"]),
        (&json!(10), &json!(2))
    );
    assert_eq!(
        shop.get(&format!("/commerce/orders/{order}")).await["paymentId"],
        Value::Null
    );
    assert_eq!(shop.emitted().await, Vec::<String>::new());

    let (order, amount) = shop.order(7, &[(plenty, 3), (few, 2)]).await;
    let payment = format!("/commerce/orders/{order}/payment");
    let paid = shop.post(&payment, pay(amount)).await;
    assert_eq!((&paid["orderId"], &paid["amount"]), (&json!(order), &json!(360)));
    check(&shop, (Method::POST, &payment), pay(amount), (409, "already_paid")).await;
    let shown = shop.get(&format!("/commerce/orders/{order}")).await;
    assert_eq!(shown["paymentId"], paid["paymentId"]);
    assert_eq!(
        shop.emitted().await,
        ["loopers.order.paid.v1", "loopers.stock.depleted.v1"]
    );
}
