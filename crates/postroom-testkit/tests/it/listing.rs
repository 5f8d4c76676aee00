//! Looking for what waits: found however far it is, and without reading everything in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::operate::{self, Carrier};
use postroom::{Event, Filter, Relay, Result, Subscriber, Tx, append, parse_payload, table};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use tokio_util::sync::CancellationToken;

use crate::hooked::Hooked;

async fn nothing(_tx: &mut Tx, _event: &Event) -> Result<()> {
    Ok(())
}

/// Makes a route of two shards known, which no relay delivers any more.
async fn register(fresh: &Fresh, route: &str) {
    let mut subscriber = Subscriber::matching(route, ["**"], nothing);
    subscriber.shards = 2;
    let stop = CancellationToken::new();
    let running = Relay::new(fresh.store() as _).subscriber(subscriber).run(stop.clone());
    let known = async {
        until("the route is known", || async {
            operate::status(&**fresh).await.unwrap().routes.len() == 2
        })
        .await;
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(running, known);
    ran.unwrap();
}

async fn emit(fresh: &Fresh, event_type: &str, count: usize) {
    let tx = table::begin(fresh.db()).await.unwrap();
    let event = |number: usize| Event::new(event_type, "thing", number.to_string(), parse_payload("{}").unwrap());
    let events: Vec<Event> = (0..count).map(|number| event(number).unwrap()).collect();
    for part in events.chunks(500) {
        append(&tx, part).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn what_waits_behind_many_others_is_found(fresh: Fresh) {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let count = move |_after| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let fresh = fresh.behind(|store| Hooked::new(store, count));
    register(&fresh, "slow").await;
    emit(&fresh, "ours.v1", 2).await;
    emit(&fresh, "theirs.v1", 6_000).await;
    emit(&fresh, "ours.v1", 5).await;
    while fresh.pulse().await.unwrap().more {}
    let carrier = |route: &str, pattern: &str| Carrier::new(route, Filter::any_of([pattern]));
    let found = async |types: &[&str], carriers: &[Carrier], limit| {
        let found = operate::undelivered(&*fresh, types, carriers, limit).await;
        let ids = found.unwrap().into_iter().map(|entry| entry.event.aggregate_id);
        ids.collect::<Vec<String>>()
    };
    let waiting = async |carriers: &[Carrier], limit| found(&["ours.v1"], carriers, limit).await;
    reads.store(0, Ordering::SeqCst);
    assert_eq!(waiting(&[carrier("slow", "**")], 100).await.len(), 7);
    let read = reads.load(Ordering::SeqCst);
    assert!(read <= 10, "{read} pages were read for two shards");
    assert_eq!(
        waiting(&[carrier("slow", "ours.*")], 3).await,
        ["0", "1", "0"],
        "the oldest"
    );
    let many = found(&["ours.v1", "theirs.v1"], &[carrier("slow", "ours.*")], 6).await;
    assert_eq!(many.len(), 6, "what the route does not carry takes no places");
    assert!(waiting(&[carrier("slow", "theirs.*")], 100).await.is_empty());
    assert!(waiting(&[carrier("another", "**")], 100).await.is_empty());
    assert!(waiting(&[], 100).await.is_empty());
}

#[tokio::test]
async fn sqlite_what_waits_behind_many_others_is_found() {
    what_waits_behind_many_others_is_found(fresh::sqlite().await).await;
}

#[tokio::test]
async fn postgres_what_waits_behind_many_others_is_found() {
    what_waits_behind_many_others_is_found(fresh::postgres().await).await;
}

#[tokio::test]
async fn mariadb_what_waits_behind_many_others_is_found() {
    what_waits_behind_many_others_is_found(fresh::mysql().await).await;
}
