//! A shop whose process is killed several times: in the end every action counts exactly once.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::task::JoinSet;

use crate::shop::{Shop, run};

const PRODUCTS: usize = 4;
/// The number of kills.
const KILLS: u64 = 4;
/// Actions between two kills.
const ACTIONS: usize = 25;
/// Payments in progress at a kill.
const PAYMENTS: i64 = 6;

on_every_way! {
    c_07_whatever_is_killed_everything_is_counted_once
    c_07_two_processes_count_everything_once
}

/// The expected metrics and stock of a product.
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

/// Executes random actions and records the successful ones.
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

/// Orders one unit of each product several times, and starts all payments concurrently.
async fn begin_to_pay(shop: &Shop, diary: &Diary) -> JoinSet<(i64, i64)> {
    let lines: Vec<(i64, i64)> = diary.keys().map(|product| (*product, 1)).collect();
    let mut payments = JoinSet::new();
    for user in 1..=PAYMENTS {
        let (order, amount) = shop.order(user, &lines).await;
        let path = format!("/commerce/orders/{order}/payment");
        let (client, body) = (shop.client.clone(), json!({ "amount": amount }).to_string());
        payments.spawn(async move {
            // The answer does not matter here: the payment is repeated after the restart.
            drop(client.send("POST", &path, &[], &body).await);
            (order, amount)
        });
    }
    payments
}

/// Repeats the payments that were in progress at the kill. Each order is paid once, before or after the kill, unless a
/// product is sold out. The database may still roll back a transaction of the killed process, and the payment waits for that.
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

/// Metrics and stock match the recorded actions, and still match after a redelivery of all events.
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
