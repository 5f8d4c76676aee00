//! The query plans of the inbox.

use std::sync::Arc;
use std::time::Duration;

use postroom::{Event, Relay, Result, Subscriber, Tx};
use postroom_postgres::{Postgres, append};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::fresh::{Fresh, event};

const PATIENCE: Duration = Duration::from_secs(30);
const EVENTS: i64 = 3_000;

async fn nothing(_tx: &mut Tx, _event: &Event) -> Result<()> {
    Ok(())
}

/// Waits until a query answers at least this.
async fn at_least(db: &Fresh, query: &str, number: i64) {
    let begun = Instant::now();
    while db.number(query).await < number {
        assert!(begun.elapsed() < PATIENCE, "{query} does not come to {number}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Plans of prepared statements are made on the first chunks, when the inbox is empty, and nobody analyses it meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inbox_that_grows_is_never_read_as_a_whole() {
    let db = Fresh::new().await;
    db.sql("alter table postroom.event_handled set (autovacuum_enabled = off)")
        .await;
    let mut tx = db.begin().await;
    let events: Vec<Event> = (0..EVENTS)
        .map(|number| event(&format!("k{}", number % 50), "t"))
        .collect();
    append(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    let store: Arc<Postgres> = Arc::new(db.second().await);
    let stop = CancellationToken::new();
    let relay = Relay::new(store)
        .route(Subscriber::matching("s", ["**"], nothing).into_route())
        .run(stop.clone());
    let watch = async {
        let delivered = "select coalesce(sum(delivered), 0)::bigint from postroom.outbox_cursor";
        at_least(&db, delivered, EVENTS).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay, watch);
    ended.unwrap();
    let scanned = |kind: &str| format!("select {kind} from pg_stat_user_tables where relname = 'event_handled'");
    at_least(&db, &scanned("idx_scan"), EVENTS / 100).await;
    assert_eq!(
        db.number(&scanned("seq_tup_read")).await,
        0,
        "rows were read one by one"
    );
}
