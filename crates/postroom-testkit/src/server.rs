//! A private database server, for tests that take it away: stop, SIGKILL, restart.
//!
//! It has its own data and port, so nobody else's test notices. `fresh::postgres_on(&server.url())` makes a store on it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use postroom::Result;
use sea_orm::{ConnectOptions, Database};

use crate::fresh::variable;
use crate::home::{Home, demand, free_ports, output};

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
    home: Home,
    port: u16,
    settings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Postgres,
    Mariadb,
}

/// Starts a PostgreSQL with these settings besides the usual, for example `["wal_level=logical"]`.
pub async fn postgres(settings: &[&str]) -> Server {
    demand("PostgreSQL", Server::create(Kind::Postgres, settings).await)
}

/// Starts a MariaDB with these settings besides the usual, for example `["innodb-autoinc-lock-mode=2"]`.
pub async fn mariadb(settings: &[&str]) -> Server {
    demand("MariaDB", Server::create(Kind::Mariadb, settings).await)
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
        self.home.stop(signal).await
    }

    /// SIGKILL of the server: what it had not written down is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.home.kill()
    }

    /// Starts it again on the same data and port, after [`Server::stop`] or [`Server::kill`] (or stops it first), and
    /// waits until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        let mut server = match self.kind {
            Kind::Postgres => self.postgres(),
            Kind::Mariadb => self.mariadb(),
        };
        let url = self.url();
        self.home.start(&mut server, || connect(url.clone())).await
    }

    async fn create(kind: Kind, settings: &[&str]) -> Result<Self> {
        // Neither server runs as root.
        let account = match kind {
            Kind::Postgres => "postgres",
            Kind::Mariadb => "mysql",
        };
        let port = free_port()?;
        let mut server = Self {
            kind,
            home: Home::create(Some(account))?,
            port,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        };
        server.install()?;
        server.restart().await?;
        Ok(server)
    }

    /// Makes the data of an empty server.
    fn install(&self) -> Result<()> {
        let mut install = match self.kind {
            Kind::Postgres => {
                let mut initdb = self.home.command(postgres_program("initdb"));
                initdb.args(["--auth=trust", "--username=postgres", "--encoding=UTF8"]);
                initdb.args(["--no-locale", "--no-sync", "-D", "data"]);
                initdb
            }
            Kind::Mariadb => {
                self.home.write("accounts.sql", ACCOUNTS)?;
                let program = beside(&variable("POSTROOM_TEST_MARIADB_BIN"), "mariadb-install-db");
                let mut install = self.home.command(program);
                install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
                install.arg("--skip-test-db");
                install.arg(format!("--datadir={}", self.home.path("data").display()));
                install
            }
        };
        output(&mut install).map(|_said| ())
    }

    fn postgres(&self) -> Command {
        let mut server = self.home.command(postgres_program("postgres"));
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

    fn mariadb(&self) -> Command {
        let mut server = self.home.command(variable("POSTROOM_TEST_MARIADB_BIN"));
        let data = self.home.path("data");
        server.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
        server.args([
            "--skip-log-bin",
            "--character-set-server=utf8mb4",
            "--log-bin-trust-function-creators=1",
        ]);
        server.args([
            format!("--port={}", self.port),
            format!("--datadir={}", data.display()),
            format!("--socket={}", data.join("socket").display()),
            format!("--pid-file={}", data.join("pid").display()),
            format!("--init-file={}", self.home.path("accounts.sql").display()),
        ]);
        server.args(self.settings.iter().map(|setting| format!("--{setting}")));
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.kind == Kind::Postgres
            && let Some(process) = self.home.process()
            && process.signal("QUIT").is_ok()
        {
            // At once, and its children with it; they would write into the folder for a moment longer otherwise.
            if let Err(error) = process.child().wait() {
                tracing::debug!(%error, "a server could not be waited for");
            }
        }
    }
}

/// A port that nobody listens on now.
pub fn free_port() -> Result<u16> {
    let [port] = free_ports()?;
    Ok(port)
}

/// Connects once.
async fn connect(url: String) -> Result<()> {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(1)
        .sqlx_logging(false)
        .acquire_timeout(Duration::from_secs(2));
    let db = Database::connect(options).await?;
    db.ping().await?;
    Ok(db.close().await?)
}

fn postgres_program(name: &str) -> PathBuf {
    Path::new(&variable("POSTROOM_TEST_POSTGRES_BIN")).join(name)
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
