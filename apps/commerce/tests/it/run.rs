//! A day in the shop that is killed again and again: in the end everything was counted, once.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::task::JoinSet;

use crate::shop::{Shop, run};

const PRODUCTS: usize = 4;
/// How often the process is killed.
const KILLS: u64 = 4;
/// What is done between two of them.
const ACTIONS: usize = 25;
/// Payments that are under way when it is.
const PAYMENTS: i64 = 6;

on_every_way! {
    c_07_whatever_is_killed_everything_is_counted_once
    c_07_two_processes_count_everything_once
}

/// What was done to a product.
#[derive(Debug, Default)]
struct Done {
    likes: BTreeSet<i64>,
    sales: i64,
    views: i64,
    stock: i64,
}

type Diary = BTreeMap<i64, Done>;

async fn c_07_whatever_is_killed_everything_is_counted_once(mut shop: Shop) {
    let mut diary = open_diary(&shop).await;
    for life in 0..KILLS {
        act(&shop, &mut diary, &mut StdRng::seed_from_u64(life)).await;
        let payments = begin_to_pay(&shop, &diary).await;
        shop = shop.killed_and_reopened(commerce::module()).await;
        let orders = payments.join_all().await;
        ask_again(&shop, &mut diary, &orders).await;
    }
    act(&shop, &mut diary, &mut StdRng::seed_from_u64(KILLS)).await;
    compare(&shop, &diary).await;
}

async fn c_07_two_processes_count_everything_once(shop: Shop) {
    let mut diary = open_diary(&shop).await;
    let second = run(&shop.fresh, shop.topics.as_ref(), commerce::module()).await;
    act(&shop, &mut diary, &mut StdRng::seed_from_u64(77)).await;
    act(&shop, &mut diary, &mut StdRng::seed_from_u64(78)).await;
    compare(&shop, &diary).await;
    second.close().await;
}

async fn open_diary(shop: &Shop) -> Diary {
    let mut diary = Diary::new();
    for _ in 0..PRODUCTS {
        let stock = 60;
        let done = Done {
            stock,
            ..Done::default()
        };
        diary.insert(shop.product(100, stock).await, done);
    }
    diary
}

/// Does things at random, and writes down what was done.
async fn act(shop: &Shop, diary: &mut Diary, rng: &mut StdRng) {
    let products: Vec<i64> = diary.keys().copied().collect();
    for _ in 0..ACTIONS {
        let (product, user) = (products[rng.random_range(0..PRODUCTS)], rng.random_range(1..=6));
        let done = diary.get_mut(&product).unwrap();
        match rng.random_range(0..4) {
            0 => {
                shop.view(product, user).await;
                done.views += 1;
            }
            1 => {
                shop.like(product, user, true).await;
                done.likes.insert(user);
            }
            2 => {
                shop.like(product, user, false).await;
                done.likes.remove(&user);
            }
            _ => {
                let quantity = rng.random_range(1..=4);
                let (status, answer) = shop.buy(user, &[(product, quantity)]).await;
                let is_enough = done.stock >= quantity;
                assert_eq!(status == 201, is_enough, "{quantity} of {}: {answer}", done.stock);
                if is_enough {
                    done.sales += quantity;
                    done.stock -= quantity;
                }
            }
        }
    }
}

/// Orders one of everything several times, and begins to pay all of it at once.
async fn begin_to_pay(shop: &Shop, diary: &Diary) -> JoinSet<(i64, i64)> {
    let lines: Vec<(i64, i64)> = diary.keys().map(|product| (*product, 1)).collect();
    let mut payments = JoinSet::new();
    for user in 1..=PAYMENTS {
        let (order, amount) = shop.order(user, &lines).await;
        let path = format!("/commerce/orders/{order}/payment");
        let (client, body) = (shop.client.clone(), json!({ "amount": amount }).to_string());
        payments.spawn(async move {
            // Whether it is answered does not matter: who does not know asks again.
            drop(client.send("POST", &path, &[], &body).await);
            (order, amount)
        });
    }
    payments
}

/// Pays what was being paid when the process was killed. Whether it was paid then or now, it is paid once, unless something is
/// sold out. The database may still end what the dead process began: a payment waits for that.
async fn ask_again(shop: &Shop, diary: &mut Diary, orders: &[(i64, i64)]) {
    for (order, amount) in orders {
        let (status, answer) = shop.pay(*order, *amount).await;
        match (status, answer["code"].as_str()) {
            (201, _) | (409, Some("already_paid")) => {
                for done in diary.values_mut() {
                    done.sales += 1;
                    done.stock -= 1;
                }
            }
            refused => assert_eq!(refused, (409, Some("out_of_stock")), "{answer}"),
        }
    }
}

/// Metrics and stock are what was done, and stay it when everything is delivered once more.
async fn compare(shop: &Shop, diary: &Diary) {
    let expected = |done: &Done| [i64::try_from(done.likes.len()).unwrap(), done.sales, done.views];
    for (product, done) in diary {
        shop.until_counted(*product, expected(done)).await;
    }
    shop.deliver_again().await;
    let listed = shop.get("/commerce/products").await;
    for (at, (product, done)) in diary.iter().enumerate() {
        assert_eq!(shop.metrics(*product).await, expected(done), "product {product}");
        assert_eq!(listed["products"][at]["stock"], done.stock, "{listed}");
    }
}
