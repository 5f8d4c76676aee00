//! MariaDB, durable as in production, with a `postroom` user who may do everything and has no password.

use anyhow::{Context as _, Result};

use super::daemon::Process;
use super::home::Home;
use super::{About, Service};
use crate::process;

/// Run before the first connection is accepted, one statement per line.
const ACCOUNTS: &str = "\
create database if not exists postroom character set utf8mb4;
create user if not exists postroom@'%';
grant all privileges on *.* to postroom@'%' with grant option;
";

const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=512M",
    "--max-connections=400",
    "--skip-log-bin",
    "--log-bin-trust-function-creators=1",
];

pub(super) struct MariaDb;

impl Service for MariaDb {
    fn about(&self) -> About {
        About {
            name: "mariadb",
            variable: "POSTROOM_TEST_MYSQL_URL",
            user: Some("mysql"),
            ports: 1,
            stop: "TERM",
            needs: None,
        }
    }

    fn missing(&self) -> Vec<&'static str> {
        let programs = ["mariadbd", "mariadb-install-db", "mariadb-admin"];
        if programs.iter().all(|program| process::find(program).is_some()) {
            vec![]
        } else {
            vec!["mariadb-server"]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let install = process::find("mariadb-install-db").context("find mariadb-install-db")?;
        let mut install = home.command(install);
        install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        process::output(install.arg(format!("--datadir={}", home.data().display())))?;
        let accounts = home.write("accounts.sql", ACCOUNTS)?;
        let mut server = home.command(process::find("mariadbd").context("find mariadbd")?);
        server.arg("--no-defaults").args(SETTINGS).args([
            format!("--datadir={}", home.data().display()),
            format!("--port={}", home.port()),
            format!("--socket={}", home.data().join("socket").display()),
            format!("--pid-file={}", home.data().join("pid").display()),
            format!("--init-file={}", accounts.display()),
        ]);
        Ok(vec![home.spawn(&mut server)?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        let Some(program) = process::find("mariadb-admin") else {
            return false;
        };
        let port = format!("--port={}", home.port());
        let mut ping = home.command(program);
        process::succeeds(ping.args(["--no-defaults", "--host=127.0.0.1", &port, "--user=postroom", "ping"]))
    }

    fn url(&self, home: &Home) -> String {
        format!("mysql://postroom@127.0.0.1:{}/postroom", home.port())
    }
}
