//! A private server's folder, log, account and process.
//!
//! The module of each server holds its settings and its readiness check.

#![expect(clippy::panic, reason = "a test harness: a test without its server has failed")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use postroom_proof::process::{Process, failed};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::fresh::variable;

/// A server that has not answered, or not ended, by then is broken.
const ANSWER_MAX: Duration = Duration::from_secs(90);
/// A first word that is not answered by then is asked again.
const WORD_MAX: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// The home of one server. Dropping it kills the server and removes the folder.
#[derive(Debug)]
pub(crate) struct Home {
    folder: PathBuf,
    /// Whom the server runs as when we are root.
    user: Option<(u32, u32)>,
    process: Option<Process>,
}

impl Home {
    /// An empty folder for a server that runs as this account when we are root; without one it runs as we do.
    pub(crate) fn create(account: Option<&str>) -> Result<Self> {
        let home = Self {
            folder: Path::new(&variable("POSTROOM_TEST_SERVICES_DIR")).join(Uuid::now_v7().simple().to_string()),
            user: account.map(user).transpose()?.flatten(),
            process: None,
        };
        fs::create_dir_all(&home.folder).map_err(|source| failed("make the server's folder", source))?;
        if let Some((uid, gid)) = home.user {
            chown(&home.folder, Some(uid), Some(gid))
                .map_err(|source| failed("give the folder to the server", source))?;
        }
        Ok(home)
    }

    /// The path of something in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file that the server reads.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.path(name), text).map_err(|source| failed(format!("write {name}"), source))
    }

    /// A program in the folder, as the server's user.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            // A MariaDB that starts removes the temporary tables of any other that shares its folder for them.
            .env("TMPDIR", &self.folder)
            .stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// The file that everything here writes its output to.
    pub(crate) fn log(&self) -> Result<File> {
        let file = File::options().append(true).create(true).open(self.path("log"));
        file.map_err(|source| failed("open the server's log", source))
    }

    /// Runs a server in the background, its output going to the log.
    pub(crate) fn run(&self, command: &mut Command) -> Result<Process> {
        Process::run(command.stdout(self.log()?).stderr(self.log()?))
    }

    /// Starts the server and waits until it answers. One that ends is started again: after a SIGKILL the first tries may
    /// end at once, because the dead server's children are still about.
    pub(crate) async fn start<A>(&mut self, command: &mut Command, answer: impl Fn() -> A) -> Result<()>
    where
        A: Future<Output = Result<()>>,
    {
        let start = Instant::now();
        loop {
            if !self.is_running()? {
                self.process = Some(self.run(command)?);
            }
            let Err(error) = answer().await else {
                return Ok(());
            };
            if start.elapsed() > ANSWER_MAX {
                let log = fs::read_to_string(self.path("log")).unwrap_or_default();
                let doing = format!("wait for {command:?} to answer; its log: {log}");
                return Err(Error::caused(ErrorKind::Unavailable, doing, error));
            }
            sleep(LOOK).await;
        }
    }

    /// The server's process; none while it is stopped.
    pub(crate) fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Sends the server the signal to shut down in order, and waits until it has.
    pub(crate) async fn stop(&mut self, signal: &str) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.signal(signal)?;
            process.ended(ANSWER_MAX).await?;
        }
        Ok(())
    }

    /// SIGKILL of the server: what it had not written down is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill9()?;
        }
        Ok(())
    }

    fn is_running(&mut self) -> Result<bool> {
        match &mut self.process {
            Some(process) => Ok(process.status()?.is_none()),
            None => Ok(false),
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.process = None;
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "left a server's data behind");
        }
    }
}

/// The server a test asked for; without it the test has failed.
pub(crate) fn demand<S>(name: &str, server: Result<S>) -> S {
    server.unwrap_or_else(|error| panic!("start {name} for a test: {}", error.report()))
}

/// Ports that nobody uses now.
pub(crate) fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT]> {
    let mut ports = [0; COUNT];
    // All are held until all are found, so that none is found twice.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|source| failed("find a free port", source))?;
        let address = listener
            .local_addr()
            .map_err(|source| failed("find a free port", source))?;
        *port = address.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Says a first word to a server of this machine and reads the first bytes of its answer.
pub(crate) fn ask<const LENGTH: usize>(port: u16, word: &[u8]) -> Result<[u8; LENGTH]> {
    let say = || {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), WORD_MAX)?;
        stream.set_read_timeout(Some(WORD_MAX))?;
        stream.write_all(word)?;
        let mut answer = [0; LENGTH];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    say().map_err(|source| failed("ask a server", source))
}

/// Runs a program to its end and answers what it says.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let done = command
        .output()
        .map_err(|source| failed(format!("run {command:?}"), source))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&done.stderr);
    Err(Error::new(
        ErrorKind::Failed,
        format!("run {command:?}: {}: {said}{errors}", done.status),
    ))
}

/// The account of this name when we are root, nobody in particular otherwise.
pub(crate) fn user(name: &str) -> Result<Option<(u32, u32)>> {
    let me = fs::metadata("/proc/self").map_err(|source| failed("find out who we are", source))?;
    if me.uid() != 0 {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd").map_err(|source| failed("read /etc/passwd", source))?;
    let found = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let ids = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        is_it.then_some(ids)
    });
    found
        .map(Some)
        .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no account {name} to run the server as")))
}
