//! Clauses about handlers: what they get, and what their errors mean.

use std::time::Duration;

use postroom::{BoxError, Event, Subscriber, Tx, clock, dead, table};
use sea_orm::{ConnectionTrait as _, DbBackend};
use time::OffsetDateTime;
use uuid::Uuid;

use super::fixture::{Noted, Office, Scripted, noted, quick};
use crate::Fresh;
use crate::wait::{until, until_some};

/// Fails in the way that its event names.
async fn fail(_tx: &mut Tx, event: Noted) -> Result<(), BoxError> {
    match event.note.as_str() {
        "broken JSON elsewhere" => serde_json::from_str::<u32>("{").map(drop).map_err(Into::into),
        "rejected" => Err(postroom::reject("nobody can handle this").into()),
        _ => Ok(()),
    }
}

fn failing() -> Subscriber {
    Subscriber::on::<Noted>("typed", fail).retry(quick(3))
}

/// A drained relay has delivered everything, also what handlers emitted, and stops by itself.
pub async fn a_drained_relay_has_delivered_everything(fresh: Fresh) {
    async fn chain(tx: &mut Tx, event: Noted) -> postroom::Result<()> {
        if event.note == "first" {
            postroom::emit(tx, &noted(&event.key, "second")).await?;
        }
        Ok(())
    }
    let office = Office::open(fresh).await;
    office
        .drain(office.relay().subscriber(Scripted::new("s").subscriber(3)))
        .await;
    office.emit(&[("a", "first"), ("b", "other")]).await;
    let relay = office.relay().subscriber(Scripted::new("s").subscriber(3));
    office
        .drain(relay.subscriber(Subscriber::on::<Noted>("chain", chain)))
        .await;
    let mut effects = office.effects("s").await;
    effects.sort();
    assert_eq!(effects, ["first", "other", "second"]);
}

/// A drained relay has delivered everything also where another process makes committed events readable, or has just stopped to.
pub async fn a_drained_relay_waits_for_events_that_another_process_numbers(fresh: Fresh) {
    let office = Office::open(fresh).await;
    let relay = || office.relay().subscriber(Scripted::new("s").subscriber(3));
    office.drain(relay()).await;
    let other = office.fresh.second().await;
    office.emit(&[("a", "first")]).await;
    until("the other process has numbered the first event", || async {
        other
            .pulse()
            .await
            .is_ok_and(|pulse| pulse.head > 0 && !pulse.is_waiting)
    })
    .await;
    office.emit(&[("b", "second")]).await;
    office.drain(relay()).await;
    let mut effects = office.effects("s").await;
    effects.sort();
    assert_eq!(effects, ["first", "second"]);
}

/// A rejected event, and one that cannot be decoded, is a dead letter after one attempt. Any other error is retried.
pub async fn only_rejected_events_are_given_up_at_once(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office
        .emit(&[("a", "rejected"), ("b", "broken JSON elsewhere"), ("c", "fine")])
        .await;
    let payload = postroom::parse_payload("[1]").expect("JSON");
    let foreign = Event::new("suite.noted.v1", "suite", "d", payload).expect("an event");
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    postroom::append(&tx, &[foreign]).await.expect("append");
    tx.commit().await.expect("commit");
    office.start(office.relay().subscriber(failing()));
    let letters = until_some("three dead letters", || async {
        let listed = dead::list(office.fresh.db(), &dead::Selection::default(), None, 10).await;
        listed.ok().filter(|letters| letters.len() == 3)
    });
    let letters = letters.await;
    let mut attempts: Vec<_> = letters
        .iter()
        .map(|letter| (letter.entry.event.aggregate_id.as_str(), letter.attempts))
        .collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [("a", 1), ("b", 3), ("d", 1)]);
    office.stop().await;
}

/// Schedules an event on the driver's own connection.
async fn emit_at(tx: &mut Tx, event: &Noted, due_at: OffsetDateTime) -> postroom::Result<Uuid> {
    match tx.get_database_backend() {
        DbBackend::Postgres => postroom_postgres::emit_at(tx.postgres()?, event, due_at).await,
        DbBackend::MySql => postroom_mysql::emit_at(tx.mysql()?, event, due_at).await,
        _ => postroom_sqlite::emit_at(tx.sqlite()?, event, due_at).await,
    }
}

async fn cancel(tx: &mut Tx, event_id: Uuid) -> postroom::Result<bool> {
    match tx.get_database_backend() {
        DbBackend::Postgres => postroom_postgres::cancel(tx.postgres()?, event_id).await,
        DbBackend::MySql => postroom_mysql::cancel(tx.mysql()?, event_id).await,
        _ => postroom_sqlite::cancel(tx.sqlite()?, event_id).await,
    }
}

/// Plain sqlx schedules and cancels events in its own transaction: one that rolls back has done neither.
pub async fn a_plain_connection_schedules_and_cancels(fresh: Fresh) {
    let office = Office::open(fresh).await;
    let db = office.fresh.db();
    let (past, future) = (
        clock::now() - Duration::from_secs(60),
        clock::now() + Duration::from_secs(3600),
    );
    let mut tx = table::begin(db).await.expect("begin");
    emit_at(&mut tx, &noted("a", "due"), past).await.expect("schedule");
    let later = emit_at(&mut tx, &noted("b", "cancelled"), future)
        .await
        .expect("schedule");
    tx.commit().await.expect("commit");
    let mut tx = table::begin(db).await.expect("begin");
    emit_at(&mut tx, &noted("c", "rolled back"), past)
        .await
        .expect("schedule");
    assert!(cancel(&mut tx, later).await.expect("cancel"));
    tx.rollback().await.expect("roll back");
    let mut tx = table::begin(db).await.expect("begin");
    assert!(
        cancel(&mut tx, later).await.expect("cancel"),
        "the rolled-back cancel did nothing"
    );
    assert!(
        !cancel(&mut tx, later).await.expect("cancel"),
        "it does not wait any more"
    );
    let year_0 = past - time::Duration::days(365 * 2100);
    let refused = emit_at(&mut tx, &noted("d", "too early"), year_0)
        .await
        .expect_err("refused");
    assert!(refused.to_string().contains("between 1970 and 9999"), "{refused}");
    tx.commit().await.expect("commit");
    office
        .drain(office.relay().subscriber(Scripted::new("s").subscriber(3)))
        .await;
    assert_eq!(office.effects("s").await, ["due"]);
}

/// A handler that asks for another database's connection is told which one it has.
pub async fn a_transaction_names_its_database(fresh: Fresh) {
    let mut tx = table::begin(fresh.db()).await.expect("begin");
    let (others, own) = match tx.get_database_backend() {
        DbBackend::Postgres => (tx.mysql().err(), "tx.postgres()"),
        DbBackend::MySql => (tx.sqlite().err(), "tx.mysql()"),
        _ => (tx.postgres().err(), "tx.sqlite()"),
    };
    let error = others.expect("another database").to_string();
    assert!(error.contains(own), "{error}");
    tx.rollback().await.expect("roll back");
}
