//! A crash at each step between the database and the effect: no event is lost or invented, and the read models match the
//! ledger. The stage is killed at the step, and another one continues.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use postroom::{BoxError, BoxHandler, Tx};
use std::collections::HashSet;
use std::mem;
use std::sync::Arc;

use postroom::{Handling, Idempotency, operate, table};
use postroom_host::Module;
use postroom_testkit::gate::{Gate, Gated, Standing, Step};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait, DbBackend};
use serde_json::json;
use tokio::task::JoinSet;

use crate::books;
use crate::kafka::{at, published};
use crate::world::{Place, World, on_every_way, shared_kafka};

mod through_kafka {
    use super::{after_the_brokers_answer, after_the_commit, after_the_send, before_the_cursor, before_the_offset};

    crate::world::on_every_store! {
        after_the_commit
        after_the_send
        after_the_brokers_answer
        before_the_cursor
        before_the_offset
    }
}

on_every_way! {
    inside_the_effect
}

async fn after_the_commit(place: Place) {
    crash_at(place, Step::BeforeSend).await;
}

async fn after_the_send(place: Place) {
    crash_at(place, Step::AfterSend).await;
}

/// The broker has the message, but the relay does not know it: the relay sends it again, and it has one effect.
async fn after_the_brokers_answer(place: Place) {
    assert_sent_again(crash_at(place, Step::AfterAck).await);
}

/// The relay knows that the broker has the message, but the cursor is not written: the relay sends it again, and it has one
/// effect.
async fn before_the_cursor(place: Place) {
    assert_sent_again(crash_at(place, Step::BeforeCursor).await);
}

/// The effect is committed, but the offset is not: the message is delivered again and has no second effect.
async fn before_the_offset(place: Place) {
    crash_at(place, Step::BeforeOffset).await;
}

fn assert_sent_again(sent: usize) {
    assert!(
        sent > EVENTS,
        "{sent} messages: nothing was sent again, so the crash was not where it should have been"
    );
}

/// The number of events of three deposits and two transfers.
const EVENTS: usize = 7;
/// The route that publishes them to the broker.
const PUBLISHES: &str = "to-broker-ledger-events";

/// Moves money with a broker that stops at a step, kills the stage there, and continues with a normal broker. Returns the
/// number of messages in the topic.
async fn crash_at(place: Place, step: Step) -> usize {
    let broker = shared_kafka().await;
    let gated = Arc::new(Gated::new(Arc::clone(&broker), step));
    let world = World::on(Place::through(place.fresh, Arc::clone(&gated) as _)).await;
    let ledger = &world.client;
    let (ada, bob) = (ledger.open("ada", "KRW").await, ledger.open("bob", "KRW").await);
    ledger.deposit(&ada, 1_000).await.created();
    ledger.deposit(&bob, 500).await.created();
    ledger.transfer(&ada, &bob, 70).await.created();
    gated.gate.reached().await;
    let cursor = match step {
        Step::BeforeCursor => Some(hold_cursor(&world.fresh, &gated.gate).await),
        _ => None,
    };

    let place = world.killed();
    if let Some(cursor) = cursor {
        cursor.rollback().await.unwrap();
        assert_eq!(delivered(&place.fresh).await, 0, "the cursor has moved");
    }
    let world = World::on(Place::through(place.fresh, Arc::clone(&broker))).await;
    world.client.deposit(&ada, 1).await.created();
    world.client.transfer(&bob, &ada, 7).await.created();
    books::settle(&world.fresh).await;
    let movements = published(&*broker, EVENTS).await;
    let distinct: HashSet<_> = movements.iter().map(at).collect();
    assert_eq!(distinct.len(), EVENTS, "{step:?}");
    world.close().await;
    movements.len()
}

/// Passes the broker's answer to the relay while another transaction locks the row of the cursor.
async fn hold_cursor(fresh: &Fresh, gate: &Gate) -> Tx {
    let table = match fresh.db().get_database_backend() {
        DbBackend::Postgres => "postroom.outbox_cursor",
        _ => "postroom_outbox_cursor",
    };
    let held = hold(
        fresh,
        &format!("update {table} set delivered = delivered where route = '{PUBLISHES}'"),
    )
    .await;
    gate.open();
    gate.reached().await;
    held
}

/// The number of events that the publishing route has recorded as delivered.
async fn delivered(fresh: &Fresh) -> i64 {
    let status = operate::status(&**fresh).await.unwrap();
    let mut routes = status.routes.iter();
    routes.find(|route| route.route == PUBLISHES).unwrap().delivered
}

/// Opens a transaction that locks a row.
async fn hold(fresh: &Fresh, sql: &str) -> Tx {
    let tx = table::begin(&fresh.writers(1).await).await.unwrap();
    tx.execute_unprepared(sql).await.unwrap();
    tx
}

/// Waits until a second transaction has written and waits for the locked row.
async fn until_blocked(fresh: &Fresh) {
    until("a transaction waits for the row", || async {
        let open = fresh.open_transactions().await.unwrap();
        open.iter().filter(|one| one.has_written).count() >= 2
    })
    .await;
}

/// A stage that dies before the commit leaves no balance, no entry and no event. The client repeats the request with the same
/// key, and it takes effect once.
async fn before_the_commit(place: Place) {
    let world = World::on(place).await;
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

    let place = world.killed();
    let cut_off = asking.join_next().await.unwrap().unwrap();
    assert!(cut_off.is_err(), "the client got an answer: {cut_off:?}");
    row.commit().await.unwrap();
    let world = World::on(place).await;
    books::settle(&world.fresh).await;
    assert_eq!(
        world.client.look(&format!("/ledger/accounts/{ada}")).await["version"],
        1,
        "the killed request left no effect"
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

/// A stage that dies before it commits a subscriber's effect leaves no effect. The next stage applies it once.
async fn inside_the_effect(place: Place) {
    let world = World::on(place).await;
    let ada = world.client.open("ada", "KRW").await;
    world.client.deposit(&ada, 10).await.created();
    books::settle(&world.fresh).await;

    let gate = Gate::default();
    let world = World::with(world.killed(), standing(&gate)).await;
    world.client.deposit(&ada, 5).await.created();
    gate.reached().await;

    let world = World::on(world.killed()).await;
    world.client.deposit(&ada, 6).await.created();
    books::settle(&world.fresh).await;
    let portfolio = world.client.look("/ledger/portfolios/ada").await;
    assert_eq!(
        (&portfolio["totals"]["KRW"], &portfolio["accounts"][0]["transactions"]),
        (&json!(21), &json!(3))
    );
    world.close().await;
}

/// A ledger whose portfolio handler stops after its write. Only the inbox prevents a second count there.
fn standing(gate: &Gate) -> Module {
    let mut module = ledger::module();
    let mut subscribers = module.subscribers.iter_mut();
    let portfolios = subscribers.find(|one| one.group == "ledger-portfolios").unwrap();
    assert_eq!(portfolios.idempotency, Idempotency::Inbox);
    let nothing = async |_: &mut Tx, _: &postroom::Event| Ok::<(), BoxError>(());
    let Handling::Each(handler) = mem::replace(&mut portfolios.handling, Handling::Each(BoxHandler::new(nothing)))
    else {
        panic!("portfolios are not handled one by one");
    };
    let gate = gate.clone();
    portfolios.handling = Handling::Each(BoxHandler::new(Standing { handler, gate }));
    module
}

/// SQLite allows one writer at a time, so no second transaction can lock a row. (`money.rs` covers random kills on SQLite.)
mod with_row_locks {
    use super::{before_the_commit, fresh};
    use crate::world::Place;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_before_the_commit() {
        before_the_commit(fresh::postgres().await.into()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_before_the_commit() {
        before_the_commit(fresh::mysql().await.into()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_through_kafka_before_the_commit() {
        before_the_commit(Place::through_kafka(fresh::mysql().await).await).await;
    }
}
