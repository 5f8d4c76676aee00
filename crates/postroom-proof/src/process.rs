//! A child process to be killed or paused: only the one started here, by its own pid.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep};

/// Between two looks at a process that is to end.
const LOOK: Duration = Duration::from_millis(10);

/// A signal that has no effect by then never will.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A process of ours. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a program, its output going where ours goes.
    pub fn spawn<A: AsRef<OsStr>>(program: &Path, arguments: impl IntoIterator<Item = A>) -> Result<Self> {
        Self::run(Command::new(program).args(arguments).stdin(Stdio::null()))
    }

    /// Starts the program that is running now once more, with other arguments.
    pub fn spawn_self<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<Self> {
        let program = std::env::current_exe().map_err(|source| failed("find the running program", source))?;
        Self::spawn(&program, arguments)
    }

    /// Starts a command that may have an environment, a folder, a user and pipes of its own.
    pub fn run(command: &mut Command) -> Result<Self> {
        let program = command.get_program().display().to_string();
        let child = command
            .spawn()
            .map_err(|source| failed(format!("run {program}"), source))?;
        Ok(Self { child })
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// SIGKILL, and waits until it is gone: nothing of it runs any more.
    pub fn kill9(&mut self) -> Result<ExitStatus> {
        self.child.kill().map_err(|source| failed("kill a process", source))?;
        self.child
            .wait()
            .map_err(|source| failed("wait for a killed process", source))
    }

    /// SIGSTOP, and waits until it stands: it keeps its connections and locks, and does nothing.
    pub fn stop(&mut self) -> Result<()> {
        self.signal("STOP")?;
        let start = Instant::now();
        while !self.is_stopped()? {
            if start.elapsed() > STOP_MAX {
                return Err(Error::new(
                    ErrorKind::Failed,
                    format!("a process still runs {STOP_MAX:?} after SIGSTOP"),
                ));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// SIGCONT: it goes on as if no time had passed.
    pub fn cont(&mut self) -> Result<()> {
        self.signal("CONT")
    }

    /// SIGTERM: it may end in order; see [`Process::ended`].
    pub fn terminate(&mut self) -> Result<()> {
        self.signal("TERM")
    }

    /// Sends a signal by name, if the process has not ended.
    pub fn signal(&mut self, name: &str) -> Result<()> {
        // Until we have waited for it the pid is its own; after that it may be somebody else's.
        if self.status()?.is_some() {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("send {name} to a process that has ended"),
            ));
        }
        let sent = Command::new("sh")
            .args(["-c", r#"kill -s "$0" -- "$1""#, name, &self.pid().to_string()])
            .status()
            .map_err(|source| failed("run kill", source))?;
        if sent.success() {
            Ok(())
        } else {
            Err(Error::new(
                ErrorKind::Failed,
                format!("send {name} to a process: {sent}"),
            ))
        }
    }

    /// Every thread of it stands.
    fn is_stopped(&self) -> Result<bool> {
        let threads = format!("/proc/{}/task", self.pid());
        for thread in fs::read_dir(threads)
            .map_err(|source| failed("look at a process", source))?
            .flatten()
        {
            // A thread that ends meanwhile does nothing any more either.
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state follows the program's name, which stands in parentheses and may hold some itself.
            let is_running = stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('T'));
            if is_running {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How it ended; `None` while it runs or is stopped.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .map_err(|source| failed("look after a process", source))
    }

    /// Waits until it has ended by itself, at most `limit`.
    pub async fn ended(&mut self, limit: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            if start.elapsed() > limit {
                return Err(Error::new(
                    ErrorKind::Failed,
                    format!("a process still runs after {limit:?}"),
                ));
            }
            sleep(LOOK).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill9() {
            tracing::debug!(error = error.report(), "a process could not be killed");
        }
    }
}

/// An error of the operating system.
pub fn failed(doing: impl Into<String>, source: io::Error) -> Error {
    Error::caused(ErrorKind::Failed, doing, source)
}
