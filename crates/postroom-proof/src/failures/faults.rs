//! Two relay processes, killed and paused in turn.

use std::path::Path;
use std::time::Duration;

use postroom::{Inspect, Result};
use sea_orm::DbBackend;
use tokio::time::{Instant, sleep};

use super::{Failures, journal};
use crate::process::Process;
use crate::verify::{LEASE, effects};

/// Between two faults.
const CALM: Duration = Duration::from_millis(1_200);
/// Past the lease: another process has taken over by then.
const PAUSE: Duration = Duration::from_millis(3_500);
/// How often a fault looks for a moment at which an effect is not committed.
const AIMS: u32 = 100;
/// Between two such looks.
const AIM: Duration = Duration::from_millis(5);

/// The relay processes of a run.
pub(super) struct Relays<'a> {
    folder: &'a Path,
    store: &'a dyn Inspect,
    spawn: &'a (dyn Fn() -> Result<Process> + Sync),
    processes: [Process; 2],
    pub(super) kills: u32,
    /// Kills that met an effect which was not committed.
    pub(super) interrupted: u64,
    /// Pauses for longer than the lease.
    pub(super) paused: u64,
}

impl<'a> Relays<'a> {
    pub(super) fn start(
        run: &'a Failures,
        store: &'a dyn Inspect,
        spawn: &'a (dyn Fn() -> Result<Process> + Sync),
    ) -> Result<Self> {
        Ok(Self {
            folder: &run.folder,
            store,
            spawn,
            processes: [spawn()?, spawn()?],
            kills: 0,
            interrupted: 0,
            paused: 0,
        })
    }

    /// Kills the one, pauses the other, kills that, pauses the first, and so on, for this long; up to three times as long until a kill
    /// has met an effect that was not committed. Of two kills one is aimed (on SQLite both, less well), the other comes at any moment.
    pub(super) async fn fault(&mut self, length: Duration, tell: &(dyn Fn(&str) + Sync)) -> Result<()> {
        let begun = Instant::now();
        for turn in 0_usize.. {
            let left = length.saturating_sub(begun.elapsed());
            tell(&format!("writing, failing and killing, {} s to go", left.as_secs()));
            sleep(CALM).await;
            let is_over = self.interrupted > 0 || begun.elapsed() > 3 * length;
            if left <= CALM && is_over {
                break;
            }
            let which = turn.div_ceil(2) % 2; // kill 0, pause 1, kill 1, pause 0
            if turn % 2 == 1 {
                self.pause(which).await?;
                continue;
            }
            if turn % 4 == 0 || self.is_sqlite() {
                self.aim(which).await?;
            }
            self.kill(which).await?;
        }
        Ok(())
    }

    /// Kills a process and starts another.
    async fn kill(&mut self, which: usize) -> Result<()> {
        let Some(process) = self.processes.get_mut(which) else {
            return Ok(());
        };
        let pid = process.pid();
        process.kill9()?;
        *process = (self.spawn)()?;
        self.kills += 1;
        // A store that does not answer now is no reason to stop.
        let is_interrupted = is_in_the_middle(self.folder, self.store, pid).await.unwrap_or(false);
        self.interrupted += u64::from(is_interrupted);
        Ok(())
    }

    /// Pauses a process for longer than its lease, and wakes it. On SQLite at any moment: in the middle of its work it would keep
    /// the one write lock of the file, and nobody could take over.
    async fn pause(&mut self, which: usize) -> Result<()> {
        if !self.is_sqlite() {
            self.aim(which).await?;
        }
        let Some(process) = self.processes.get_mut(which) else {
            return Ok(());
        };
        process.stop()?;
        let begun = Instant::now();
        sleep(PAUSE).await;
        process.cont()?;
        self.paused += u64::from(begun.elapsed() > LEASE);
        Ok(())
    }

    fn is_sqlite(&self) -> bool {
        self.store.db().get_database_backend() == DbBackend::Sqlite
    }

    /// Waits for a moment in the middle of a process's work, and stops it there, unless none comes. On SQLite, where one that is
    /// stopped there lets nobody look, it is not stopped, but has just begun to work on an event.
    async fn aim(&mut self, which: usize) -> Result<()> {
        let is_sqlite = self.is_sqlite();
        let Some(process) = self.processes.get_mut(which) else {
            return Ok(());
        };
        let pid = process.pid();
        let before = journal::last_calls(self.folder, pid);
        for _ in 0..AIMS {
            if is_sqlite && journal::last_calls(self.folder, pid) != before {
                return Ok(());
            }
            if !is_sqlite {
                process.stop()?;
                if is_in_the_middle(self.folder, self.store, pid).await? {
                    return Ok(());
                }
                process.cont()?;
            }
            sleep(AIM).await;
        }
        Ok(())
    }
}

/// Whether a relay process of a run, which stands still or has ended, has an effect that is not committed.
pub async fn is_in_the_middle(folder: &Path, store: &dyn Inspect, pid: u32) -> Result<bool> {
    for (group, change) in journal::last_calls(folder, pid) {
        if !effects::has(store.db(), group.name(), &change).await? {
            return Ok(true);
        }
    }
    Ok(false)
}
