//! MariaDB, durable as in production, with a `postroom` user who may do everything and has no password; and what MySQL
//! shares with it.

use std::process::Command;

use anyhow::Result;

use super::daemon::Process;
use super::home::Home;
use super::root::Root;
use super::{About, Service};
use crate::process;

/// Run before the first connection is accepted, one statement per line.
const ACCOUNTS: &str = "\
create database if not exists postroom character set utf8mb4;
create user if not exists postroom@'%';
grant all privileges on *.* to postroom@'%' with grant option;
";

/// The settings of MariaDB and MySQL.
const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=512M",
    "--max-connections=400",
];

/// One server.
pub(super) struct MariaDb {
    pub(super) name: &'static str,
    pub(super) release: Option<&'static str>,
}

impl Service for MariaDb {
    fn about(&self) -> About {
        About {
            name: self.name,
            release: self.release,
            variable: "POSTROOM_TEST_MYSQL_URL",
            user: Some("mysql"),
            ports: 1,
            stop: "TERM",
            needs: None,
        }
    }

    fn missing(&self, root: &Root) -> Vec<&'static str> {
        let programs = ["mariadbd", "mariadb-install-db", "mariadb-admin"];
        if programs.iter().all(|program| root.find(program).is_some()) {
            vec![]
        } else {
            vec!["mariadb-server"]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let mut install = home.command(home.find("mariadb-install-db")?);
        install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        process::output(install.arg(format!("--datadir={}", home.data().display())))?;
        let mut server = server(home, "mariadbd")?;
        server.args(["--skip-log-bin", "--log-bin-trust-function-creators=1"]);
        Ok(vec![home.spawn(&mut server)?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        answers(home, "mariadb-admin")
    }

    fn url(&self, home: &Home) -> String {
        url(home)
    }
}

/// The server on the data that was installed.
pub(super) fn server(home: &Home, program: &str) -> Result<Command> {
    let accounts = home.write("accounts.sql", ACCOUNTS)?;
    let mut server = home.command(home.find(program)?);
    server.arg("--no-defaults").args(SETTINGS).args([
        format!("--datadir={}", home.data().display()),
        format!("--port={}", home.port()),
        format!("--socket={}", home.data().join("socket").display()),
        format!("--pid-file={}", home.data().join("pid").display()),
        format!("--init-file={}", accounts.display()),
    ]);
    Ok(server)
}

/// Whether the server answers its administrators' program.
pub(super) fn answers(home: &Home, program: &str) -> bool {
    let Ok(program) = home.find(program) else {
        return false;
    };
    let port = format!("--port={}", home.port());
    let mut ping = home.command(program);
    process::succeeds(ping.args(["--no-defaults", "--host=127.0.0.1", &port, "--user=postroom", "ping"]))
}

pub(super) fn url(home: &Home) -> String {
    format!("mysql://postroom@127.0.0.1:{}/postroom", home.port())
}
