//! PgBouncer in front of our PostgreSQL, pooling by transaction: what a session holds is lost between two.

use anyhow::{Result, bail};

use super::daemon::Process;
use super::home::Home;
use super::root::Root;
use super::{About, Service, postgres};

/// A pooler before one of our servers.
pub(super) struct PgBouncer {
    pub(super) name: &'static str,
    pub(super) release: Option<&'static str>,
    /// The server behind it.
    pub(super) server: &'static str,
}

impl Service for PgBouncer {
    fn about(&self) -> About {
        About {
            name: self.name,
            release: self.release,
            variable: "POSTROOM_TEST_PGBOUNCER_URL",
            user: Some("postgres"),
            ports: 1,
            stop: "TERM",
            needs: Some(self.server),
        }
    }

    fn missing(&self, root: &Root) -> Vec<&'static str> {
        if root.find("pgbouncer").is_some() {
            vec![]
        } else {
            vec!["pgbouncer"]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let server = home.sibling(self.server);
        if !server.is_running() {
            bail!("{} does not run", self.server);
        }
        let users = home.write("users.txt", "\"postgres\" \"\"\n")?;
        let settings = format!(
            "[databases]\n\
             * = host=127.0.0.1 port={server_port} auth_user=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = trust\n\
             auth_file = {users}\n\
             admin_users = postgres\n\
             pool_mode = transaction\n\
             max_client_conn = 1000\n\
             default_pool_size = 20\n\
             max_db_connections = 40\n\
             server_idle_timeout = 10\n\
             server_login_retry = 1\n\
             ignore_startup_parameters = extra_float_digits\n\
             {by_hand}\n",
            // Newer ones keep track of prepared statements; ours must do without.
            by_hand = self.release.map_or("", |_| "max_prepared_statements = 0"),
            server_port = server.port(),
            port = home.port(),
            users = users.display(),
        );
        let settings = home.write("pgbouncer.ini", &settings)?;
        Ok(vec![home.spawn(home.command(home.find("pgbouncer")?).arg(settings))?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        postgres::answers(home, &self.url(home))
    }

    fn url(&self, home: &Home) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", home.port())
    }
}
