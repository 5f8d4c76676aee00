//! A database that falls silent, as a machine does that vanishes, is given up and found again.

use std::time::Duration;

use postroom::table::{self, Table, named};
use postroom::{DatabaseTransaction, Event, Relay, Result, Subscriber, append};
use postroom_testkit::cable::Cable;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::sea_query::{Asterisk, Query};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection};
use serde_json::value::to_raw_value;
use tokio_util::sync::CancellationToken;

const EVENTS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let url = std::env::var("POSTROOM_TEST_POSTGRES_URL").unwrap();
    let (cable, through) = lay(&url).await;
    falls_silent(fresh::postgres_on(&through).await, &cable, &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql() {
    let url = std::env::var("POSTROOM_TEST_MYSQL_URL").unwrap();
    let (cable, through) = lay(&url).await;
    falls_silent(fresh::mysql_on(&through).await, &cable, &url).await;
}

/// A cable to the server of an address, and the address through it.
async fn lay(url: &str) -> (Cable, String) {
    let cable = Cable::to(server(url)).await;
    let through = url.replacen(server(url), &cable.address.to_string(), 1);
    (cable, through)
}

fn server(url: &str) -> &str {
    let (_, behind) = url.rsplit_once('@').unwrap();
    behind.split('/').next().unwrap()
}

/// Every connection of a relay goes silent while events flow. The writer has another one.
async fn falls_silent(fresh: Fresh, cable: &Cable, direct: &str) {
    let through = fresh.url();
    let writer = Database::connect(through.replacen(server(&through), server(direct), 1));
    let writer = writer.await.unwrap();
    let stop = CancellationToken::new();
    let mut subscriber = Subscriber::new("s", "**", nothing);
    subscriber.timeout = Duration::from_secs(1);
    let relay = Relay::new(fresh.store()).subscriber(subscriber);
    let work = async {
        for n in 0..EVENTS {
            let tx = table::begin(&writer).await.unwrap();
            let event = Event::new("silent.thing.happened.v1", "thing", "key", to_raw_value(&n).unwrap());
            append(&tx, &[event.unwrap()]).await.unwrap();
            tx.commit().await.unwrap();
            if n == EVENTS / 2 {
                cable.cut();
            }
        }
        until("all are handled", || async { handled(&writer).await == EVENTS }).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay.run(stop.clone()), work);
    ended.unwrap();
}

async fn nothing(_tx: &DatabaseTransaction, _event: &Event) -> Result<()> {
    Ok(())
}

async fn handled(db: &DatabaseConnection) -> usize {
    let mut select = Query::select();
    select.column(Asterisk).from(named(db, Table::Handled));
    db.query_all(&select).await.unwrap().len()
}
