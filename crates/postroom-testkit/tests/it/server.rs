//! A private server can be stopped, killed and restarted; and what is committed survives that.

use std::time::Duration;

use postroom_proof::Workload;
use postroom_testkit::server::{self, Server};
use postroom_testkit::{Fresh, Receiver, fresh};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Writes and reads while the server is killed twice, and finds everything exact.
async fn crash_under_load(mut server: Server, fresh: Fresh) {
    let workload = Workload {
        writers: 8,
        ..Workload::default()
    };
    let writers = fresh.writers(workload.writers).await;
    workload.prepare(&writers).await.unwrap();
    let mut receiver = Receiver::new(fresh.store(), 7);
    let stop = CancellationToken::new();
    let (tally, received, ()) = tokio::join!(workload.run(&writers, &stop), receiver.run(&stop), async {
        for _ in 0..2 {
            sleep(Duration::from_secs(2)).await;
            server.kill().unwrap();
            server.restart().await.unwrap();
        }
        sleep(Duration::from_secs(2)).await;
        stop.cancel();
    });
    received.unwrap();
    let tally = tally.unwrap();
    assert!(tally.aborts > 0, "the writers noticed: {tally:?}");
    let truth = workload.truth(&writers).await.unwrap();
    let findings = receiver.finish(&truth).await.unwrap();
    println!("{findings:?} {tally:?}");
    assert!(
        findings.is_exact() && findings.events > 100,
        "{findings:?} {:#?}",
        receiver.history().explain(&truth, 5)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_killed_under_load_loses_nothing() {
    let server = server::postgres(&[]).await;
    let fresh = fresh::postgres_on(&server.url()).await;
    crash_under_load(server, fresh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_killed_under_load_loses_nothing() {
    // The other way of drawing ids than the shared server's.
    let server = server::mariadb(&["innodb-autoinc-lock-mode=2"]).await;
    let fresh = fresh::mysql_on(&server.url()).await;
    crash_under_load(server, fresh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_is_away_until_it_is_restarted() {
    for mut server in [
        server::postgres(&["max_connections=20"]).await,
        server::mariadb(&["max-connections=20"]).await,
    ] {
        let url = server.url();
        server.stop().await.unwrap();
        assert!(std::net::TcpStream::connect(address(&url)).is_err(), "nobody answers");
        server.restart().await.unwrap();
        assert_eq!(server.url(), url, "at the same address");
        sea_orm::Database::connect(&url).await.unwrap().ping().await.unwrap();
    }
}

fn address(url: &str) -> &str {
    url.split('@').nth(1).unwrap().split('/').next().unwrap()
}
