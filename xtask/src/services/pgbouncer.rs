//! PgBouncer in front of our PostgreSQL, pooling by transaction: what a session holds is lost between two.

use anyhow::{Context as _, Result, bail};

use super::daemon::Process;
use super::home::Home;
use super::{About, Service, postgres};
use crate::process;

pub(super) struct PgBouncer;

impl Service for PgBouncer {
    fn about(&self) -> About {
        About {
            name: "pgbouncer",
            variable: "POSTROOM_TEST_PGBOUNCER_URL",
            user: Some("postgres"),
            ports: 1,
            stop: "TERM",
            needs: Some("postgres"),
        }
    }

    fn missing(&self) -> Vec<&'static str> {
        if process::find("pgbouncer").is_some() {
            vec![]
        } else {
            vec!["pgbouncer"]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let server = home.sibling("postgres");
        if !server.is_running() {
            bail!("postgres does not run");
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
             ignore_startup_parameters = extra_float_digits\n",
            server_port = server.port(),
            port = home.port(),
            users = users.display(),
        );
        let settings = home.write("pgbouncer.ini", &settings)?;
        let program = process::find("pgbouncer").context("find pgbouncer")?;
        Ok(vec![home.spawn(home.command(program).arg(settings))?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        postgres::answers(home, &self.url(home))
    }

    fn url(&self, home: &Home) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", home.port())
    }
}
