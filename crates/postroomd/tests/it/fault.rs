//! Faults at process level: relays that are killed or paused, databases that are restarted or away. Real processes, real
//! signals, and the history checker at the end.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom::inspect;
use postroom_testkit::process::Process;
use postroom_testkit::server::Server;
use postroom_testkit::verify::{LEASE, Reader, Run};
use postroom_testkit::{Fresh, Workload, fresh, server};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(60);

/// A run with writers, and relays as processes of their own.
struct Scene {
    fresh: Fresh,
    run: Run,
}

impl Scene {
    async fn new(fresh: Fresh) -> Self {
        let workload = Workload {
            prefix: "fault-".to_owned(),
            writers: 4,
            keys: 16,
            seed: 7,
        };
        let scene = Self {
            fresh,
            run: Run {
                workload,
                reader: Reader::Own,
            },
        };
        scene.run.prepare(&*scene.fresh).await.unwrap();
        scene
    }

    fn relay(&self) -> Process {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_postroom")));
        command
            .args(["verify", "--relay-of", &self.run.workload.prefix])
            .env("POSTROOM__STORE__URL", self.fresh.url())
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Process::run(&mut command).unwrap()
    }

    /// Who holds the lease: the process id is part of the owner's name.
    async fn holder(&self) -> Option<u32> {
        let status = inspect::status(&*self.fresh).await.ok()?;
        let route = status.routes.into_iter().find(|route| route.is_leased)?;
        route.owner?.split(':').nth(1)?.parse().ok()
    }

    async fn effects(&self) -> u64 {
        self.run.effects(self.fresh.db()).await.unwrap_or(0)
    }

    /// Waits until effects go on.
    async fn until_moving(&self) {
        let before = self.effects().await;
        until("effects go on", async || self.effects().await > before + 20).await;
    }

    /// Writes while `fault` happens, then checks that nothing was lost, invented, doubled or disordered.
    async fn check(&self, fault: impl Future<Output = ()>) {
        let fault = Box::pin(fault);
        let stop = CancellationToken::new();
        let db = self.fresh.writers(4).await;
        let writing = self.run.workload.run(&db, &stop);
        let faulting = async {
            fault.await;
            stop.cancel();
        };
        let (tally, ()) = tokio::join!(writing, faulting);
        let tally = tally.unwrap();
        let (findings, history, truth) = self.run.finish(&*self.fresh, &CancellationToken::new()).await.unwrap();
        assert!(
            findings.is_exact(),
            "{findings:?}\n{}",
            history.explain(&truth, 5).join("\n")
        );
        assert!(
            findings.events > 100 && tally.commits > 0,
            "too little happened to prove anything: {findings:?}"
        );
    }
}

async fn until(what: &str, is_true: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < DEADLINE, "waited {DEADLINE:?} until {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Two relays; the holder is killed: the other goes on within the lease, and all is exact.
async fn a_killed_holder_is_replaced_within_the_lease(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let mut relays = [scene.relay(), scene.relay()];
    scene.run.until_registered(&*scene.fresh).await.unwrap();
    scene
        .check(async {
            scene.until_moving().await;
            for _ in 0..2 {
                until("somebody holds the lease", async || scene.holder().await.is_some()).await;
                let holder = scene.holder().await.unwrap();
                let killed_at = Instant::now();
                let at = relays.iter().position(|relay| relay.pid() == holder).unwrap();
                relays[at].kill9().unwrap();
                until("another holds it", async || {
                    scene.holder().await.is_some_and(|now| now != holder)
                })
                .await;
                let took = killed_at.elapsed();
                // The lease runs out, then the other looks once a second; the rest is this machine's load.
                assert!(took < LEASE * 2 + Duration::from_secs(3), "take-over took {took:?}");
                scene.until_moving().await;
                relays[at] = scene.relay();
            }
        })
        .await;
}

/// The holder is paused past its lease and wakes up: it has been replaced, stops itself, and nothing happens twice.
async fn a_paused_holder_cannot_move_anything(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let mut relays = [scene.relay(), scene.relay()];
    scene.run.until_registered(&*scene.fresh).await.unwrap();
    scene
        .check(async {
            scene.until_moving().await;
            let holder = scene.holder().await.unwrap();
            let at = relays.iter().position(|relay| relay.pid() == holder).unwrap();
            relays[at].stop().unwrap();
            until("another holds it", async || {
                scene.holder().await.is_some_and(|now| now != holder)
            })
            .await;
            scene.until_moving().await;
            relays[at].cont().unwrap();
            scene.until_moving().await;
            assert_ne!(
                scene.holder().await,
                Some(holder),
                "the one that slept has not taken it back by itself"
            );
            assert!(relays[at].status().unwrap().is_none(), "it stops working, not running");
        })
        .await;
}

/// The database is restarted in order and killed, then away for a while; the relay waits, goes on by itself, and all is exact.
async fn a_database_that_comes_back_is_found_again(mut server: Server, fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let mut relay = scene.relay();
    scene.run.until_registered(&*scene.fresh).await.unwrap();
    scene
        .check(async {
            scene.until_moving().await;
            server.restart().await.unwrap();
            scene.until_moving().await;
            server.kill().unwrap();
            server.restart().await.unwrap();
            scene.until_moving().await;
            server.stop().await.unwrap();
            sleep(LEASE * 2).await; // away longer than a lease: that is the fault itself
            server.restart().await.unwrap();
            scene.until_moving().await;
            assert!(
                relay.status().unwrap().is_none(),
                "a relay does not end because its database is away"
            );
        })
        .await;
}

mod sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_killed_holder_is_replaced_within_the_lease() {
        super::a_killed_holder_is_replaced_within_the_lease(fresh::sqlite().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_paused_holder_cannot_move_anything() {
        super::a_paused_holder_cannot_move_anything(fresh::sqlite().await).await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_killed_holder_is_replaced_within_the_lease() {
        super::a_killed_holder_is_replaced_within_the_lease(fresh::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_paused_holder_cannot_move_anything() {
        super::a_paused_holder_cannot_move_anything(fresh::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_that_comes_back_is_found_again() {
        let server = server::postgres(&[]).await;
        let fresh = fresh::postgres_on(&server.url()).await;
        Box::pin(super::a_database_that_comes_back_is_found_again(server, fresh)).await;
    }
}

mod mysql {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_killed_holder_is_replaced_within_the_lease() {
        super::a_killed_holder_is_replaced_within_the_lease(fresh::mysql().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_paused_holder_cannot_move_anything() {
        super::a_paused_holder_cannot_move_anything(fresh::mysql().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_that_comes_back_is_found_again() {
        let server = server::mariadb(&[]).await;
        let fresh = fresh::mysql_on(&server.url()).await;
        Box::pin(super::a_database_that_comes_back_is_found_again(server, fresh)).await;
    }
}
