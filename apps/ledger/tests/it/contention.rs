//! Concurrent writers on the same accounts.

#![expect(clippy::indexing_slicing, reason = "a test harness: a panic fails the test")]

use futures::future::join_all;

use crate::books;
use crate::world::{Place, World, on_every_way};

const WRITERS: usize = 16;
const EACH: usize = 4;

on_every_way! {
    many_writers_on_one_account_leave_one_event_each
    transfers_that_cross_do_not_deadlock
}

/// A failed attempt is rolled back with its event: there are as many events as transactions, numbered without gaps.
async fn many_writers_on_one_account_leave_one_event_each(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let ada = &ledger.open("ada", "KRW").await;
    let writer = async |_| {
        for _ in 0..EACH {
            ledger.deposit(ada, 3).await.created();
        }
    };
    join_all((0..WRITERS).map(writer)).await;
    let shown = ledger.look(&format!("/ledger/accounts/{ada}")).await;
    assert_eq!((&shown["version"], &shown["balance"]), (&64.into(), &192.into()));
    books::settle(&world.fresh).await;
    world.close().await;
}

async fn transfers_that_cross_do_not_deadlock(place: Place) {
    let world = World::on(place).await;
    let ledger = &world.client;
    let accounts = [&ledger.open("ada", "KRW").await, &ledger.open("bob", "KRW").await];
    for account in accounts {
        ledger.deposit(account, 1_000).await.created();
    }
    let writer = async |number: usize| {
        for turn in 0..EACH {
            let [ada, bob] = accounts;
            let (from, to) = if (number + turn).is_multiple_of(2) {
                (ada, bob)
            } else {
                (bob, ada)
            };
            ledger.transfer(from, to, 7).await.created();
        }
    };
    join_all((0..WRITERS).map(writer)).await;
    books::settle(&world.fresh).await;
    world.close().await;
}
