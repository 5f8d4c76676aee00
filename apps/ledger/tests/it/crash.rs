//! A crash at each step between the database and the effect: no event lost, none invented, and what follows the ledger agrees
//! with it. The stage is ended where the step says, and another one takes over.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use std::collections::HashSet;
use std::sync::Arc;

use postroom::Broker;
use postroom_testkit::Fresh;
use postroom_testkit::wait::until;
use sea_orm::{ConnectionTrait, DatabaseTransaction, TransactionTrait};
use serde_json::json;
use tokio::task::JoinSet;

use crate::books;
use crate::fault::{Faulty, Step};
use crate::kafka::{at, published};
use crate::world::{World, on_every_store, shared_kafka};

on_every_store! {
    after_the_commit
    after_the_send
    after_the_brokers_answer
    before_the_offset
}

async fn after_the_commit(fresh: Fresh) {
    crash_at(fresh, Step::BeforeSend).await;
}

async fn after_the_send(fresh: Fresh) {
    crash_at(fresh, Step::AfterSend).await;
}

/// The broker has it and the cursor does not know: it is sent again, and has one effect.
async fn after_the_brokers_answer(fresh: Fresh) {
    let sent = crash_at(fresh, Step::AfterAck).await;
    assert!(
        sent > EVENTS,
        "{sent} messages: nothing was sent again, so the crash was not where it should have been"
    );
}

/// The effect is there and the offset does not know: the message comes again, and has no second effect.
async fn before_the_offset(fresh: Fresh) {
    crash_at(fresh, Step::BeforeOffset).await;
}

/// As many as three deposits and two transfers have.
const EVENTS: usize = 7;

/// Moves money with a broker that stops at a step, kills the stage there, and goes on with one that does not stop. Answers how
/// many messages the topic has.
async fn crash_at(fresh: Fresh, step: Step) -> usize {
    let broker = shared_kafka().await;
    let faulty = Arc::new(Faulty::new(Arc::clone(&broker), step));
    let world = World::with(fresh, Some(Arc::clone(&faulty) as Arc<dyn Broker>), ledger::module()).await;
    let ledger = &world.client;
    let (ada, bob) = (ledger.open("ada", "KRW").await, ledger.open("bob", "KRW").await);
    ledger.deposit(&ada, 1_000).await.created();
    ledger.deposit(&bob, 500).await.created();
    ledger.transfer(&ada, &bob, 70).await.created();
    faulty.reached().await;

    let world = world.killed(Some(Arc::clone(&broker))).await;
    world.client.deposit(&ada, 1).await.created();
    world.client.transfer(&bob, &ada, 7).await.created();
    books::settle(&world.fresh).await;
    let movements = published(&*broker, EVENTS).await;
    let distinct: HashSet<_> = movements.iter().map(at).collect();
    assert_eq!(distinct.len(), EVENTS, "{step:?}");
    world.close().await;
    movements.len()
}

/// Somebody else's transaction that holds a row.
async fn hold(fresh: &Fresh, sql: &str) -> DatabaseTransaction {
    let tx = fresh.writers(1).await.begin().await.unwrap();
    tx.execute_unprepared(sql).await.unwrap();
    tx
}

/// Waits until a transaction besides the one that holds the row has written and waits.
async fn until_blocked(fresh: &Fresh) {
    until("a transaction waits for the row", || async {
        let open = fresh.open_transactions().await.unwrap();
        open.iter().filter(|one| one.has_written).count() >= 2
    })
    .await;
}

/// A stage that dies before its writer commits leaves nothing: no balance, no entry, no event. The client asks again with the
/// same key and gets it once.
async fn before_the_commit(fresh: Fresh) {
    let world = World::on(fresh).await;
    let ada = world.client.open("ada", "KRW").await;
    world.client.deposit(&ada, 10).await.created();
    let row = hold(
        &world.fresh,
        "update ledger_account set name = 'held' where account_id = 'clearing-KRW'",
    )
    .await;
    let path = format!("/ledger/accounts/{ada}/deposits");
    let five = json!({ "amount": 5, "currency": "KRW" });
    let mut asking = JoinSet::new();
    let (client, asked) = (world.client.clone(), (path.clone(), five.to_string()));
    asking.spawn(async move { client.send("POST", &asked.0, Some("k"), &asked.1).await });
    until_blocked(&world.fresh).await;

    let world = world.killed(None).await;
    let cut_off = asking.join_next().await.unwrap().unwrap();
    assert!(cut_off.is_err(), "the client got an answer: {cut_off:?}");
    row.commit().await.unwrap();
    books::settle(&world.fresh).await;
    assert_eq!(
        world.client.look(&format!("/ledger/accounts/{ada}")).await["version"],
        1,
        "nothing of it is there"
    );
    for _ in 0..2 {
        world.client.post_as("k", &path, &five).await.created();
    }
    assert_eq!(
        world.client.look(&format!("/ledger/accounts/{ada}")).await["balance"],
        15
    );
    books::settle(&world.fresh).await;
    world.close().await;
}

/// A stage that dies while a subscriber's effect is written and not committed leaves no effect; the next one has it once.
async fn inside_the_effect(fresh: Fresh, broker: Option<Arc<dyn Broker>>) {
    let world = World::with(fresh, broker.clone(), ledger::module()).await;
    let ada = world.client.open("ada", "KRW").await;
    world.client.deposit(&ada, 10).await.created();
    books::settle(&world.fresh).await;
    let row = hold(&world.fresh, "update ledger_portfolio set currency = 'KRW'").await;
    let (first, second) = (world.client.deposit(&ada, 5).await, world.client.deposit(&ada, 6).await);
    assert_eq!((first.status, second.status), (201, 201));
    let waits = "select account_id from ledger_audit where sequence_number = 3";
    until("the other subscribers go on", || async {
        books::rows(&*world.fresh, waits).await.len() == 1
    })
    .await;

    let world = world.killed(broker).await;
    row.commit().await.unwrap();
    books::settle(&world.fresh).await;
    let portfolio = world.client.look("/ledger/portfolios/ada").await;
    assert_eq!(
        (&portfolio["totals"]["KRW"], &portfolio["accounts"][0]["transactions"]),
        (&json!(21), &json!(3))
    );
    world.close().await;
}

/// SQLite has one writer at a time: there is no second one that could hold a row.
mod with_row_locks {
    use postroom_testkit::fresh;

    use crate::world::shared_kafka;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_before_the_commit() {
        super::before_the_commit(fresh::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_before_the_commit() {
        super::before_the_commit(fresh::mysql().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_inside_the_effect() {
        super::inside_the_effect(fresh::postgres().await, None).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_inside_the_effect() {
        super::inside_the_effect(fresh::mysql().await, None).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_inside_the_effect_of_what_kafka_brought() {
        super::inside_the_effect(fresh::mysql().await, Some(shared_kafka().await)).await;
    }
}
