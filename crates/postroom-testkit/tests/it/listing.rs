//! Looking for what waits: found however far it is, and without reading everything in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use postroom::inspect::{self, Carrier};
use postroom::{
    Event, Filter, Inspect, Migration, OpenTransaction, Outbox, Page, Position, Prune, Pulse, Relay, Result,
    Subscriber, append, parse_payload, table,
};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::{DatabaseConnection, DatabaseTransaction};
use tokio_util::sync::CancellationToken;

/// A store that counts how often it is read.
#[derive(Debug)]
struct Counting {
    store: Arc<dyn Inspect>,
    reads: Arc<AtomicUsize>,
}

#[async_trait]
impl Outbox for Counting {
    fn db(&self) -> &DatabaseConnection {
        self.store.db()
    }

    fn migrations(&self) -> &'static [Migration] {
        self.store.migrations()
    }

    async fn pulse(&self) -> Result<Pulse> {
        self.store.pulse().await
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.read(after, limit).await
    }

    async fn head(&self) -> Result<Position> {
        self.store.head().await
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        self.store.prune(prune).await
    }
}

#[async_trait]
impl Inspect for Counting {
    async fn backlog(&self, after: Position) -> Result<u64> {
        self.store.backlog(after).await
    }

    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        self.store.open_transactions().await
    }
}

async fn nothing(_tx: &DatabaseTransaction, _event: &Event) -> Result<()> {
    Ok(())
}

/// Makes a route of two shards known, which nobody works any more.
async fn register(fresh: &Fresh, route: &str) {
    let mut subscriber = Subscriber::new(route, "**", nothing);
    subscriber.shards = 2;
    let stop = CancellationToken::new();
    let running = Relay::new(fresh.store() as _).subscriber(subscriber).run(stop.clone());
    let known = async {
        until("the route is known", || async {
            inspect::status(&**fresh).await.unwrap().routes.len() == 2
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
    let fresh = fresh.behind(|store| Counting {
        store,
        reads: Arc::clone(&reads),
    });
    register(&fresh, "slow").await;
    emit(&fresh, "ours.v1", 2).await;
    emit(&fresh, "theirs.v1", 6_000).await;
    emit(&fresh, "ours.v1", 5).await;
    while fresh.pulse().await.unwrap().more {}
    let carrier = |route: &str, pattern: &str| Carrier {
        route: route.to_owned(),
        filter: Filter::any_of([pattern]),
    };
    let waiting = async |carriers: &[Carrier], limit| {
        let found = inspect::undelivered(&*fresh, &["ours.v1"], carriers, limit).await;
        let ids = found.unwrap().into_iter().map(|entry| entry.event.aggregate_id);
        ids.collect::<Vec<String>>()
    };
    reads.store(0, Ordering::SeqCst);
    assert_eq!(waiting(&[carrier("slow", "**")], 100).await.len(), 7);
    let read = reads.load(Ordering::SeqCst);
    assert!(read <= 5, "{read} pages were read for two shards at one place");
    assert_eq!(
        waiting(&[carrier("slow", "ours.*")], 3).await,
        ["0", "1", "0"],
        "the oldest"
    );
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
