//! The counting subscribers: each fact counts once, for any number of deliveries.

use crate::shop::Shop;

on_every_way! {
    c_04_likes_sales_and_views_are_counted
    c_04_what_comes_again_changes_nothing
}

async fn c_04_likes_sales_and_views_are_counted(shop: Shop) {
    let (lamp, chair) = (shop.product(100, 50).await, shop.product(30, 50).await);
    assert_eq!(shop.metrics(lamp).await, [0, 0, 0]);
    for user in 1..=5 {
        shop.like(lamp, user, true).await;
        shop.view(lamp, user).await;
        shop.view(chair, user).await;
    }
    shop.like(lamp, 5, true).await;
    shop.like(lamp, 1, false).await;
    shop.like(chair, 1, false).await;
    assert_eq!(shop.buy(1, &[(lamp, 2), (chair, 3)]).await.0, 201);
    assert_eq!(shop.buy(2, &[(lamp, 4)]).await.0, 201);
    shop.order(3, &[(lamp, 7)]).await; // never paid
    shop.until_counted(lamp, [4, 6, 5]).await;
    shop.until_counted(chair, [0, 3, 5]).await;
}

async fn c_04_what_comes_again_changes_nothing(shop: Shop) {
    let lamp = shop.product(100, 3).await;
    shop.like(lamp, 1, true).await;
    shop.like(lamp, 2, true).await;
    shop.like(lamp, 1, false).await;
    shop.view(lamp, 1).await;
    assert_eq!(shop.buy(1, &[(lamp, 3)]).await.0, 201);
    shop.until_counted(lamp, [1, 3, 1]).await;
    for _ in 0..2 {
        shop.deliver_again().await;
        assert_eq!(shop.metrics(lamp).await, [1, 3, 1]);
    }
    shop.like(lamp, 3, true).await;
    shop.until_counted(lamp, [2, 3, 1]).await;
}
