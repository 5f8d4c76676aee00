//! A private database server, for tests that take it away: stop, SIGKILL, restart.
//!
//! It has its own data and port, so nobody else's test notices. `fresh::postgres_on(&server.url())` makes a store on it.

#![expect(clippy::panic, reason = "a test harness: a test without its server has failed")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use sea_orm::{ConnectOptions, Database};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::fresh::variable;
use crate::process::Process;

/// A server that has not answered, or not ended, by then is broken.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Run before MariaDB accepts its first connection.
const ACCOUNTS: &str = "\
create database if not exists postroom character set utf8mb4;
create user if not exists postroom@'%';
grant all privileges on *.* to postroom@'%' with grant option;
";

/// A database server of this test alone. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    /// Whom it runs as when we are root: neither server runs as root.
    user: Option<(u32, u32)>,
    process: Option<Process>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Postgres,
    Mariadb,
}

/// Starts a PostgreSQL with these settings besides the usual, for example `["wal_level=logical"]`.
pub async fn postgres(settings: &[&str]) -> Server {
    Server::create(Kind::Postgres, settings).await
}

/// Starts a MariaDB with these settings besides the usual, for example `["innodb-autoinc-lock-mode=2"]`.
pub async fn mariadb(settings: &[&str]) -> Server {
    Server::create(Kind::Mariadb, settings).await
}

impl Server {
    /// The address of its first database, with every right on the server.
    pub fn url(&self) -> String {
        match self.kind {
            Kind::Postgres => format!("postgres://postgres@127.0.0.1:{}/postgres", self.port),
            Kind::Mariadb => format!("mysql://postroom@127.0.0.1:{}/postroom", self.port),
        }
    }

    /// Shuts down in order, at once: open transactions are rolled back, clients are cut off.
    pub async fn stop(&mut self) -> Result<()> {
        let signal = match self.kind {
            Kind::Postgres => "INT",
            Kind::Mariadb => "TERM",
        };
        if let Some(mut process) = self.process.take() {
            process.signal(signal)?;
            process.ended(ANSWER_MAX).await?;
        }
        Ok(())
    }

    /// SIGKILL of the server: what it had not written down is gone.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill9()?;
        }
        Ok(())
    }

    /// Starts it again on the same data and port, after [`Server::stop`] or [`Server::kill`] (or stops it first), and
    /// waits until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        let start = Instant::now();
        loop {
            let error = match self.answer().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if start.elapsed() > ANSWER_MAX {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(Error::caused(
                    ErrorKind::Unavailable,
                    format!("start {:?}; its log: {log}", self.kind),
                    error,
                ));
            }
            sleep(LOOK).await;
        }
    }

    async fn create(kind: Kind, settings: &[&str]) -> Self {
        let folder = Path::new(&variable("POSTROOM_TEST_SERVICES_DIR")).join(Uuid::now_v7().simple().to_string());
        let mut server = Self {
            kind,
            folder,
            port: 0,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            user: None,
            process: None,
        };
        if let Err(error) = server.install() {
            panic!("install {kind:?} for a test: {}", error.report());
        }
        if let Err(error) = server.restart().await {
            panic!("start {kind:?} for a test: {}", error.report());
        }
        server
    }

    fn install(&mut self) -> Result<()> {
        self.port = free_port()?;
        self.user = user(match self.kind {
            Kind::Postgres => "postgres",
            Kind::Mariadb => "mysql",
        })?;
        fs::create_dir_all(&self.folder).map_err(|source| failed("make the server's folder", source))?;
        fs::write(self.folder.join("accounts.sql"), ACCOUNTS).map_err(|source| failed("write the accounts", source))?;
        if let Some((uid, gid)) = self.user {
            chown(&self.folder, Some(uid), Some(gid))
                .map_err(|source| failed("give the folder to the server", source))?;
        }
        let mut install = match self.kind {
            Kind::Postgres => {
                let mut initdb = self.command(&Path::new(&variable("POSTROOM_TEST_POSTGRES_BIN")).join("initdb"));
                initdb.args([
                    "--auth=trust",
                    "--username=postgres",
                    "--encoding=UTF8",
                    "--no-locale",
                    "--no-sync",
                    "-D",
                    "data",
                ]);
                initdb
            }
            Kind::Mariadb => {
                let mut install = self.command(&beside(&variable("POSTROOM_TEST_MARIADB_BIN"), "mariadb-install-db"));
                install.args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ]);
                install.arg(format!("--datadir={}", self.folder.join("data").display()));
                install
            }
        };
        let done = install
            .output()
            .map_err(|source| failed("install the server's data", source))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(Error::new(
            ErrorKind::Failed,
            format!("install the server's data: {}: {said}", done.status),
        ))
    }

    /// Runs the server if it does not run, and connects once. After a SIGKILL the first tries may end at once, because
    /// the dead server's children are still about.
    async fn answer(&mut self) -> Result<()> {
        let is_running = match &mut self.process {
            Some(process) => process.status()?.is_none(),
            None => false,
        };
        if !is_running {
            self.process = Some(Process::run(&mut self.server_command()?)?);
        }
        let mut options = ConnectOptions::new(self.url());
        options
            .max_connections(1)
            .sqlx_logging(false)
            .acquire_timeout(Duration::from_secs(2));
        let db = Database::connect(options).await?;
        db.ping().await?;
        Ok(db.close().await?)
    }

    fn server_command(&self) -> Result<Command> {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(self.folder.join("log"));
        let log = log.map_err(|source| failed("open the server's log", source))?;
        let errors = log
            .try_clone()
            .map_err(|source| failed("open the server's log", source))?;
        let mut command = match self.kind {
            Kind::Postgres => {
                let mut server = self.command(&Path::new(&variable("POSTROOM_TEST_POSTGRES_BIN")).join("postgres"));
                server.args(["-D", "data", "-p", &self.port.to_string()]);
                for setting in [
                    "listen_addresses=127.0.0.1",
                    "unix_socket_directories=",
                    "max_prepared_transactions=50",
                ] {
                    server.args(["-c", setting]);
                }
                server.args(self.settings.iter().flat_map(|setting| ["-c", setting]));
                server
            }
            Kind::Mariadb => {
                let mut server = self.command(Path::new(&variable("POSTROOM_TEST_MARIADB_BIN")));
                let data = self.folder.join("data");
                server.args([
                    "--no-defaults",
                    "--bind-address=127.0.0.1",
                    "--skip-name-resolve",
                    "--skip-log-bin",
                ]);
                server.args(["--character-set-server=utf8mb4", "--log-bin-trust-function-creators=1"]);
                server.args([
                    format!("--port={}", self.port),
                    format!("--datadir={}", data.display()),
                    format!("--socket={}", data.join("socket").display()),
                    format!("--pid-file={}", data.join("pid").display()),
                    format!("--init-file={}", self.folder.join("accounts.sql").display()),
                ]);
                server.args(self.settings.iter().map(|setting| format!("--{setting}")));
                server
            }
        };
        command.stdout(log).stderr(errors);
        Ok(command)
    }

    /// A program in the server's folder, as the server's user.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .stdin(Stdio::null());
        // A MariaDB that starts removes the temporary tables of any other that shares its folder for them.
        command.env("TMPDIR", &self.folder);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.kind == Kind::Postgres
            && let Some(process) = &mut self.process
            && process.signal("QUIT").is_ok()
        {
            // At once, and its children with it; they would write into the folder for a moment longer otherwise.
            if let Err(error) = process.child().wait() {
                tracing::debug!(%error, "a server could not be waited for");
            }
        }
        self.process = None;
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "left a server's data behind");
        }
    }
}

/// A port that nobody listens on now.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|source| failed("find a free port", source))?;
    Ok(listener
        .local_addr()
        .map_err(|source| failed("find a free port", source))?
        .port())
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

/// The program in the folder of another one if it is there, otherwise wherever the PATH finds it.
fn beside(program: &str, name: &str) -> PathBuf {
    let neighbour = Path::new(program).with_file_name(name);
    if neighbour.exists() {
        neighbour
    } else {
        PathBuf::from(name)
    }
}

pub(crate) fn failed(doing: impl Into<String>, source: std::io::Error) -> Error {
    Error::caused(ErrorKind::Failed, doing, source)
}
