//! Redis, or its sibling Valkey, without persistence.

use anyhow::Result;

use super::daemon::Process;
use super::home::Home;
use super::root::Root;
use super::{About, Service, probe};

/// A server that speaks Redis's protocol.
pub(super) struct Redis {
    pub(super) name: &'static str,
    pub(super) release: Option<&'static str>,
    /// The program, which is also its package's name.
    pub(super) program: &'static str,
    pub(super) user: &'static str,
}

impl Service for Redis {
    fn about(&self) -> About {
        About {
            name: self.name,
            release: self.release,
            variable: "POSTROOM_TEST_REDIS_URL",
            user: Some(self.user),
            ports: 1,
            stop: "TERM",
            needs: None,
        }
    }

    fn missing(&self, root: &Root) -> Vec<&'static str> {
        if root.find(self.program).is_some() {
            vec![]
        } else {
            vec![self.program]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let mut server = home.command(home.find(self.program)?);
        server.args(["--bind", "127.0.0.1", "--port", &home.port().to_string()]);
        server
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"])
            .arg(home.data());
        Ok(vec![home.spawn(&mut server)?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        probe::ask(home.port(), b"PING\r\n") == Some(*b"+PONG")
    }

    fn url(&self, home: &Home) -> String {
        format!("redis://127.0.0.1:{}/", home.port())
    }
}
