//! MySQL with its own defaults: it writes a binary log, so who makes a trigger needs a right for it.

use anyhow::Result;

use super::daemon::Process;
use super::home::Home;
use super::root::Root;
use super::{About, Service, mariadb};
use crate::process;

/// One server.
pub(super) struct MySql {
    pub(super) name: &'static str,
    pub(super) release: Option<&'static str>,
}

impl Service for MySql {
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
        let programs = ["mysqld", "mysqladmin"];
        if programs.iter().all(|program| root.find(program).is_some()) {
            vec![]
        } else {
            vec!["mysql-server"]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let mut install = home.command(home.find("mysqld")?);
        install.args(["--no-defaults", "--initialize-insecure"]);
        process::output(install.arg(format!("--datadir={}", home.data().display())))?;
        let mut server = mariadb::server(home, "mysqld")?;
        Ok(vec![home.spawn(server.arg("--mysqlx=OFF"))?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        mariadb::answers(home, "mysqladmin")
    }

    fn url(&self, home: &Home) -> String {
        mariadb::url(home)
    }
}
