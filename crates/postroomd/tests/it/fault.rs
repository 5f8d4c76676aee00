//! Faults at process level: relays that are killed or paused, databases that are restarted or away. Real processes, real
//! signals, and the history checker at the end.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test harness: what is missing has failed"
)]

use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom::operate;
use postroom_proof::Workload;
use postroom_proof::failures::is_in_the_middle;
use postroom_proof::process::Process;
use postroom_proof::verify::{LEASE, Reader, Run};
use postroom_testkit::server::Server;
use postroom_testkit::{Fresh, fresh, server};
use sea_orm::{ConnectionTrait, DbBackend, Statement, TransactionTrait};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(90);
/// How long two relays, four writers and a database on two cores may delay a take-over.
const SCHEDULING_MAX: Duration = Duration::from_secs(1);

/// A run with writers, and relays as processes of their own.
struct Scene {
    fresh: Fresh,
    run: Run,
    /// Where relays without an inbox keep their journals.
    journals: Option<TempDir>,
}

impl Scene {
    async fn new(fresh: Fresh) -> Self {
        Self::with(fresh, None).await
    }

    /// The same without an inbox: one effect is the fence's work alone.
    async fn without_inbox(fresh: Fresh) -> Self {
        Self::with(fresh, Some(tempfile::tempdir().unwrap())).await
    }

    async fn with(fresh: Fresh, journals: Option<TempDir>) -> Self {
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
                natural: journals.as_ref().map(|folder| folder.path().to_owned()),
            },
            journals,
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
        if let Some(journals) = &self.journals {
            command.arg("--journal").arg(journals.path());
        }
        Process::run(&mut command).unwrap()
    }

    /// The process that holds the lease: its id is part of the owner's name.
    async fn holder(&self) -> Option<u32> {
        let status = operate::status(&*self.fresh).await.ok()?;
        let route = status.routes.into_iter().find(|route| route.is_leased)?;
        route.owner?.split(':').nth(1)?.parse().ok()
    }

    /// Pauses the holder until it has been replaced. Where it can be replaced then, it is paused when its effects are written and
    /// not committed; on SQLite a process that is paused inside a transaction keeps the lock of the whole file, and nobody can
    /// replace it: then it is woken and paused again.
    async fn pause_holder(&self, relays: &mut [Process; 2]) {
        let can_be_replaced = self.fresh.overlapping_writers;
        let limit = if can_be_replaced { DEADLINE } else { LEASE * 4 };
        for _ in 0..500 {
            let (at, holder) = self.stop_holder(relays).await;
            let is_aimed = !can_be_replaced || self.is_in_the_middle(holder).await;
            let replaced = async || self.holder().await.is_some_and(|now| now != holder);
            if is_aimed && until_or(limit, replaced).await {
                return;
            }
            relays[at].cont().unwrap();
        }
        panic!("a paused holder was not replaced");
    }

    /// Stops the holder; answers which it is, and its id.
    async fn stop_holder(&self, relays: &mut [Process; 2]) -> (usize, u32) {
        until("somebody holds the lease", async || self.holder().await.is_some()).await;
        let holder = self.holder().await.unwrap();
        let at = relays.iter().position(|relay| relay.pid() == holder).unwrap();
        relays[at].stop().unwrap();
        (at, holder)
    }

    /// The lease expires, and the standby looks for expired leases every second. SQLite has no limit: the standby may wait longer
    /// for the one write lock of the file.
    fn assert_taken_over_since(&self, begun: Instant) {
        let took = begun.elapsed();
        let limit = LEASE + Duration::from_secs(1) + SCHEDULING_MAX;
        println!("the standby took over after {took:?}");
        assert!(
            took < limit || !self.fresh.overlapping_writers,
            "take-over took {took:?}, longer than {limit:?}"
        );
    }

    async fn is_in_the_middle(&self, process: u32) -> bool {
        let folder = self.journals.as_ref().unwrap().path();
        is_in_the_middle(folder, &*self.fresh, process).await.unwrap()
    }

    /// Waits for a database that does not answer: zero would count as the beginning.
    async fn effects(&self) -> u64 {
        loop {
            match self.run.effects(self.fresh.db()).await {
                Ok(effects) => return effects,
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
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
                scene.assert_taken_over_since(killed_at);
                scene.until_moving().await;
                relays[at] = scene.relay();
            }
        }))
        .await;
}

/// The holder is paused past its lease, with effects that are written and not committed, and wakes up: it has been replaced, stops
/// itself, and nothing happens twice. There is no inbox to help: only the fence.
async fn a_paused_holder_cannot_move_anything(fresh: Fresh) {
    let scene = Scene::without_inbox(fresh).await;
    let mut relays = [scene.relay(), scene.relay()];
    scene.run.until_registered(&*scene.fresh).await.unwrap();
    scene
        .check(Box::pin(async {
            for _ in 0..2 {
                scene.until_moving().await;
                scene.pause_holder(&mut relays).await;
                scene.until_moving().await;
                relays.iter_mut().for_each(|relay| relay.cont().unwrap());
            }
            scene.until_moving().await;
            let all_run = relays.iter_mut().all(|relay| relay.status().unwrap().is_none());
            assert!(all_run, "it stops working, not running");
        }))
        .await;
}

/// Makes every move of a cursor take a while, so that whoever stops a relay stops it between that and its commit.
fn slow_cursor(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => {
            "create function slow_cursor() returns trigger language plpgsql as $$
             begin perform pg_sleep(0.2); return null; end $$;
             create trigger slow_cursor after update of position on postroom.outbox_cursor
             for each row when (old.position <> new.position) execute function slow_cursor()"
        }
        _ => {
            "create trigger slow_cursor after update on postroom_outbox_cursor for each row
             begin if old.position <> new.position then do sleep(0.2); end if; end"
        }
    }
}

/// Whether nobody holds the row of any cursor.
async fn are_cursors_free(fresh: &Fresh) -> bool {
    let backend = fresh.db().get_database_backend();
    let table = match backend {
        DbBackend::Postgres => "postroom.outbox_cursor",
        _ => "postroom_outbox_cursor",
    };
    let tx = fresh.db().begin().await.unwrap();
    let rows = format!("select route from {table} for update skip locked");
    let free = tx.query_all_raw(Statement::from_string(backend, rows)).await.unwrap();
    tx.rollback().await.unwrap();
    !free.is_empty()
}

/// The holder is paused between the move of its cursor and its commit, with the defaults of a subscriber: it is replaced within the
/// lease all the same.
async fn a_holder_paused_before_its_commit_is_replaced_within_the_lease(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let sql = slow_cursor(scene.fresh.db().get_database_backend());
    scene.fresh.db().execute_unprepared(sql).await.unwrap();
    let mut relays = [scene.relay(), scene.relay()];
    scene.run.until_registered(&*scene.fresh).await.unwrap();
    scene
        .check(Box::pin(async {
            scene.until_moving().await;
            let (at, holder) = loop {
                let (at, holder) = scene.stop_holder(&mut relays).await;
                sleep(Duration::from_millis(300)).await; // what the server does for it is at its end
                if !are_cursors_free(&scene.fresh).await {
                    break (at, holder);
                }
                relays[at].cont().unwrap();
            };
            let begun = Instant::now();
            until("another holds it", async || {
                scene.holder().await.is_some_and(|now| now != holder)
            })
            .await;
            scene.assert_taken_over_since(begun);
            scene.until_moving().await;
            relays[at].cont().unwrap();
            scene.until_moving().await;
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

/// Tests that limit a time: `cargo xtask test` runs them one at a time, after all others.
mod alone {
    use super::*;

    mod postgres {
        use super::*;

        #[tokio::test(flavor = "multi_thread")]
        async fn a_killed_holder_is_replaced_within_the_lease() {
            super::a_killed_holder_is_replaced_within_the_lease(fresh::postgres().await).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn a_holder_paused_before_its_commit_is_replaced_within_the_lease() {
            super::a_holder_paused_before_its_commit_is_replaced_within_the_lease(fresh::postgres().await).await;
        }
    }

    mod mysql {
        use super::*;

        #[tokio::test(flavor = "multi_thread")]
        async fn a_killed_holder_is_replaced_within_the_lease() {
            super::a_killed_holder_is_replaced_within_the_lease(fresh::mysql().await).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn a_holder_paused_before_its_commit_is_replaced_within_the_lease() {
            super::a_holder_paused_before_its_commit_is_replaced_within_the_lease(fresh::mysql().await).await;
        }
    }
}
