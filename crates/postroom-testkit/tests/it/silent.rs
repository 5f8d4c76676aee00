//! A network that falls silent under load: no connection answers any more, and none is closed. Events flow again soon after new
//! connections reach the database.

use std::time::{Duration, Instant};

use postroom::table::{self, Table, named};
use postroom::{Event, Relay, Result, Subscriber, Tx, append};
use postroom_testkit::cable::Cable;
use postroom_testkit::certificate::Certificates;
use postroom_testkit::{Fresh, fresh, server};
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection};
use serde_json::value::to_raw_value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const ROUTES: usize = 30;
/// Forty transactions a second.
const PAUSE: Duration = Duration::from_millis(25);
const LOAD: Duration = Duration::from_secs(3);
/// Events flow again within this time after the network is back.
const BACK: Duration = Duration::from_secs(60);

/// How long the network is silent; the whole half minute takes longer than the rest of the suite.
fn silence() -> Duration {
    let seconds = std::env::var("POSTROOM_TEST_SILENT_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(8))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_on_postgres() {
    on_postgres(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_postgres() {
    on_postgres(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_on_mysql() {
    on_mysql(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_mysql() {
    on_mysql(2).await;
}

/// The driver's close of an encrypted connection waits for the peer, which never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_on_postgres() {
    let certificates = Certificates::of("postgres");
    let files = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", certificates.certificate().display()),
        format!("ssl_key_file={}", certificates.key().display()),
    ];
    let server = server::postgres(&files.each_ref().map(String::as_str)).await;
    let (cable, through) = lay(&server.url()).await;
    falls_silent(fresh::postgres_on(&through).await, 1, &cable, &server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_on_mysql() {
    let certificates = Certificates::of("mysql");
    let files = [
        format!("ssl-ca={}", certificates.authority().display()),
        format!("ssl-cert={}", certificates.certificate().display()),
        format!("ssl-key={}", certificates.key().display()),
    ];
    let server = server::mariadb(&files.each_ref().map(String::as_str)).await;
    let (cable, through) = lay(&server.url()).await;
    falls_silent(fresh::mysql_on(&through).await, 1, &cable, &server.url()).await;
}

async fn on_postgres(processes: usize) {
    let url = std::env::var("POSTROOM_TEST_POSTGRES_URL").unwrap();
    let (cable, through) = lay(&url).await;
    falls_silent(fresh::postgres_on(&through).await, processes, &cable, &url).await;
}

async fn on_mysql(processes: usize) {
    let url = std::env::var("POSTROOM_TEST_MYSQL_URL").unwrap();
    let (cable, through) = lay(&url).await;
    falls_silent(fresh::mysql_on(&through).await, processes, &cable, &url).await;
}

/// A cable to the server of an address, and the address through it.
async fn lay(url: &str) -> (Cable, String) {
    let cable = Cable::to(host(url)).await;
    let through = url.replacen(host(url), &cable.address.to_string(), 1);
    (cable, through)
}

fn host(url: &str) -> &str {
    let (_, behind) = url.rsplit_once('@').unwrap();
    behind.split('/').next().unwrap()
}

/// Every connection of the relays goes silent while events flow. The writer has a connection that does not use the cable.
async fn falls_silent(fresh: Fresh, processes: usize, cable: &Cable, direct: &str) {
    let through = fresh.url();
    let writer = Database::connect(through.replacen(host(&through), host(direct), 1));
    let writer = writer.await.unwrap();
    let (stop, mut relays) = (CancellationToken::new(), JoinSet::new());
    for _ in 0..processes {
        let subscribers = (0..ROUTES).map(|n| Subscriber::matching(format!("s{n}"), ["**"], nothing));
        let relay = Relay::new(fresh.second().await);
        relays.spawn(subscribers.fold(relay, Relay::subscriber).run(stop.clone()));
    }
    let mut emitted = load(&writer, LOAD).await;
    cable.silence();
    emitted += load(&writer, silence()).await;
    cable.mend();
    let mended = Instant::now();
    emitted += load(&writer, LOAD).await;
    while handled(&writer).await < emitted * ROUTES {
        let missing = emitted * ROUTES - handled(&writer).await;
        assert!(
            mended.elapsed() < BACK,
            "{missing} effects are missing after {:?}",
            mended.elapsed()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    while let Some(ended) = relays.join_next().await {
        ended.unwrap().unwrap();
    }
}

/// Emits for a while; answers how many events.
async fn load(writer: &DatabaseConnection, span: Duration) -> usize {
    let (begun, mut emitted) = (Instant::now(), 0);
    while begun.elapsed() < span {
        let tx = table::begin(writer).await.unwrap();
        let event = Event::new(
            "silent.thing.happened.v1",
            "thing",
            "key",
            to_raw_value(&emitted).unwrap(),
        );
        append(&tx, &[event.unwrap()]).await.unwrap();
        tx.commit().await.unwrap();
        emitted += 1;
        tokio::time::sleep(PAUSE).await;
    }
    emitted
}

async fn nothing(_tx: &mut Tx, _event: &Event) -> Result<()> {
    Ok(())
}

async fn handled(db: &DatabaseConnection) -> usize {
    let mut select = Query::select();
    select
        .expr_as(Expr::cust("count(*)"), "handled")
        .from(named(db, Table::Handled));
    let row = db.query_one(&select).await.unwrap().unwrap();
    usize::try_from(row.try_get::<i64>("", "handled").unwrap()).unwrap()
}
