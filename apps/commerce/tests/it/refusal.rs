//! Requests that the shop rejects, and the problem of each.

use serde_json::{Value, json};

use crate::shop::Shop;

on_every_way! {
    a_product_like_or_view_that_breaks_a_rule_is_refused
    an_order_that_breaks_a_rule_is_refused
    a_payment_that_is_refused_takes_nothing
}

const INVALID: (u16, &str) = (422, "invalid");
const NOTHING: (u16, &str) = (404, "not_found");
const UNKNOWN: (u16, &str) = (404, "unknown_product");

async fn check(shop: &Shop, method: &str, path: &str, body: Value, (status, code): (u16, &str)) {
    let (answered, problem) = shop.call(method, path, body.clone()).await;
    assert_eq!(
        (answered, problem["code"].as_str()),
        (status, Some(code)),
        "{method} {path} {:.200}: {problem}",
        body.to_string()
    );
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
}

async fn a_product_like_or_view_that_breaks_a_rule_is_refused(shop: Shop) {
    let product = shop.product(100, 1).await;
    for (body, expected) in [
        (json!({ "name": "", "price": 1, "stock": 1 }), INVALID),
        (json!({ "name": "lamp", "price": -1, "stock": 1 }), INVALID),
        (json!({ "name": "lamp", "price": 1, "stock": -1 }), INVALID),
        (json!({ "name": "lamp", "price": 1.5, "stock": 1 }), INVALID),
        (json!({ "name": "lamp" }), INVALID),
        (json!({ "name": "lamp", "price": 1, "stock": 1, "x": 1 }), INVALID),
        (Value::Null, (415, "media_type")),
    ] {
        check(&shop, "POST", "/commerce/products", body, expected).await;
    }
    for (method, path, expected) in [
        ("GET", "?after=x".to_owned(), INVALID),
        ("GET", "?page=1".to_owned(), INVALID),
        ("GET", "/99".to_owned(), UNKNOWN),
        ("GET", "/lamp".to_owned(), NOTHING),
        ("GET", "/%00".to_owned(), NOTHING),
        ("GET", "/99/metrics".to_owned(), UNKNOWN),
        ("PUT", "/99/likes/7".to_owned(), UNKNOWN),
        ("DELETE", "/99/likes/7".to_owned(), UNKNOWN),
        ("PUT", format!("/{product}/likes/0"), INVALID),
        ("PUT", format!("/{product}/likes/ada"), NOTHING),
        ("POST", format!("/{product}/likes/7"), (405, "method")),
    ] {
        check(
            &shop,
            method,
            &format!("/commerce/products{path}"),
            Value::Null,
            expected,
        )
        .await;
    }
    let views = |product: i64| format!("/commerce/products/{product}/views");
    check(&shop, "POST", &views(99), json!({ "userId": 7 }), UNKNOWN).await;
    check(&shop, "POST", &views(product), json!({ "userId": 0 }), INVALID).await;
    check(&shop, "POST", &views(product), json!({}), INVALID).await;

    assert_eq!(shop.emitted().await, Vec::<String>::new());
    let listed = shop.get("/commerce/products").await;
    assert_eq!(listed["products"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        shop.product(100, 1).await,
        product + 1,
        "a rejected request uses no number"
    );
}

async fn an_order_that_breaks_a_rule_is_refused(shop: Shop) {
    let product = shop.product(100, 1).await;
    let (order, _) = shop.order(7, &[(product, 1)]).await;
    let line = |product_id: i64, quantity: i64| json!({ "productId": product_id, "quantity": quantity });
    for (user, lines, expected) in [
        (7, json!([]), INVALID),
        (7, json!(vec![line(product, 1); 70_000]), INVALID), // more than the parameters of one SQL statement
        (7, json!([line(product, 0)]), INVALID),
        (7, json!([line(product, 1001)]), INVALID),
        (7, json!([line(product, 1), line(product, 1)]), INVALID),
        (7, json!([line(product, 1), line(99, 1)]), UNKNOWN),
        (-7, json!([line(product, 1)]), INVALID),
        (7, json!("lamp"), INVALID),
    ] {
        let body = json!({ "userId": user, "lines": lines });
        check(&shop, "POST", "/commerce/orders", body, expected).await;
    }
    let unknown = (404, "unknown_order");
    check(&shop, "GET", "/commerce/orders/99", Value::Null, unknown).await;
    check(&shop, "GET", "/commerce/orders/x", Value::Null, NOTHING).await;
    let pay = |order: i64| format!("/commerce/orders/{order}/payment");
    check(&shop, "POST", &pay(99), json!({ "amount": 1 }), unknown).await;
    check(&shop, "POST", &pay(order), json!({ "amount": "much" }), INVALID).await;

    assert_eq!(shop.emitted().await, Vec::<String>::new());
    let (next, _) = shop.order(7, &[(product, 1)]).await;
    assert_eq!(next, order + 1, "a rejected request uses no number");
}

async fn a_payment_that_is_refused_takes_nothing(shop: Shop) {
    let (plenty, few) = (shop.product(100, 10).await, shop.product(30, 2).await);
    let (order, amount) = shop.order(7, &[(plenty, 3), (few, 3)]).await;
    let payment = format!("/commerce/orders/{order}/payment");
    let pay = |amount: i64| json!({ "amount": amount });
    check(&shop, "POST", &payment, pay(amount - 1), (422, "amount_mismatch")).await;
    check(&shop, "POST", &payment, pay(amount), (409, "out_of_stock")).await;
    let stocks = async || {
        let listed = shop.get("/commerce/products").await;
        [0, 1].map(|at| listed["products"][at]["stock"].as_i64().unwrap())
    };
    assert_eq!(stocks().await, [10, 2]);
    assert_eq!(
        shop.get(&format!("/commerce/orders/{order}")).await["paymentId"],
        Value::Null
    );
    assert_eq!(shop.emitted().await, Vec::<String>::new());

    let (order, amount) = shop.order(7, &[(plenty, 3), (few, 2)]).await;
    let payment = format!("/commerce/orders/{order}/payment");
    let paid = shop.post(&payment, pay(amount)).await;
    assert_eq!((&paid["orderId"], &paid["amount"]), (&json!(order), &json!(360)));
    check(&shop, "POST", &payment, pay(amount), (409, "already_paid")).await;
    let shown = shop.get(&format!("/commerce/orders/{order}")).await;
    assert_eq!(shown["paymentId"], paid["paymentId"]);
    assert_eq!(stocks().await, [7, 0]);
    assert_eq!(
        shop.emitted().await,
        ["loopers.order.paid.v1", "loopers.stock.depleted.v1"]
    );
}
