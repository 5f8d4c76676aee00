//! Faults at process level: relays that are killed or paused, databases that are restarted or away. Real processes, real
//! signals, and the history checker at the end.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom::inspect;
use postroom_testkit::process::Process;
use postroom_testkit::server::Server;
use postroom_testkit::verify::{LEASE, Reader, Run};
use postroom_testkit::{Fresh, Workload, fresh, server};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(90);

/// A run with writers, and relays as processes of their own.
struct Scene {
    fresh: Fresh,
    run: Run,
}

impl Scene {
    async fn new(fresh: Fresh) -> Self {
        // SQLite's writers take turns, and other processes poll for theirs: more of them would only starve the relays.
        let workload = Workload {
            prefix: "fault-".to_owned(),
            writers: if fresh.overlapping_writers { 4 } else { 1 },
            keys: 16,
            seed: 7,
        };
        let scene = Self {
            fresh,
            run: Run {
                workload,
                reader: Reader::Own,
                through: None,
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

    /// How often the lease has been taken.
    async fn epoch(&self) -> i64 {
        let status = inspect::status(&*self.fresh).await.unwrap();
        status.routes.iter().map(|route| route.epoch).max().unwrap_or(0)
    }

    /// Pauses the holder until it has been replaced; answers its epoch. On SQLite a process that is paused inside a
    /// transaction keeps the lock of the whole file, and nobody can replace it: then it is woken and paused again.
    async fn pause_holder(&self, relays: &mut [Process; 2]) -> i64 {
        // On a server the lease runs out, and a transaction that was caught open is ended by the server.
        let (tries, limit) = if self.fresh.overlapping_writers {
            (1, DEADLINE)
        } else {
            (20, LEASE * 4)
        };
        for _ in 0..tries {
            until("somebody holds the lease", async || self.holder().await.is_some()).await;
            let (holder, epoch) = (self.holder().await.unwrap(), self.epoch().await);
            let at = relays.iter().position(|relay| relay.pid() == holder).unwrap();
            relays[at].stop().unwrap();
            let replaced = until_or(limit, async || self.holder().await.is_some_and(|now| now != holder));
            if replaced.await {
                return epoch;
            }
            relays[at].cont().unwrap();
        }
        panic!("a paused holder was not replaced in {tries} tries");
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
    async fn check(&self, fault: Pin<Box<dyn Future<Output = ()> + '_>>) {
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
    assert!(until_or(DEADLINE, is_true).await, "waited {DEADLINE:?} until {what}");
}

/// Whether something became true in time.
async fn until_or(limit: Duration, is_true: impl AsyncFn() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if is_true().await {
            return true;
        }
        sleep(Duration::from_millis(20)).await;
    }
    false
}

/// Two relays; the holder is killed: the other goes on within the lease, and all is exact.
async fn a_killed_holder_is_replaced_within_the_lease(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let mut relays = [scene.relay(), scene.relay()];
    scene.run.until_registered(&*scene.fresh).await.unwrap();
    scene
        .check(Box::pin(async {
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
                // The lease runs out, then the other looks once a second; the rest is this machine's load, and on SQLite
                // the wait for the file's one write lock.
                let limit = if scene.fresh.overlapping_writers {
                    LEASE * 2 + Duration::from_secs(3)
                } else {
                    DEADLINE
                };
                assert!(took < limit, "take-over took {took:?}");
                scene.until_moving().await;
                relays[at] = scene.relay();
            }
        }))
        .await;
}

/// The holder is paused past its lease and wakes up: it has been replaced, stops itself, and nothing happens twice.
async fn a_paused_holder_cannot_move_anything(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let mut relays = [scene.relay(), scene.relay()];
    scene.run.until_registered(&*scene.fresh).await.unwrap();
    scene
        .check(Box::pin(async {
            scene.until_moving().await;
            let epoch = scene.pause_holder(&mut relays).await;
            scene.until_moving().await;
            relays.iter_mut().for_each(|relay| relay.cont().unwrap());
            scene.until_moving().await;
            // Whoever works it now, also the one that slept, has taken it anew.
            assert!(scene.epoch().await > epoch, "the tenure that slept is over");
            let all_run = relays.iter_mut().all(|relay| relay.status().unwrap().is_none());
            assert!(all_run, "it stops working, not running");
        }))
        .await;
}

/// The database is restarted in order and killed, then away for a while; the relay waits, goes on by itself, and all is exact.
async fn a_database_that_comes_back_is_found_again(mut server: Server, fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let mut relay = scene.relay();
    scene.run.until_registered(&*scene.fresh).await.unwrap();
    scene
        .check(Box::pin(async {
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
        }))
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
